#include "core/device_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "acl/acl_base.h"
#include "checker/finding.hpp"
#include "checker/memory_rules.hpp"
#include "core/handles.hpp"
#include "core/settings.hpp"

namespace sim {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr uint8_t kGuardByte = 0xFD;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kGiveBackFrom = size_t{64} << 10;  // freed blocks of at least this size return their pages
constexpr size_t kRestingBlocks = 256;              // freed blocks rest so long before their addresses return

size_t roundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

std::string hex(const void *address) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", address);
    return text;
}

struct Block {
    size_t length;  // of the block, guard bands included
    AllocationInfo info;
    bool guardReported = false;
};

class Arena {
   public:
    Arena(int32_t device, size_t capacity);

    void *allocate(size_t size, const char *api);
    std::optional<Rejection> release(const void *address, const char *api);
    bool contains(const void *address) const {
        return offsetOf(address) < length_;
    }
    void *alias(const void *address) const { return bytes_ + offsetOf(address); }
    std::optional<AllocationInfo> find(const void *address) const;
    std::optional<std::string> rangeFault(const void *address, size_t bytes) const;
    MemoryUse use() const;
    void listInto(std::vector<AllocationInfo> &all) const;
    void checkGuards(const char *api);
    void checkGuardsOf(const void *address, const char *api);

   private:
    // Huge for addresses below the range, so that one comparison answers contains().
    size_t offsetOf(const void *address) const {
        return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(reserved_);
    }
    std::optional<size_t> takeRange(size_t length);
    void returnRange(size_t offset, size_t length);
    void emptyRestingList(size_t keep);
    void fillGuards(size_t offset, size_t size);
    void fillFresh(size_t offset, size_t size);
    void checkGuard(size_t offset, Block &block, const char *api);
    const Block *blockAt(const void *address) const;

    int32_t device_;
    size_t capacity_;
    size_t length_;
    char *reserved_;  // what callers see
    char *bytes_;     // what kernels see
    mutable std::mutex mutex_;
    std::map<size_t, size_t> free_;  // offset -> length, never two adjacent entries
    std::map<size_t, Block> live_;   // offset of the payload -> block, which starts kDeviceAlignment before it
    std::deque<std::pair<size_t, size_t>> resting_;
    size_t used_ = 0;
    size_t peak_ = 0;
};

char *reserve(size_t length, int protection) {
    void *range = mmap(nullptr, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) throw std::bad_alloc();
    return static_cast<char *>(range);
}

// Room for guard bands and fragmentation, so that an honest program sees all of the capacity.
size_t addressRange(size_t capacity) { return roundUp(capacity + capacity / 4 + (size_t{64} << 20), kHugePage); }

Arena::Arena(int32_t device, size_t capacity)
    : device_(device),
      capacity_(capacity),
      length_(addressRange(capacity)),
      // One reservation for both ranges, so that a failure leaves nothing behind.
      reserved_(reserve(2 * length_, PROT_NONE)),
      bytes_(reserved_ + length_) {
    if (mprotect(bytes_, length_, PROT_READ | PROT_WRITE) != 0) {
        munmap(reserved_, 2 * length_);
        throw std::bad_alloc();
    }
    madvise(bytes_, length_, MADV_DONTDUMP);
    free_[0] = length_;
}

std::optional<size_t> Arena::takeRange(size_t length) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
        auto [offset, available] = *range;
        if (available < length) continue;
        free_.erase(range);
        if (available > length) free_[offset + length] = available - length;
        return offset;
    }
    return std::nullopt;
}

void Arena::returnRange(size_t offset, size_t length) {
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + length) {
        length += next->second;
        next = free_.erase(next);
    }
    if (next != free_.begin()) {
        auto previous = std::prev(next);
        if (previous->first + previous->second == offset) {
            previous->second += length;
            return;
        }
    }
    free_[offset] = length;
}

void Arena::emptyRestingList(size_t keep) {
    while (resting_.size() > keep) {
        returnRange(resting_.front().first, resting_.front().second);
        resting_.pop_front();
    }
}

void Arena::fillGuards(size_t offset, size_t size) {
    char *payload = bytes_ + offset;
    std::memset(payload - kGuardBytes, kGuardByte, kGuardBytes);
    std::memset(payload + size, kGuardByte, kGuardBytes);
}

void Arena::fillFresh(size_t offset, size_t size) {
    char *payload = bytes_ + offset;
    size_t filled = std::min(size, kFreshFillLimit);
    if (filled >= kHugePage) madvise(payload, size, MADV_HUGEPAGE);
    std::array<uint16_t, 2048> pattern;
    pattern.fill(kFreshPattern);
    for (size_t done = 0; done < filled; done += sizeof pattern) {
        std::memcpy(payload + done, pattern.data(), std::min(sizeof pattern, filled - done));
    }
}

void *Arena::allocate(size_t size, const char *api) {
    size_t offset;
    {
        std::lock_guard lock(mutex_);
        if (size > capacity_ - used_) return nullptr;
        size_t length = kDeviceAlignment + roundUp(size + kGuardBytes, kDeviceAlignment);
        std::optional<size_t> start = takeRange(length);
        if (!start) {
            emptyRestingList(0);
            start = takeRange(length);
        }
        if (!start) return nullptr;
        offset = *start + kDeviceAlignment;
        fillGuards(offset, size);
        live_[offset] = Block{length, {reserved_ + offset, size, device_, originOf(api), nextAllocationSerial()}};
        used_ += size;
        peak_ = std::max(peak_, used_);
    }
    fillFresh(offset, size);
    return reserved_ + offset;
}

std::optional<Rejection> Arena::release(const void *address, const char *api) {
    std::lock_guard lock(mutex_);
    size_t offset = offsetOf(address);
    auto found = live_.find(offset);
    if (found == live_.end()) {
        const Block *around = blockAt(address);
        std::string text = around != nullptr
                               ? "lies inside the allocation at " + hex(around->info.address) + "; free that address"
                               : "is not allocated: freed before, or never handed out";
        return Rejection{ACL_ERROR_RT_PARAM_INVALID, "device address " + hex(address) + " " + text};
    }
    Block block = found->second;
    checkGuard(offset, block, api);
    live_.erase(found);
    used_ -= block.info.size;
    size_t start = offset - kDeviceAlignment;
    if (block.length >= kGiveBackFrom) {
        size_t page = 4096;
        size_t from = roundUp(start, page), to = (start + block.length) / page * page;
        madvise(bytes_ + from, to - from, MADV_DONTNEED);
    }
    resting_.emplace_back(start, block.length);
    emptyRestingList(kRestingBlocks);
    return std::nullopt;
}

void Arena::checkGuard(size_t offset, Block &block, const char *api) {
    if (block.guardReported) return;
    const auto *payload = reinterpret_cast<const uint8_t *>(bytes_ + offset);
    auto intact = [](const uint8_t *guard) {
        return std::all_of(guard, guard + kGuardBytes, [](uint8_t byte) { return byte == kGuardByte; });
    };
    bool before = intact(payload - kGuardBytes), after = intact(payload + block.info.size);
    if (before && after) return;
    block.guardReported = true;
    report({"out-of-bounds-write",
            std::string(api) + " found that bytes were written " + (before ? "behind the end" : "before the start") +
                " of device memory",
            {"device memory", block.info.address, std::to_string(block.info.size) + " bytes"},
            block.info.made});
}

const Block *Arena::blockAt(const void *address) const {
    size_t offset = offsetOf(address);
    auto after = live_.upper_bound(offset);
    if (after == live_.begin()) return nullptr;
    const auto &[start, block] = *std::prev(after);
    return offset - start < block.info.size ? &block : nullptr;
}

std::optional<AllocationInfo> Arena::find(const void *address) const {
    std::lock_guard lock(mutex_);
    const Block *block = blockAt(address);
    return block == nullptr ? std::nullopt : std::make_optional(block->info);
}

std::optional<std::string> Arena::rangeFault(const void *address, size_t bytes) const {
    std::lock_guard lock(mutex_);
    const Block *block = blockAt(address);
    if (block == nullptr) return hex(address) + " is device memory that is not allocated (freed, or out of bounds)";
    size_t room = block->info.size - (offsetOf(address) - offsetOf(block->info.address));
    if (bytes <= room) return std::nullopt;
    return std::to_string(bytes) + " bytes at " + hex(address) + " go past the end of its allocation, which has " +
           std::to_string(room) + " bytes from there (" + std::to_string(block->info.size) + " bytes at " +
           hex(block->info.address) + " from " + block->info.made.api + ")";
}

MemoryUse Arena::use() const {
    std::lock_guard lock(mutex_);
    return {capacity_, used_, peak_, static_cast<int64_t>(live_.size())};
}

void Arena::listInto(std::vector<AllocationInfo> &all) const {
    std::lock_guard lock(mutex_);
    for (const auto &[offset, block] : live_) all.push_back(block.info);
}

void Arena::checkGuards(const char *api) {
    std::lock_guard lock(mutex_);
    for (auto &[offset, block] : live_) checkGuard(offset, block, api);
}

void Arena::checkGuardsOf(const void *address, const char *api) {
    std::lock_guard lock(mutex_);
    auto after = live_.upper_bound(offsetOf(address));
    if (after != live_.begin()) checkGuard(std::prev(after)->first, std::prev(after)->second, api);
}

// A device with less memory where the process may not have so large an address range (ulimit -v).
std::unique_ptr<Arena> makeArena(int32_t device, size_t capacity) {
    constexpr size_t least = size_t{16} << 20;
    try {
        return std::make_unique<Arena>(device, capacity);
    } catch (const std::bad_alloc &) {
        if (capacity <= least) throw;
        size_t smaller = std::max(capacity / 2, least);
        std::fprintf(stderr, "cann_mla simulator: no address range for %zu bytes on device %d, trying %zu; set "
                     "CANN_MLA_SIM_MEMORY\n", capacity, device, smaller);
        return makeArena(device, smaller);
    }
}

// Made together at first use and never unmapped: kernels may still run while the process ends.
const std::vector<std::unique_ptr<Arena>> &arenas() {
    static const auto &all = *[] {
        auto *made = new std::vector<std::unique_ptr<Arena>>;
        for (int32_t device = 0; device < settings().devices; ++device) {
            made->push_back(makeArena(device, settings().memory));
        }
        return made;
    }();
    return all;
}

Arena *arenaOf(const void *address) {
    for (const auto &arena : arenas()) {
        if (arena->contains(address)) return arena.get();
    }
    return nullptr;
}

}  // namespace

void *allocateOnDevice(int32_t device, size_t size, const char *api) {
    void *address = arenas().at(static_cast<size_t>(device))->allocate(size, api);
    if (address != nullptr && strict()) checker::allocated(address, size, device);
    return address;
}

std::optional<Rejection> freeOnDevice(const void *address, const char *api) {
    if (strict()) checker::freeing(address, false);
    Arena *arena = arenaOf(address);
    if (arena == nullptr) {
        return Rejection{ACL_ERROR_RT_PARAM_INVALID, hex(address) + " is not device memory: a host address is freed "
                                                     "by aclrtFreeHost or by whoever allocated it"};
    }
    return arena->release(address, api);
}

bool isDeviceAddress(const void *address) { return arenaOf(address) != nullptr; }

void *hostAlias(const void *deviceAddress) {
    Arena *arena = arenaOf(deviceAddress);
    return arena == nullptr ? nullptr : arena->alias(deviceAddress);
}

std::optional<AllocationInfo> findAllocation(const void *address) {
    Arena *arena = arenaOf(address);
    return arena == nullptr ? std::nullopt : arena->find(address);
}

std::optional<std::string> rangeFault(const void *address, size_t bytes) {
    Arena *arena = arenaOf(address);
    if (arena == nullptr) return hex(address) + " is a host address where device memory is needed";
    return arena->rangeFault(address, bytes);
}

MemoryUse memoryUse(int32_t device) { return arenas().at(static_cast<size_t>(device))->use(); }

uint64_t nextAllocationSerial() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

std::vector<AllocationInfo> liveAllocations() {
    std::vector<AllocationInfo> all;
    for (const auto &arena : arenas()) arena->listInto(all);
    return all;
}

void checkGuardBandsOf(const void *address, const char *api) {
    if (Arena *arena = arenaOf(address)) arena->checkGuardsOf(address, api);
}

void checkGuardBands(const char *api) {
    for (const auto &arena : arenas()) arena->checkGuards(api);
}

}  // namespace sim
