// A communicator: one rank's connections to all others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/handles.hpp"
#include "hccl/hccl_types.h"
#include "hccl/rendezvous.hpp"
#include "hccl/socket.hpp"

namespace sim::hccl {

// One connection a direction, so that what is sent to a rank never mixes with what comes from it.
struct Lane {
    Socket socket;
    bool taken = false;  // by a task that moves data there
};

struct Link {
    Lane out;
    Lane in;
};

class Communicator : public Object {
   public:
    Communicator(uint32_t rank, int32_t device, std::string name, std::vector<Link> links, Timeouts timeouts);

    // Meets the other ranks and connects to all of them. Throws Rejection.
    static std::shared_ptr<Communicator> make(const HcclRootInfo &rootInfo, uint32_t ranks, uint32_t rank,
                                              int32_t device, const std::string &name);

    std::string text() const override { return "rank " + std::to_string(rank()) + " of " + std::to_string(size()); }
    uint32_t rank() const { return rank_; }
    uint32_t size() const { return static_cast<uint32_t>(links_.size()); }
    int32_t device() const { return device_; }
    const std::string &name() const { return name_; }
    // How long a task may wait for other ranks; 0: for ever.
    std::chrono::milliseconds executeTimeout() const { return timeouts_.execute; }
    Link &link(uint32_t rank) { return links_[rank]; }

    // Takes all lanes at once, as soon as no other task has one of them; false when `stop` says to give up.
    bool take(const std::vector<Lane *> &lanes, const std::function<bool()> &stop);
    void giveBack(const std::vector<Lane *> &lanes);

    // After this no transfer will work: the lanes may have stopped in the middle of a message. The other ranks notice.
    void breakDown(HcclResult error, const std::string &why);
    HcclResult error();
    // Why it is broken; empty while it is not.
    std::string whyBroken();

    std::atomic<int> queued{0};  // tasks on streams that are not over

   private:
    const uint32_t rank_;
    const int32_t device_;
    const std::string name_;
    const Timeouts timeouts_;
    std::vector<Link> links_;  // by rank; empty at the own rank
    std::mutex mutex_;
    std::condition_variable lanesFree_;
    HcclResult error_ = HCCL_SUCCESS;
    std::string why_;
};

}  // namespace sim::hccl
