// Data on its way between ranks: what every HCCL operation comes down to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hccl/communicator.hpp"

namespace sim::hccl {

// Operations that only meet their own kind.
enum class Operation : uint32_t {
    SendRecv,
    BatchSendRecv,
    AllGather,
    AllReduce,
    Broadcast,
    Barrier,
    ReduceScatter,
    Reduce,
    Scatter,
    AlltoAll,
    AlltoAllV,
    Count,
};

// What both sides of a transfer say before it begins; they must agree.
struct Terms {
    Operation operation;
    HcclDataType dataType;
    uint32_t detail = 0;  // the reduction or the root, where there is one
    uint64_t bytes = 0;
};

struct Transfer {
    bool sends;
    uint32_t peer;
    char *data;  // where a host reaches it
    Terms terms;
};

enum class Use { Read, Write };

// Device memory that a task uses, as the caller named it.
struct Buffer {
    const char *name;
    const void *address;
    uint64_t bytes;
    Use use;
};

// What an operation does when its turn comes on the stream.
struct Task {
    std::vector<Buffer> buffers;      // checked first
    std::vector<Transfer> transfers;  // at the same time; those between the same ranks, same direction, in order
    std::function<void()> finish;     // then this, if it is given
};

// Queues the task. A sender waits until the receiver has come to the same transfer, and both give up after
// HCCL_EXEC_TIMEOUT.
void launch(const char *api, std::shared_ptr<Communicator> communicator, const std::shared_ptr<Stream> &stream,
            Task task);

}  // namespace sim::hccl
