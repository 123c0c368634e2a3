// A call that all ranks of a communicator make: what it is given, and the task that comes of it.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/device_memory.hpp"
#include "hccl/checks.hpp"
#include "hccl/reduce.hpp"

namespace sim::hccl {

// Where a host reaches a device address.
inline char *alias(const void *address) { return static_cast<char *>(hostAlias(address)); }

class Collective {
   public:
    Collective(const char *api, Operation operation, HcclComm comm, aclrtStream stream)
        : api_(api), communicator_(findCommunicator(comm)), stream_(findStream(stream)), terms_{operation, {}} {}

    void elements(uint64_t count, HcclDataType dataType, uint32_t detail = 0) {
        checkCount(count);
        checkDataType(dataType);
        terms_.dataType = dataType;
        terms_.detail = detail;
        terms_.bytes = count * elementBytes(dataType);
    }

    uint64_t bytes() const { return terms_.bytes; }
    uint32_t rank() const { return communicator_->rank(); }
    uint32_t size() const { return communicator_->size(); }
    const Communicator &communicator() const { return *communicator_; }

    void reads(const char *name, const void *address, uint64_t bytes) {
        task_.buffers.push_back({name, address, bytes, Use::Read});
    }
    void writes(const char *name, const void *address, uint64_t bytes) {
        task_.buffers.push_back({name, address, bytes, Use::Write});
    }
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
        reportHostPointers(task_.buffers);
        launch(api_, communicator_, stream_, std::move(task_));
    }

    template <typename Visit>
    void forOthers(Visit visit) {
        for (uint32_t peer = 0; peer < size(); ++peer) {
            if (peer != rank()) visit(peer);
        }
    }

   private:
    const char *api_;
    std::shared_ptr<Communicator> communicator_;
    std::shared_ptr<Stream> stream_;
    Terms terms_;
    Task task_;
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
        const uint64_t count = bytes_ / elementBytes(dataType);
        for (size_t i = 1; i < parts_.size(); ++i) reduce(dataType, op, parts_[0].data(), parts_[i].data(), count);
        std::memcpy(alias(result), parts_[0].data(), bytes_);
    }

   private:
    const uint32_t rank_;
    const uint64_t bytes_;
    std::vector<std::vector<char>> parts_;
};

}  // namespace sim::hccl
