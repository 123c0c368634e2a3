// Pinned (page-locked) host memory: what aclrtMallocHost gave out and what the program registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/origin.hpp"

namespace sim {

// 64-byte aligned; nullptr when the host has no memory left.
void *allocatePinned(size_t size, const char *api);
bool freePinned(void *address);

bool registerPinned(void *address, size_t size);
bool unregisterPinned(void *address);

struct PinnedRange {
    const void *address;
    size_t size;
    Origin made;
    uint64_t serial;  // as AllocationInfo's
};
// The pinned memory around an address.
std::optional<PinnedRange> findPinned(const void *address);

// What allocatePinned gave out and nobody freed.
std::vector<PinnedRange> pinnedAllocations();

// The address lies in pinned memory.
bool isPinned(const void *address);

struct PinnedUse {
    size_t bytes;
    size_t allocations;
};
// Of allocatePinned; registered memory is the program's own.
PinnedUse pinnedUse();

}  // namespace sim
