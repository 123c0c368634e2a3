#include "core/entry.hpp"
#include "runtime/exception_info.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "acl/acl_rt.h"
#include "core/error.hpp"
#include "core/handles.hpp"

struct rtExceptionInfo {
    uint32_t task;
    uint32_t stream;
    uint32_t thread;
    uint32_t device;
    uint32_t status;
};

namespace sim {
namespace {

struct Callbacks {
    std::mutex mutex;
    aclrtExceptionInfoCallback single = nullptr;
    std::vector<aclrtExceptionInfoCallback> registered;
};

Callbacks &callbacks() {
    static Callbacks &instance = *new Callbacks;
    return instance;
}

}  // namespace

void tellExceptionCallbacks(uint32_t task, uint32_t stream, uint32_t device, int32_t status) {
    std::vector<aclrtExceptionInfoCallback> targets;
    {
        std::lock_guard lock(callbacks().mutex);
        targets = callbacks().registered;
        if (callbacks().single != nullptr) targets.push_back(callbacks().single);
    }
    rtExceptionInfo info{task, stream, static_cast<uint32_t>(threadNumber()), device, static_cast<uint32_t>(status)};
    UserCode outside;
    for (aclrtExceptionInfoCallback target : targets) target(&info);
}

}  // namespace sim

// The id that stands for "no such information" in CANN.
static constexpr uint32_t kNone = 0xFFFFFFFF;

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
    SIM_API;
    std::lock_guard lock(sim::callbacks().mutex);
    sim::callbacks().single = callback;
    return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback) {
    SIM_API;
    if (callback == nullptr) return sim::fail(__func__, ACL_ERROR_INVALID_PARAM, "callback is null");
    std::lock_guard lock(sim::callbacks().mutex);
    auto &all = sim::callbacks().registered;
    if (std::find(all.begin(), all.end(), callback) == all.end()) all.push_back(callback);
    return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback) {
    SIM_API;
    std::lock_guard lock(sim::callbacks().mutex);
    auto &all = sim::callbacks().registered;
    auto found = std::find(all.begin(), all.end(), callback);
    if (found == all.end()) {
        return sim::fail(__func__, ACL_ERROR_INVALID_PARAM, "callback was never registered, or is unregistered already");
    }
    all.erase(found);
    return ACL_SUCCESS;
}

uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info) {
    SIM_API_WITHOUT_STATUS;
    return info ? info->task : kNone;
}
uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info) {
    SIM_API_WITHOUT_STATUS;
    return info ? info->stream : kNone;
}
uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info) {
    SIM_API_WITHOUT_STATUS;
    return info ? info->thread : kNone;
}
uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info) {
    SIM_API_WITHOUT_STATUS;
    return info ? info->device : kNone;
}
uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info) {
    SIM_API_WITHOUT_STATUS;
    return info ? info->status : kNone;
}
