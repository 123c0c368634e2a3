// Stream-ordered memory pools. A pool is a name here: memory comes from the device at once and goes back in stream order.
#include "acl/acl_rt_memory_soma.h"

#include <string>

#include "checker/memory_rules.hpp"
#include "core/device_memory.hpp"
#include "core/entry.hpp"
#include "core/handles.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"

using sim::fail;
using sim::Kind;

namespace {

struct Pool : sim::Object {
    explicit Pool(int32_t device) : device(device) {}
    const int32_t device;
};

}  // namespace

aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps) {
    SIM_API;
    if (memPool == nullptr || poolProps == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "a pointer is null");
    auto device = static_cast<int32_t>(poolProps->location.id);
    bool onDevice = poolProps->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
    if (!onDevice || device < 0 || device >= sim::settings().devices) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "location must name a device");
    }
    *memPool = sim::makeHandle(Kind::MemPool, std::make_shared<Pool>(device), __func__);
    return ACL_SUCCESS;
}

aclError aclrtMemPoolDestroy(const aclrtMemPool memPool) {
    SIM_API;
    if (sim::retire(memPool, Kind::MemPool, {__func__})) return ACL_SUCCESS;
    return fail(__func__, ACL_ERROR_RT_INVALID_HANDLE, sim::badHandle(memPool, Kind::MemPool));
}

aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream) {
    SIM_API;
    if (ptr == nullptr || size == 0) return fail(__func__, ACL_ERROR_INVALID_PARAM, "ptr is null or size is 0");
    auto pool = sim::lookupAs<Pool>(memPool, Kind::MemPool);
    if (!pool) return fail(__func__, ACL_ERROR_RT_INVALID_HANDLE, sim::badHandle(memPool, Kind::MemPool));
    sim::StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(__func__, choice.status, choice.text);
    *ptr = sim::allocateOnDevice(pool->device, size, __func__);
    if (*ptr != nullptr) return ACL_SUCCESS;
    return fail(__func__, ACL_ERROR_RT_MEMORY_ALLOCATION, "the device has no " + std::to_string(size) + " bytes left");
}

aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream) {
    SIM_API;
    if (ptr == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "ptr is null");
    sim::StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(__func__, choice.status, choice.text);
    if (auto fault = sim::rangeFault(ptr, 1)) {
        if (sim::strict()) sim::checker::freeing(ptr, false);
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, *fault);
    }
    if (sim::strict()) sim::checker::freeingLater(ptr, choice.stream->lane());
    choice.stream->enqueue(__func__, [ptr] {
        if (auto rejection = sim::freeOnDevice(ptr, "aclrtMemPoolFreeAsync")) {
            throw sim::KernelFault(rejection->status, rejection->text);
        }
    });
    return ACL_SUCCESS;
}
