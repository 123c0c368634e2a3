// Device and pinned memory: allocation, copies, guard bands, and the refusal of addresses of the wrong side.
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_rt_memory_soma.h"
#include "check.hpp"
#include "sim/cann_mla_sim.h"

static void *allocate(size_t size) {
    void *address = nullptr;
    OK(aclrtMalloc(&address, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return address;
}

static void *at(void *address, std::ptrdiff_t offset) { return static_cast<char *>(address) + offset; }

static void allocation() {
    void *address = nullptr;
    CHECK_EQ(aclrtMalloc(nullptr, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMalloc(&address, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMalloc(&address, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
    address = allocate(100);
    CHECK_EQ(reinterpret_cast<uintptr_t>(address) % 512, 0u);
    CHECK_EQ(cannMlaSimDeviceBytes(0), 100);
    CHECK_EQ(cannMlaSimDeviceAllocations(0), 1);
    uint16_t fresh[50];
    OK(aclrtMemcpy(fresh, sizeof fresh, address, 100, ACL_MEMCPY_DEVICE_TO_HOST));
    for (uint16_t word : fresh) CHECK_EQ(word, 0x7FC1);
    CHECK_EQ(aclrtFree(at(address, 32)), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("lies inside the allocation");
    OK(aclrtFree(address));
    CHECK_EQ(aclrtFree(address), ACL_ERROR_RT_PARAM_INVALID);
    int onHost = 0;
    CHECK_EQ(aclrtFree(&onHost), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("not device memory");
    CHECK_EQ(cannMlaSimDeviceBytes(0), 0);
    CHECK_EQ(cannMlaSimFindingCount(), 0);
}

// The program runs with CANN_MLA_SIM_MEMORY=64M.
static void exhaustion() {
    size_t free = 0, total = 0;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    CHECK_EQ(total, size_t{64} << 20);
    CHECK_EQ(free, total);
    void *half = allocate(total / 2), *address = nullptr;
    CHECK_EQ(aclrtMalloc(&address, total / 2 + 1, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK_TEXT("out of memory");
    void *rest = allocate(total / 2);
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    CHECK_EQ(free, 0u);
    OK(aclrtFree(half));
    OK(aclrtFree(rest));
    void *all = allocate(total);  // what was freed can be had in one piece again
    OK(aclrtFree(all));
}

static void copies() {
    std::vector<uint8_t> source(1000), target(1000);
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 7);
    void *first = allocate(1000), *second = allocate(1000);
    OK(aclrtMemcpy(first, 1000, source.data(), 1000, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(second, 1000, first, 1000, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(aclrtMemcpy(target.data(), 1000, second, 1000, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(source == target);
    // CANN tells the direction from the addresses; only the range of `kind` counts.
    OK(aclrtMemcpy(target.data(), 1000, second, 1000, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_EQ(aclrtMemcpy(first, 1000, second, 1000, static_cast<aclrtMemcpyKind>(6)), ACL_ERROR_INVALID_PARAM);
    OK(aclrtMemcpy(nullptr, 0, nullptr, 0, ACL_MEMCPY_DEFAULT));
    CHECK_EQ(aclrtMemcpy(nullptr, 10, second, 10, ACL_MEMCPY_DEFAULT), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpy(first, 10, second, 11, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemcpy(target.data(), 2000, second, 1001, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("go past the end");
    CHECK_EQ(aclrtMemcpy(at(first, 990), 1000, source.data(), 11, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFree(first));
    CHECK_EQ(aclrtMemcpy(target.data(), 1, first, 1, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("not allocated");
    OK(aclrtFree(second));
}

static void rectangles() {
    // Three rows of four bytes, out of rows of six on the host, into rows of five on the device.
    uint8_t source[18], target[15];
    for (int i = 0; i < 18; ++i) source[i] = static_cast<uint8_t>(i);
    void *device = allocate(15);
    OK(aclrtMemset(device, 15, 0xEE, 15));
    OK(aclrtMemcpy2d(device, 5, source, 6, 4, 3, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(target, 15, device, 15, ACL_MEMCPY_DEVICE_TO_HOST));
    const uint8_t expected[15] = {0, 1, 2, 3, 0xEE, 6, 7, 8, 9, 0xEE, 12, 13, 14, 15, 0xEE};
    CHECK(std::memcmp(target, expected, 15) == 0);
    CHECK_EQ(aclrtMemcpy2d(device, 3, source, 6, 4, 3, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtMemcpy2d(device, 5, source, 6, 4, 4, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFree(device));
}

static void filling() {
    uint8_t bytes[8];
    uint32_t words[2];
    void *device = allocate(8);
    OK(aclrtMemset(device, 8, 0x1AB, 8));  // the low byte counts
    OK(aclrtMemcpy(bytes, 8, device, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    for (uint8_t byte : bytes) CHECK_EQ(byte, 0xAB);
    OK(aclrtMemsetD32(device, 8, 0xDEADBEEF, 2));
    OK(aclrtMemcpy(words, 8, device, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(words[1], 0xDEADBEEFu);
    CHECK_EQ(aclrtMemset(device, 8, 0, 9), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemset(device, 16, 0, 9), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtMemset(bytes, 8, 0, 8), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("host memory");
    CHECK_EQ(aclrtMemsetD32(at(device, 2), 8, 0, 1), ACL_ERROR_INVALID_PARAM);
    OK(aclrtFree(device));
}

static void pinnedMemory() {
    void *pinned = nullptr;
    CHECK_EQ(aclrtMallocHost(&pinned, 0), ACL_ERROR_INVALID_PARAM);
    OK(aclrtMallocHost(&pinned, 100));
    CHECK_EQ(reinterpret_cast<uintptr_t>(pinned) % 64, 0u);
    std::memset(pinned, 5, 100);
    CHECK_EQ(cannMlaSimHostBytes(), 100);
    CHECK_EQ(aclrtFree(pinned), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("aclrtFreeHost");
    aclrtPtrAttributes attributes;
    OK(aclrtPointerGetAttributes(at(pinned, 99), &attributes));
    CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
    void *device = allocate(100);
    OK(aclrtPointerGetAttributes(device, &attributes));
    CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    int onStack;
    OK(aclrtPointerGetAttributes(&onStack, &attributes));
    CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    CHECK_EQ(aclrtFreeHost(device), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("aclrtFree");
    void *base = nullptr;
    size_t size = 0;
    OK(aclrtMemGetAddressRange(at(device, 50), &base, &size));
    CHECK_EQ(base, device);
    CHECK_EQ(size, 100u);
    OK(aclrtFree(device));
    OK(aclrtFreeHost(pinned));
    CHECK_EQ(aclrtFreeHost(pinned), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(cannMlaSimHostAllocations(), 0);
}

static void pools() {
    aclrtMemPoolProps properties{};
    properties.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtMemPool pool = nullptr;
    void *address = nullptr;
    OK(aclrtMemPoolCreate(&pool, &properties));
    OK(aclrtMemPoolMallocAsync(&address, 64, pool, nullptr));
    OK(aclrtMemsetAsync(address, 64, 0, 64, nullptr));
    OK(aclrtMemPoolFreeAsync(address, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK_EQ(cannMlaSimDeviceBytes(0), 0);
    OK(aclrtMemPoolDestroy(pool));
    CHECK_EQ(aclrtMemPoolDestroy(pool), ACL_ERROR_RT_INVALID_HANDLE);
}

static long residentPages() {
    long total = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident;
}

// Freed pages go back to the system, and small blocks are used again.
static void pressure() {
    for (int i = 0; i < 300; ++i) OK(aclrtFree(allocate(1 << 20)));
    for (int i = 0; i < 2000; ++i) OK(aclrtFree(allocate(5000)));
    [[maybe_unused]] long before = residentPages();
    for (int i = 0; i < 300; ++i) OK(aclrtFree(allocate(1 << 20)));
    for (int i = 0; i < 20000; ++i) OK(aclrtFree(allocate(5000)));
#ifndef __SANITIZE_THREAD__  // whose shadow memory grows with every byte ever touched
    CHECK((residentPages() - before) * sysconf(_SC_PAGESIZE) < 8 << 20);
#endif
}

int main() {
    void *address = nullptr;
    CHECK_EQ(aclrtMalloc(&address, 8, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    allocation();
    exhaustion();
    copies();
    rectangles();
    filling();
    pinnedMemory();
    pools();
    pressure();
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
