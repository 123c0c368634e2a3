// The memory of the simulated devices.
//
// Each device owns two address ranges of equal size. The addresses that callers get lie in the first, where nothing is
// mapped for reading or writing: a host program that dereferences a device pointer faults, as it does on real systems.
// The bytes live in the second, a constant distance away, where kernels and copies reach them. Around every allocation
// lie guard bands, and fresh memory holds a pattern that is NaN in BF16, FP16 and FP32 and absurd as an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/origin.hpp"

namespace sim __attribute__((visibility("default"))) {

// What fresh device memory holds in every 16 bits.
constexpr uint16_t kFreshPattern = 0x7FC1;
// Only so many bytes of an allocation are filled: the rest stays untouched pages of zeros.
constexpr size_t kFreshFillLimit = size_t{256} << 20;
constexpr size_t kDeviceAlignment = 512;

struct AllocationInfo {
    void *address;
    size_t size;  // as asked for
    int32_t device;
    Origin made;
    uint64_t serial;  // addresses come back, serial numbers do not; those of pinned host memory are among them
};

struct MemoryUse {
    size_t total;
    size_t used;
    size_t peak;
    int64_t allocations;
};

// nullptr when the device has not enough memory left.
void *allocateOnDevice(int32_t device, size_t size, const char *api);

// Gives the memory back. Rejects (107000) what is not the start of a live allocation. A broken guard band is reported
// as a finding; the memory is given back all the same.
std::optional<Rejection> freeOnDevice(const void *address, const char *api);

// The address lies in the range of some device, allocated or not.
bool isDeviceAddress(const void *address);

// Where the bytes of a device address can be reached from the host.
void *hostAlias(const void *deviceAddress);

// The live allocation around an address.
std::optional<AllocationInfo> findAllocation(const void *address);

// Why `bytes` bytes at a device address must not be touched; nullopt when they lie inside one live allocation.
std::optional<std::string> rangeFault(const void *address, size_t bytes);

uint64_t nextAllocationSerial();

MemoryUse memoryUse(int32_t device);

std::vector<AllocationInfo> liveAllocations();

// A finding for a broken guard band of the allocation around an address (only once).
void checkGuardBandsOf(const void *address, const char *api);

// Findings for broken guard bands of all live allocations (each only once).
void checkGuardBands(const char *api);

}  // namespace sim
