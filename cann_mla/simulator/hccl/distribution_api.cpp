// Operations after which each rank has a part of its own.
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "hccl/collective.hpp"
#include "hccl/hccl.h"

namespace hccl = sim::hccl;
using hccl::alias;
using hccl::Collective;
using hccl::Contributions;
using hccl::Operation;
using sim::Rejection;

namespace {

void checkSame(const char *what, uint64_t send, uint64_t receive) {
    if (send != receive) {
        throw Rejection{HCCL_E_PARA, std::string("send") + what + " is " + std::to_string(send) + ", recv" + what + " is " +
                                         std::to_string(receive) + "; they must be equal"};
    }
}

void checkApart(const void *sendBuf, const void *recvBuf) {
    if (sendBuf == recvBuf) throw Rejection{HCCL_E_PARA, "sendBuf and recvBuf are the same"};
}

}  // namespace

HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream) {
    SIM_API;
    if (recvCount == 0) return HCCL_SUCCESS;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("sendBuf", sendBuf);
        hccl::checkPointer("recvBuf", recvBuf);
        Collective call("HcclReduceScatter", Operation::ReduceScatter, comm, stream);
        call.elements(recvCount, dataType, op);
        hccl::checkReduction(dataType, op);
        call.reads("sendBuf", sendBuf, call.bytes() * call.size());
        call.writes("recvBuf", recvBuf, call.bytes());
        auto piece = [sendBuf, bytes = call.bytes()](uint32_t rank) { return static_cast<char *>(sendBuf) + rank * bytes; };
        call.forOthers([&](uint32_t peer) { call.sendTo(peer, piece(peer)); });
        auto parts = std::make_shared<Contributions>(call);
        call.start([=, own = piece(call.rank())] { parts->reduceTo(own, recvBuf, dataType, op); });
    });
}

HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
    SIM_API;
    if (count == 0) return HCCL_SUCCESS;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("sendBuf", sendBuf);
        hccl::checkPointer("recvBuf", recvBuf);
        Collective call("HcclReduce", Operation::Reduce, comm, stream);
        call.elements(count, dataType, root << 8 | op);
        hccl::checkReduction(dataType, op);
        hccl::checkRank("root", root, call.communicator());
        call.reads("sendBuf", sendBuf, call.bytes());
        if (call.rank() != root) {
            call.sendTo(root, sendBuf);
            return call.start();
        }
        call.writes("recvBuf", recvBuf, call.bytes());
        auto parts = std::make_shared<Contributions>(call);
        call.start([=] { parts->reduceTo(sendBuf, recvBuf, dataType, op); });
    });
}

HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream) {
    SIM_API;
    if (recvCount == 0) return HCCL_SUCCESS;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("recvBuf", recvBuf);
        Collective call("HcclScatter", Operation::Scatter, comm, stream);
        call.elements(recvCount, dataType, root);
        hccl::checkRank("root", root, call.communicator());
        call.writes("recvBuf", recvBuf, call.bytes());
        if (call.rank() != root) {
            call.receiveFrom(root, recvBuf);
            return call.start();
        }
        hccl::checkPointer("sendBuf", sendBuf);
        call.reads("sendBuf", sendBuf, call.bytes() * call.size());
        auto piece = [sendBuf, bytes = call.bytes()](uint32_t rank) { return static_cast<char *>(sendBuf) + rank * bytes; };
        call.forOthers([&](uint32_t peer) { call.sendTo(peer, piece(peer)); });
        call.start([own = piece(root), recvBuf, bytes = call.bytes()] { std::memmove(alias(recvBuf), alias(own), bytes); });
    });
}

HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    SIM_API;
    if (sendCount == 0 && recvCount == 0) return HCCL_SUCCESS;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("sendBuf", sendBuf);
        hccl::checkPointer("recvBuf", recvBuf);
        checkSame("Count", sendCount, recvCount);
        checkSame("Type", sendType, recvType);
        hccl::checkPointer("stream", stream);
        hccl::checkPointer("comm", comm);
        checkApart(sendBuf, recvBuf);
        Collective call("HcclAlltoAll", Operation::AlltoAll, comm, stream);
        call.elements(sendCount, sendType);
        const uint64_t bytes = call.bytes();
        call.reads("sendBuf", sendBuf, bytes * call.size());
        call.writes("recvBuf", recvBuf, bytes * call.size());
        auto piece = [bytes](const void *buffer, uint32_t rank) {
            return alias(static_cast<const char *>(buffer) + rank * bytes);
        };
        call.forOthers([&](uint32_t peer) {
            call.move(true, peer, piece(sendBuf, peer), call.termsOf(bytes));
            call.move(false, peer, piece(recvBuf, peer), call.termsOf(bytes));
        });
        call.start([=, rank = call.rank()] { std::memcpy(piece(recvBuf, rank), piece(sendBuf, rank), bytes); });
    });
}

HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType,
                         const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType,
                         HcclComm comm, aclrtStream stream) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        for (auto [name, array] : {std::pair{"sendCounts", sendCounts}, {"sdispls", sdispls}, {"recvCounts", recvCounts},
                                   {"rdispls", rdispls}}) {
            hccl::checkPointer(name, array);
        }
        checkSame("Type", sendType, recvType);
        Collective call("HcclAlltoAllV", Operation::AlltoAllV, comm, stream);
        call.elements(0, sendType);
        const uint64_t element = hccl::elementBytes(sendType);
        // Counts and displacements are host arrays of uint64_t, in elements.
        auto at = [&](const void *array, uint32_t rank) { return static_cast<const uint64_t *>(array)[rank]; };
        auto side = [&](bool sends, uint32_t peer) {
            const void *buffer = sends ? sendBuf : recvBuf;
            const uint64_t count = at(sends ? sendCounts : recvCounts, peer);
            const char *name = sends ? "sendBuf" : "recvBuf";
            hccl::checkCount(count);
            if (count == 0) return std::pair<char *, uint64_t>(nullptr, 0);
            hccl::checkPointer(name, buffer);
            const void *first = static_cast<const char *>(buffer) + at(sends ? sdispls : rdispls, peer) * element;
            sends ? call.reads(name, first, count * element) : call.writes(name, first, count * element);
            return std::pair<char *, uint64_t>(alias(first), count * element);
        };
        call.forOthers([&](uint32_t peer) {
            for (bool sends : {true, false}) {
                auto [data, bytes] = side(sends, peer);
                call.move(sends, peer, data, call.termsOf(bytes));
            }
        });
        auto from = side(true, call.rank()), to = side(false, call.rank());
        checkSame("Counts of the rank to itself", from.second, to.second);
        call.start([from, to] {
            if (from.second > 0) std::memmove(to.first, from.first, from.second);
        });
    });
}
