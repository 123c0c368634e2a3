// Operations that all ranks of a communicator take part in.
#include <cstring>
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
using hccl::Terms;
using sim::Rejection;

namespace {

char *alias(const void *address) { return static_cast<char *>(sim::hostAlias(address)); }

// One call: what it is given, and the task that comes of it.
class Collective {
   public:
    Collective(const char *api, Operation operation, HcclComm comm, aclrtStream stream)
        : api_(api), communicator_(hccl::findCommunicator(comm)), stream_(hccl::findStream(stream)), terms_{operation, {}} {}

    void elements(uint64_t count, HcclDataType dataType, uint32_t detail = 0) {
        hccl::checkCount(count);
        hccl::checkDataType(dataType);
        terms_.dataType = dataType;
        terms_.detail = detail;
        terms_.bytes = count * hccl::elementBytes(dataType);
    }

    uint64_t bytes() const { return terms_.bytes; }
    uint32_t rank() const { return communicator_->rank(); }
    uint32_t size() const { return communicator_->size(); }
    const Communicator &communicator() const { return *communicator_; }

    void uses(const char *name, const void *address, uint64_t bytes) { task_.buffers.push_back({name, address, bytes}); }
    void sendTo(uint32_t peer, const void *data) { move(true, peer, alias(data), terms_); }
    void receiveFrom(uint32_t peer, void *data) { move(false, peer, alias(data), terms_); }
    // Into host memory that the caller keeps until `finish`.
    void receiveInto(uint32_t peer, char *data) { move(false, peer, data, terms_); }
    // With another size than the others.
    void move(bool sends, uint32_t peer, char *data, Terms terms) { task_.transfers.push_back({sends, peer, data, terms}); }
    Terms termsOf(uint64_t bytes) const {
        Terms terms = terms_;
        terms.bytes = bytes;
        return terms;
    }

    void start(std::function<void()> finish = nullptr) {
        task_.finish = std::move(finish);
        hccl::reportHostPointers(task_.buffers);
        hccl::launch(api_, communicator_, stream_, std::move(task_));
    }

    template <typename Use>
    void forOthers(Use use) {
        for (uint32_t peer = 0; peer < size(); ++peer) {
            if (peer != rank()) use(peer);
        }
    }

   private:
    const char *api_;
    std::shared_ptr<Communicator> communicator_;
    std::shared_ptr<sim::Stream> stream_;
    Terms terms_;
    hccl::Task task_;
};

// What the other ranks send for a reduction. Reduced in the order of the ranks, so that all ranks get the same bits.
class Contributions {
   public:
    explicit Contributions(Collective &call) : rank_(call.rank()), bytes_(call.bytes()), parts_(call.size()) {
        call.forOthers([&](uint32_t peer) {
            parts_[peer].resize(bytes_);
            call.receiveInto(peer, parts_[peer].data());
        });
    }

    void reduceTo(const void *own, void *result, HcclDataType dataType, HcclReduceOp op) {
        parts_[rank_].assign(alias(own), alias(own) + bytes_);
        const uint64_t count = bytes_ / hccl::elementBytes(dataType);
        for (size_t i = 1; i < parts_.size(); ++i) hccl::reduce(dataType, op, parts_[0].data(), parts_[i].data(), count);
        std::memcpy(alias(result), parts_[0].data(), bytes_);
    }

   private:
    const uint32_t rank_;
    const uint64_t bytes_;
    std::vector<std::vector<char>> parts_;
};

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
        call.uses("sendBuf", sendBuf, call.bytes());
        call.uses("recvBuf", recvBuf, call.bytes() * call.size());
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
        call.uses("sendBuf", sendBuf, call.bytes());
        call.uses("recvBuf", recvBuf, call.bytes());
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
        call.uses("buf", buf, call.bytes());
        if (call.rank() == root) {
            call.forOthers([&](uint32_t peer) { call.sendTo(peer, buf); });
        } else {
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
        call.uses("sendBuf", sendBuf, call.bytes() * call.size());
        call.uses("recvBuf", recvBuf, call.bytes());
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
        call.uses("sendBuf", sendBuf, call.bytes());
        if (call.rank() != root) {
            call.sendTo(root, sendBuf);
            return call.start();
        }
        call.uses("recvBuf", recvBuf, call.bytes());
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
        call.uses("recvBuf", recvBuf, call.bytes());
        if (call.rank() != root) {
            call.receiveFrom(root, recvBuf);
            return call.start();
        }
        hccl::checkPointer("sendBuf", sendBuf);
        call.uses("sendBuf", sendBuf, call.bytes() * call.size());
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
        call.uses("sendBuf", sendBuf, bytes * call.size());
        call.uses("recvBuf", recvBuf, bytes * call.size());
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
            call.uses(name, first, count * element);
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
