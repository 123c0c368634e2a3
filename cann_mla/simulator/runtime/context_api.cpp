// Which device and which context a thread works with.
#include <string>

#include "acl/acl_rt.h"
#include "core/entry.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"

using sim::fail;
using sim::Kind;

namespace {

bool isDevice(int32_t device) { return device >= 0 && device < sim::settings().devices; }

aclError badDevice(const char *api, int32_t device) {
    return fail(api, ACL_ERROR_RT_INVALID_DEVICEID,
                "device " + std::to_string(device) + " does not exist; there are devices 0 to " +
                    std::to_string(sim::settings().devices - 1));
}

}  // namespace

aclError aclrtSetDevice(int32_t deviceId) {
    SIM_API;
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    sim::setCurrentContext(sim::retainDefaultContext(deviceId, __func__));
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId) {
    SIM_API;
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    if (!sim::releaseDefaultContext(deviceId, false)) {
        return fail(__func__, ACL_ERROR_RT_CONTEXT_NULL,
                    "device " + std::to_string(deviceId) + " is not set; each aclrtSetDevice takes one aclrtResetDevice");
    }
    return ACL_SUCCESS;
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
    SIM_API;
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    if (!sim::releaseDefaultContext(deviceId, true)) {
        return fail(__func__, ACL_ERROR_RT_CONTEXT_NULL, "device " + std::to_string(deviceId) + " is not set");
    }
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t *deviceId) {
    SIM_API;
    if (deviceId == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "deviceId is null");
    auto context = sim::currentContext();
    if (!context) return fail(__func__, ACL_ERROR_RT_CONTEXT_NULL, sim::kNoContextText);
    *deviceId = context->device();
    return ACL_SUCCESS;
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active) {
    SIM_API;
    if (active == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "active is null");
    if (flags != nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "flags is reserved and must be null");
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    *active = sim::defaultContextActive(deviceId) ? 1 : 0;
    return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId) {
    SIM_API;
    if (context == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "context is null");
    if (!isDevice(deviceId)) return badDevice(__func__, deviceId);
    *context = sim::makeHandle(Kind::Context, std::make_shared<sim::Context>(deviceId), __func__);
    sim::setCurrentContext(*context);
    return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context) {
    SIM_API;
    if (context == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "context is null");
    auto object = std::static_pointer_cast<sim::Context>(sim::retire(context, Kind::Context, {__func__}));
    if (!object) return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, sim::badHandle(context, Kind::Context));
    object->endStreams(false);
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    SIM_API;
    if (context == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "context is null");
    if (!sim::lookup(context, Kind::Context)) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, sim::badHandle(context, Kind::Context));
    }
    sim::setCurrentContext(context);
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context) {
    SIM_API;
    if (context == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "context is null");
    if (!sim::currentContext()) return fail(__func__, ACL_ERROR_RT_CONTEXT_NULL, sim::kNoContextText);
    *context = sim::currentContextHandle();
    return ACL_SUCCESS;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream) {
    SIM_API;
    if (stream == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "stream is null");
    auto context = sim::currentContext();
    if (!context) return fail(__func__, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    *stream = context->defaultStreamHandle();
    return ACL_SUCCESS;
}
