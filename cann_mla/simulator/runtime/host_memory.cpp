#include "runtime/host_memory.hpp"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

#include "checker/memory.hpp"
#include "checker/memory_rules.hpp"
#include "core/device_memory.hpp"
#include "core/origin.hpp"
#include "core/settings.hpp"

namespace sim {
namespace {

constexpr size_t kAlignment = 64;

struct Range {
    size_t size;
    bool registered;
    Origin made;
    uint64_t serial;
};

struct Pinned {
    std::mutex mutex;
    std::map<uintptr_t, Range> ranges;
};

Pinned &pinned() {
    static Pinned &instance = *new Pinned;
    return instance;
}

uintptr_t wordOf(const void *address) { return reinterpret_cast<uintptr_t>(address); }

bool removeRange(void *address, bool registered) {
    std::lock_guard lock(pinned().mutex);
    auto found = pinned().ranges.find(wordOf(address));
    if (found == pinned().ranges.end() || found->second.registered != registered) return false;
    pinned().ranges.erase(found);
    return true;
}

}  // namespace

void *allocatePinned(size_t size, const char *api) {
    if (size > SIZE_MAX - kAlignment) return nullptr;
    void *address = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
    if (address == nullptr) return nullptr;
    {
        std::lock_guard lock(pinned().mutex);
        pinned().ranges[wordOf(address)] = {size, false, originOf(api), nextAllocationSerial()};
    }
    if (strict()) checker::allocated(address, size, checker::kHostMemory);
    return address;
}

bool freePinned(void *address) {
    const bool used = strict() && checker::freeing(address, true);
    if (!removeRange(address, false)) return false;
    if (!used) std::free(address);  // or the work would go on in the process's own heap, and nobody see the finding
    return true;
}

bool registerPinned(void *address, size_t size) {
    if (isDeviceAddress(address)) return false;
    std::lock_guard lock(pinned().mutex);
    return pinned().ranges.emplace(wordOf(address), Range{size, true, captureOrigin(), nextAllocationSerial()}).second;
}

bool unregisterPinned(void *address) {
    if (strict() && findPinned(address)) checker::freeing(address, true);
    return removeRange(address, true);
}

std::optional<PinnedRange> findPinned(const void *address) {
    std::lock_guard lock(pinned().mutex);
    auto after = pinned().ranges.upper_bound(wordOf(address));
    if (after == pinned().ranges.begin()) return std::nullopt;
    const auto &[start, range] = *std::prev(after);
    if (wordOf(address) - start >= range.size) return std::nullopt;
    return PinnedRange{reinterpret_cast<const void *>(start), range.size, range.made, range.serial};
}

bool isPinned(const void *address) { return findPinned(address).has_value(); }

std::vector<PinnedRange> pinnedAllocations() {
    std::lock_guard lock(pinned().mutex);
    std::vector<PinnedRange> all;
    for (const auto &[start, range] : pinned().ranges) {
        if (!range.registered) all.push_back({reinterpret_cast<const void *>(start), range.size, range.made, range.serial});
    }
    return all;
}

PinnedUse pinnedUse() {
    std::lock_guard lock(pinned().mutex);
    PinnedUse use{0, 0};
    for (const auto &[start, range] : pinned().ranges) {
        if (range.registered) continue;
        use.bytes += range.size;
        ++use.allocations;
    }
    return use;
}

}  // namespace sim
