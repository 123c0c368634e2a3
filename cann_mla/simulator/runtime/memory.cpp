// Device memory and pinned host memory.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "acl/acl_rt.h"
#include "checker/fault_injection.hpp"
#include "core/device_memory.hpp"
#include "core/entry.hpp"
#include "core/product.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"
#include "runtime/host_memory.hpp"

using sim::fail;

namespace {

std::string bytesText(size_t bytes) { return std::to_string(bytes) + " bytes"; }

// The memory that a device seems to have: fault injection may leave it less.
sim::MemoryUse memoryLeft(int32_t device) {
    sim::MemoryUse use = sim::memoryUse(device);
    use.total = std::max(std::min(use.total, sim::memoryLimit()), use.used);
    return use;
}

aclError allocate(const char *api, void **out, size_t size, int32_t device) {
    sim::MemoryUse use = memoryLeft(device);
    bool limited = sim::memoryLimit() != SIZE_MAX && size > use.total - use.used;
    void *address = limited ? nullptr : sim::allocateOnDevice(device, size, api);
    if (address == nullptr) {
        return fail(api, ACL_ERROR_RT_MEMORY_ALLOCATION,
                    "device " + std::to_string(device) + " is out of memory: asked for " + bytesText(size) + ", " +
                        bytesText(use.total - use.used) + " of " + bytesText(use.total) + " free (" +
                        (limited ? "an injected fault" : "CANN_MLA_SIM_MEMORY") + " sets the total)");
    }
    *out = address;
    return ACL_SUCCESS;
}

aclError deviceMalloc(const char *api, void **devPtr, size_t size) {
    if (devPtr == nullptr) return fail(api, ACL_ERROR_INVALID_PARAM, "devPtr is null");
    if (size == 0) return fail(api, ACL_ERROR_INVALID_PARAM, "size is 0; ask for at least one byte");
    if (size > SIZE_MAX - 64) return fail(api, ACL_ERROR_INVALID_PARAM, "size is " + std::to_string(size));
    auto context = sim::currentContext();
    if (!context) return fail(api, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    return allocate(api, devPtr, size, context->device());
}

aclError deviceFree(const char *api, void *devPtr) {
    if (devPtr == nullptr) return fail(api, ACL_ERROR_INVALID_PARAM, "devPtr is null");
    if (auto rejection = sim::freeOnDevice(devPtr, api)) return fail(api, *rejection);
    return ACL_SUCCESS;
}

aclError checkAttributes(const char *api, const aclrtMallocConfig *cfg) {
    if (cfg != nullptr && cfg->numAttrs != 0 && cfg->attrs == nullptr) {
        return fail(api, ACL_ERROR_INVALID_PARAM, "cfg->attrs is null, but cfg->numAttrs is not 0");
    }
    return ACL_SUCCESS;
}

aclError hostMalloc(const char *api, void **hostPtr, size_t size) {
    if (hostPtr == nullptr) return fail(api, ACL_ERROR_INVALID_PARAM, "hostPtr is null");
    if (size == 0) return fail(api, ACL_ERROR_INVALID_PARAM, "size is 0; ask for at least one byte");
    *hostPtr = sim::allocatePinned(size, api);
    if (*hostPtr != nullptr) return ACL_SUCCESS;
    return fail(api, ACL_ERROR_RT_MEMORY_ALLOCATION, "the host has no " + bytesText(size) + " left");
}

aclError hostFree(const char *api, void *hostPtr) {
    if (hostPtr == nullptr) return fail(api, ACL_ERROR_INVALID_PARAM, "hostPtr is null");
    if (sim::freePinned(hostPtr)) return ACL_SUCCESS;
    return fail(api, ACL_ERROR_RT_PARAM_INVALID,
                sim::isDeviceAddress(hostPtr) ? "the address is device memory; free it with aclrtFree"
                                              : "the address is not from aclrtMallocHost, or freed before");
}

aclError synchronizeThen(const char *api, void *pointer, aclError (*release)(const char *, void *)) {
    if (aclError status = aclrtSynchronizeDevice()) return status;
    return release(api, pointer);
}

}  // namespace

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy) {
    SIM_API;
    return deviceMalloc(__func__, devPtr, size);
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy) {
    SIM_API;
    return deviceMalloc(__func__, devPtr, size);
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy) {
    SIM_API;
    return deviceMalloc(__func__, devPtr, size);
}

aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy, aclrtMallocConfig *cfg) {
    SIM_API;
    if (aclError status = checkAttributes(__func__, cfg)) return status;
    return deviceMalloc(__func__, devPtr, size);
}

aclError aclrtFree(void *devPtr) {
    SIM_API;
    return deviceFree(__func__, devPtr);
}
aclError aclrtFreeWithDevSync(void *devPtr) {
    SIM_API;
    return synchronizeThen(__func__, devPtr, deviceFree);
}

aclError aclrtMallocHost(void **hostPtr, size_t size) {
    SIM_API;
    return hostMalloc(__func__, hostPtr, size);
}

aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg) {
    SIM_API;
    if (aclError status = checkAttributes(__func__, cfg)) return status;
    return hostMalloc(__func__, ptr, size);
}

aclError aclrtFreeHost(void *hostPtr) {
    SIM_API;
    return hostFree(__func__, hostPtr);
}
aclError aclrtFreeHostWithDevSync(void *hostPtr) {
    SIM_API;
    return synchronizeThen(__func__, hostPtr, hostFree);
}

aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag) {
    SIM_API;
    if (ptr == nullptr || size == 0) return fail(__func__, ACL_ERROR_INVALID_PARAM, "ptr is null or size is 0");
    if ((flag & ~uint32_t{ACL_HOST_REG_PINNED}) != 0) {
        return fail(__func__, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "only ACL_HOST_REG_PINNED is simulated: the device cannot reach host memory here");
    }
    if (sim::registerPinned(ptr, size)) return ACL_SUCCESS;
    return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "the memory is registered already, or is device memory");
}

aclError aclrtHostUnregister(void *ptr) {
    SIM_API;
    if (ptr == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "ptr is null");
    if (sim::unregisterPinned(ptr)) return ACL_SUCCESS;
    return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "ptr was not registered");
}

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes) {
    SIM_API;
    if (ptr == nullptr || attributes == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "a pointer is null");
    *attributes = aclrtPtrAttributes{};
    attributes->pageSize = 4096;
    if (auto allocation = sim::findAllocation(ptr)) {
        attributes->location = {static_cast<uint32_t>(allocation->device), ACL_MEM_LOCATION_TYPE_DEVICE};
    } else if (sim::isDeviceAddress(ptr)) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, *sim::rangeFault(ptr, 1));
    } else {
        bool pinned = sim::isPinned(ptr);
        attributes->location = {0, pinned ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_UNREGISTERED};
    }
    return ACL_SUCCESS;
}

aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize) {
    SIM_API;
    if (ptr == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "ptr is null");
    auto allocation = sim::findAllocation(ptr);
    if (!allocation) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, *sim::rangeFault(ptr, 1));
    }
    if (pbase != nullptr) *pbase = allocation->address;
    if (psize != nullptr) *psize = allocation->size;
    return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total) {
    SIM_API;
    if (free == nullptr || total == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "a pointer is null");
    if (attr < ACL_DDR_MEM || attr > ACL_MEM_P2P_HUGE1G) {
        return fail(__func__, ACL_ERROR_RT_INVALID_MEMORY_TYPE, "attr is " + std::to_string(attr) + "; 0 to 17 exist");
    }
    auto context = sim::currentContext();
    if (!context) return fail(__func__, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    sim::MemoryUse use = memoryLeft(context->device());
    *free = use.total - use.used;
    *total = use.total;
    return ACL_SUCCESS;
}

aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum, size_t *outputNum) {
    SIM_API;
    if (memUsageInfo == nullptr || outputNum == nullptr || inputNum == 0) {
        return fail(__func__, ACL_ERROR_INVALID_PARAM, "a pointer is null, or inputNum is 0");
    }
    if (deviceId < 0 || deviceId >= sim::settings().devices) {
        return fail(__func__, ACL_ERROR_RT_INVALID_DEVICEID, "device " + std::to_string(deviceId) + " does not exist");
    }
    sim::MemoryUse use = sim::memoryUse(deviceId);
    memUsageInfo[0] = aclrtMemUsageInfo{};
    std::string("APP").copy(memUsageInfo[0].name, sizeof memUsageInfo[0].name - 1);
    memUsageInfo[0].curMemSize = use.used;
    memUsageInfo[0].memPeakSize = use.peak;
    *outputNum = 1;
    return ACL_SUCCESS;
}

namespace {

// The simulator has no caches; the address is checked all the same.
aclError checkCacheRange(const char *api, const void *address, size_t size) {
    if (address == nullptr || size == 0) return fail(api, ACL_ERROR_INVALID_PARAM, "the address is null or size is 0");
    auto fault = sim::rangeFault(address, size);
    return fault ? fail(api, ACL_ERROR_RT_PARAM_INVALID, *fault) : ACL_SUCCESS;
}

}  // namespace

aclError aclrtMemFlush(void *devPtr, size_t size) {
    SIM_API;
    return checkCacheRange(__func__, devPtr, size);
}
aclError aclrtMemInvalidate(void *devPtr, size_t size) {
    SIM_API;
    return checkCacheRange(__func__, devPtr, size);
}

aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream) {
    SIM_API;
    if (cmoType != ACL_RT_CMO_TYPE_PREFETCH) {
        return fail(__func__, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "only ACL_RT_CMO_TYPE_PREFETCH is supported");
    }
    sim::StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(__func__, choice.status, choice.text);
    return checkCacheRange(__func__, src, size);
}
