// HcclSend, HcclRecv and HcclBatchSendRecv.
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "core/device_memory.hpp"
#include "hccl/checks.hpp"
#include "hccl/hccl.h"
#include "hccl/reduce.hpp"

namespace hccl = sim::hccl;
using hccl::Communicator;
using hccl::Operation;
using hccl::Transfer;
using sim::Rejection;

namespace {

struct Message {
    const char *name;  // of the buffer
    void *buffer;
    uint64_t count;
    HcclDataType dataType;
    bool sends;

    uint64_t bytes() const { return count * hccl::elementBytes(dataType); }
    hccl::Buffer range() const { return {name, buffer, bytes(), sends ? hccl::Use::Read : hccl::Use::Write}; }
    Transfer to(uint32_t peer, Operation operation) const {
        return {sends, peer, static_cast<char *>(sim::hostAlias(buffer)), {operation, dataType, 0, bytes()}};
    }
};

void refuseSelf(const char *name, uint32_t peer, const Communicator &communicator, HcclResult status) {
    if (peer == communicator.rank()) {
        throw Rejection{status, std::string(name) + " is the rank itself; HcclBatchSendRecv can do that"};
    }
}

void sendOrReceive(const char *api, const Message &message, const char *peerName, uint32_t peer, HcclComm comm,
                   aclrtStream stream) {
    auto communicator = hccl::findCommunicator(comm);
    hccl::checkPointer(message.name, message.buffer);
    if (!hccl::isNewFlow()) hccl::checkPointer("stream", stream);
    hccl::checkCount(message.count);
    hccl::checkDataType(message.dataType);
    if (hccl::isNewFlow()) refuseSelf(peerName, peer, *communicator, HCCL_E_NOT_SUPPORT);
    if (!hccl::isNewFlow()) hccl::findStream(stream);
    hccl::checkRank(peerName, peer, *communicator);
    refuseSelf(peerName, peer, *communicator, HCCL_E_PARA);
    auto target = hccl::findStream(stream);
    hccl::reportHostPointers({message.range()});
    hccl::launch(api, communicator, target, {{message.range()}, {message.to(peer, Operation::SendRecv)}, nullptr});
}

// What a rank sends to itself is copied, in order.
std::function<void()> copiesToSelf(const std::deque<Message> &sent, const std::deque<Message> &received) {
    if (sent.size() != received.size()) {
        throw Rejection{HCCL_E_PARA, "the rank sends " + std::to_string(sent.size()) + " messages to itself and receives " +
                                         std::to_string(received.size())};
    }
    for (size_t i = 0; i < sent.size(); ++i) {
        if (sent[i].count != received[i].count || sent[i].dataType != received[i].dataType) {
            throw Rejection{HCCL_E_PARA, "message " + std::to_string(i) + " of the rank to itself has another count or "
                                             "dataType where it is received"};
        }
    }
    if (sent.empty()) return nullptr;
    return [sent, received] {
        for (size_t i = 0; i < sent.size(); ++i) {
            std::memmove(sim::hostAlias(received[i].buffer), sim::hostAlias(sent[i].buffer), sent[i].bytes());
        }
    };
}

void checkItem(const HcclSendRecvItem &item, const Communicator &communicator) {
    hccl::checkDataType(item.dataType);
    hccl::checkCount(item.count);
    hccl::checkRank("remoteRank", item.remoteRank, communicator);
}

void batch(const char *api, const HcclSendRecvItem *items, uint32_t itemNum, HcclComm comm, aclrtStream stream) {
    if (itemNum == 0 && hccl::isNewFlow()) return;
    auto communicator = hccl::findCommunicator(comm);
    hccl::checkPointer("stream", stream);
    hccl::checkPointer("sendRecvInfo", items);
    for (uint32_t i = 0; i < itemNum; ++i) {
        if (items[i].buf != nullptr) checkItem(items[i], *communicator);
    }
    auto target = hccl::findStream(stream);
    hccl::Task task;
    std::deque<Message> sent, received;  // to and from the rank itself
    for (uint32_t i = 0; i < itemNum; ++i) {
        const HcclSendRecvItem &item = items[i];
        hccl::checkPointer("buf", item.buf);
        if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV) {
            throw Rejection{HCCL_E_PARA, "sendRecvType is " + std::to_string(item.sendRecvType) + "; 0 and 1 exist"};
        }
        Message message{"buf", item.buf, item.count, item.dataType, item.sendRecvType == HCCL_SEND};
        if (message.count == 0) continue;
        task.buffers.push_back(message.range());
        if (item.remoteRank == communicator->rank()) {
            (message.sends ? sent : received).push_back(message);
        } else {
            task.transfers.push_back(message.to(item.remoteRank, Operation::BatchSendRecv));
        }
    }
    task.finish = copiesToSelf(sent, received);
    hccl::reportHostPointers(task.buffers);
    if (itemNum > 0) hccl::launch(api, communicator, target, std::move(task));
}

}  // namespace

HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream) {
    SIM_API;
    if (count == 0) return HCCL_SUCCESS;
    return hccl::guarded(__func__, [&] {
        sendOrReceive("HcclSend", {"sendBuf", sendBuf, count, dataType, true}, "destRank", destRank, comm, stream);
    });
}

HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream) {
    SIM_API;
    if (count == 0) return HCCL_SUCCESS;
    return hccl::guarded(__func__, [&] {
        sendOrReceive("HcclRecv", {"recvBuf", recvBuf, count, dataType, false}, "srcRank", srcRank, comm, stream);
    });
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream) {
    SIM_API;
    return hccl::guarded(__func__, [&] { batch("HcclBatchSendRecv", sendRecvInfo, itemNum, comm, stream); });
}
