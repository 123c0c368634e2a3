// Operations after which all ranks have the same.
#include <cstring>
#include <memory>

#include "hccl/collective.hpp"
#include "hccl/hccl.h"

namespace hccl = sim::hccl;
using hccl::alias;
using hccl::Collective;
using hccl::Contributions;
using hccl::Operation;

HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
                         aclrtStream stream) {
    SIM_API;
    if (sendCount == 0) return HCCL_SUCCESS;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("sendBuf", sendBuf);
        hccl::checkPointer("recvBuf", recvBuf);
        Collective call("HcclAllGather", Operation::AllGather, comm, stream);
        call.elements(sendCount, dataType);
        call.reads("sendBuf", sendBuf, call.bytes());
        call.writes("recvBuf", recvBuf, call.bytes() * call.size());
        auto place = [recvBuf, bytes = call.bytes()](uint32_t rank) { return static_cast<char *>(recvBuf) + rank * bytes; };
        call.forOthers([&](uint32_t peer) {
            call.sendTo(peer, sendBuf);
            call.receiveFrom(peer, place(peer));
        });
        call.start([own = place(call.rank()), sendBuf, bytes = call.bytes()] {
            std::memmove(alias(own), alias(sendBuf), bytes);
        });
    });
}

HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
    SIM_API;
    if (count == 0) return HCCL_SUCCESS;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("sendBuf", sendBuf);
        hccl::checkPointer("recvBuf", recvBuf);
        Collective call("HcclAllReduce", Operation::AllReduce, comm, stream);
        call.elements(count, dataType, op);
        hccl::checkReduction(dataType, op);
        call.reads("sendBuf", sendBuf, call.bytes());
        call.writes("recvBuf", recvBuf, call.bytes());
        call.forOthers([&](uint32_t peer) { call.sendTo(peer, sendBuf); });
        auto parts = std::make_shared<Contributions>(call);
        call.start([=] { parts->reduceTo(sendBuf, recvBuf, dataType, op); });
    });
}

HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
    SIM_API;
    if (count == 0) return HCCL_SUCCESS;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("buf", buf);
        Collective call("HcclBroadcast", Operation::Broadcast, comm, stream);
        if (hccl::isNewFlow()) hccl::checkRank("root", root, call.communicator());
        call.elements(count, dataType, root);
        hccl::checkRank("root", root, call.communicator());
        if (call.rank() == root) {
            call.reads("buf", buf, call.bytes());
            call.forOthers([&](uint32_t peer) { call.sendTo(peer, buf); });
        } else {
            call.writes("buf", buf, call.bytes());
            call.receiveFrom(root, buf);
        }
        call.start();
    });
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        Collective call("HcclBarrier", Operation::Barrier, comm, stream);
        call.forOthers([&](uint32_t peer) {
            for (bool sends : {true, false}) call.move(sends, peer, nullptr, call.termsOf(0));
        });
        call.start();
    });
}
