// What a device is like, apart from its contexts and its memory.
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "acl/acl_rt.h"
#include "core/entry.hpp"
#include "core/product.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"

using sim::fail;
using sim::Product;

namespace {

bool isDevice(int64_t device) { return device >= 0 && device < sim::settings().devices; }

aclError badDevice(const char *api, int64_t device) {
    return fail(api, ACL_ERROR_RT_INVALID_DEVICEID,
                "device " + std::to_string(device) + " does not exist; there are devices 0 to " +
                    std::to_string(sim::settings().devices - 1));
}

// Cube cores of the chips that aclrtGetSocName names; each has two vector cores beside it.
uint32_t cubeCores() { return sim::product() == Product::A950 ? 32 : 24; }
uint32_t vectorCores() { return 2 * cubeCores(); }
constexpr int64_t kL2Bytes = int64_t{192} << 20;

std::atomic<int> saturationMode{ACL_RT_OVERFLOW_MODE_INFNAN};

uint32_t coresOf(aclrtDevResLimitType type) { return type == ACL_RT_DEV_RES_CUBE_CORE ? cubeCores() : vectorCores(); }

bool isLimitType(aclrtDevResLimitType type) {
    return type == ACL_RT_DEV_RES_CUBE_CORE || type == ACL_RT_DEV_RES_VECTOR_CORE;
}

}  // namespace

aclError aclrtGetDeviceCount(uint32_t *count) {
    SIM_API;
    if (count == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "count is null");
    *count = static_cast<uint32_t>(sim::settings().devices);
    return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode) {
    SIM_API;
    if (runMode == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "runMode is null");
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus) {
    SIM_API;
    if (deviceStatus == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "deviceStatus is null");
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    switch (static_cast<int>(attr)) {
        case ACL_DEV_ATTR_AICORE_CORE_NUM:
        case ACL_DEV_ATTR_CUBE_CORE_NUM: *value = cubeCores(); break;
        case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = vectorCores(); break;
        case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: *value = static_cast<int64_t>(sim::settings().memory); break;
        case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = kL2Bytes; break;
        case ACL_DEV_ATTR_PHY_CHIP_ID: *value = deviceId; break;
        case ACL_DEV_ATTR_IS_VIRTUAL: *value = 0; break;
        default:
            return fail(__func__, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                        "device attribute " + std::to_string(attr) + " is not simulated");
    }
    return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    switch (static_cast<int>(deviceInfo)) {
        case ACL_DEVICE_INFO_AI_CORE_NUM: *value = cubeCores(); break;
        case ACL_DEVICE_INFO_VECTOR_CORE_NUM: *value = vectorCores(); break;
        case ACL_DEVICE_INFO_L2_SIZE: *value = kL2Bytes; break;
        default:
            return fail(__func__, ACL_ERROR_INVALID_PARAM,
                        "deviceInfo is " + std::to_string(deviceInfo) + "; 0 to 2 exist");
    }
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority) {
    SIM_API;
    if (leastPriority != nullptr) *leastPriority = 7;
    if (greatestPriority != nullptr) *greatestPriority = 0;
    return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
    SIM_API;
    if (mode != ACL_RT_OVERFLOW_MODE_SATURATION && mode != ACL_RT_OVERFLOW_MODE_INFNAN) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "mode is " + std::to_string(mode) + "; 0 and 1 exist");
    }
    saturationMode = mode;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode) {
    SIM_API;
    if (mode == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "mode is null");
    *mode = static_cast<aclrtFloatOverflowMode>(saturationMode.load());
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    if (!isLimitType(type)) return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "type must be 0 or 1");
    *value = coresOf(type);
    return ACL_SUCCESS;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    if (!isLimitType(type)) return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "type must be 0 or 1");
    *value = coresOf(type);
    return ACL_SUCCESS;
}

aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t) {
    SIM_API;
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    std::vector<std::shared_ptr<sim::Stream>> streams;
    sim::forEachHandle([&](sim::Kind kind, void *handle, const sim::Object &) {
        if (kind != sim::Kind::Stream) return;
        auto stream = sim::lookupAs<sim::Stream>(handle, kind);
        if (stream && stream->device() == deviceId) streams.push_back(std::move(stream));
    });
    for (const auto &stream : streams) stream->abort();
    return ACL_SUCCESS;
}

// The simulated devices share no memory with each other.
aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
    SIM_API;
    if (canAccessPeer == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "canAccessPeer is null");
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    if (!isDevice(peerDeviceId)) return badDevice(__func__, peerDeviceId);
    *canAccessPeer = 0;
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid) {
    SIM_API;
    if (uuid == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "uuid is null");
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    *uuid = aclrtUuid{};
    std::memcpy(uuid->bytes, "cann_mla_sim", 12);
    uuid->bytes[15] = static_cast<char>(deviceId);
    return ACL_SUCCESS;
}

aclError aclrtDeviceL2CacheFlush(void *) {
    SIM_API;
    return ACL_SUCCESS;
}  // the simulated device has no cache
