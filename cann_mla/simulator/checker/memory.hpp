// What the checker remembers of each allocation, living or freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "checker/accesses.hpp"
#include "checker/written.hpp"
#include "core/origin.hpp"

namespace sim::checker {

constexpr int32_t kHostMemory = -1;

struct Memory {
    uintptr_t begin = 0;
    size_t size = 0;
    int32_t device = kHostMemory;  // or pinned memory of the host
    Origin made;
    Origin freed;                  // the call that freed it, or queued its freeing
    std::optional<Epoch> freeing;  // a stream will free it
    AccessHistory accesses;
    WrittenBytes written;
    bool gone = false;             // freed
    uint64_t freer = 0;            // number of the actor that did so
    bool scattered = false;        // kernels fill it row by row: what lies between may stay unwritten

    size_t offsetOf(const void *address) const { return reinterpret_cast<uintptr_t>(address) - begin; }
    bool contains(const void *address) const { return offsetOf(address) < size; }
};

class Memories {
   public:
    std::shared_ptr<Memory> add(const void *address, size_t size, int32_t device, const Origin &made);
    // The allocation around an address; nullptr for memory that is not the simulator's. One made before strict mode
    // was on is met here for the first time: all of it counts as written.
    std::shared_ptr<Memory> find(const void *address);
    // The last allocation that lay around an address and was freed.
    std::shared_ptr<Memory> findFreed(const void *address) const;
    void free(const std::shared_ptr<Memory> &memory, const Origin &freed, uint64_t freer);
    void clear();

   private:
    static constexpr size_t kKeptFreed = 1024;

    std::map<uintptr_t, std::shared_ptr<Memory>> live_;
    std::deque<std::shared_ptr<Memory>> freed_;  // the last ones, youngest at the end
};

}  // namespace sim::checker
