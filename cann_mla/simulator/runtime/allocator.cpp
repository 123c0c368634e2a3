// The allocator hook. Descriptions can be made and registered; the simulated operators never ask for memory by it,
// because their workspace always comes from the caller.
#include <map>
#include <mutex>

#include "acl/acl_rt_allocator.h"
#include "core/entry.hpp"
#include "core/handles.hpp"
#include "runtime/context.hpp"

using sim::fail;
using sim::Kind;

namespace {

struct Description : sim::Object {
    std::mutex mutex;
    aclrtAllocator allocator = nullptr;
    aclrtAllocatorAllocFunc alloc = nullptr;
    aclrtAllocatorFreeFunc free = nullptr;
    aclrtAllocatorAllocAdviseFunc allocAdvise = nullptr;
    aclrtAllocatorGetAddrFromBlockFunc getAddrFromBlock = nullptr;
};

template <typename Value>
aclError set(const char *api, aclrtAllocatorDesc desc, Value Description::*member, Value value) {
    auto object = sim::lookupAs<Description>(desc, Kind::AllocatorDesc);
    if (!object) return fail(api, ACL_ERROR_INVALID_PARAM, sim::badHandle(desc, Kind::AllocatorDesc));
    if (value == nullptr) return fail(api, ACL_ERROR_INVALID_PARAM, "the second argument is null");
    std::lock_guard lock(object->mutex);
    (*object).*member = value;
    return ACL_SUCCESS;
}

}  // namespace

aclrtAllocatorDesc aclrtAllocatorCreateDesc(void) {
    SIM_API;
    return sim::makeHandle(Kind::AllocatorDesc, std::make_shared<Description>(), __func__);
}

aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc) {
    SIM_API;
    if (sim::retire(allocatorDesc, Kind::AllocatorDesc, {__func__})) return ACL_SUCCESS;
    return fail(__func__, ACL_ERROR_INVALID_PARAM, sim::badHandle(allocatorDesc, Kind::AllocatorDesc));
}

aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator) {
    SIM_API;
    return set(__func__, allocatorDesc, &Description::allocator, allocator);
}

aclError aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocFunc func) {
    SIM_API;
    return set(__func__, allocatorDesc, &Description::alloc, func);
}

aclError aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorFreeFunc func) {
    SIM_API;
    return set(__func__, allocatorDesc, &Description::free, func);
}

aclError aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocAdviseFunc func) {
    SIM_API;
    return set(__func__, allocatorDesc, &Description::allocAdvise, func);
}

aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                     aclrtAllocatorGetAddrFromBlockFunc func) {
    SIM_API;
    return set(__func__, allocatorDesc, &Description::getAddrFromBlock, func);
}

aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc) {
    SIM_API;
    sim::StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(__func__, choice.status, choice.text);
    auto object = sim::lookupAs<Description>(allocatorDesc, Kind::AllocatorDesc);
    if (!object) return fail(__func__, ACL_ERROR_INVALID_PARAM, sim::badHandle(allocatorDesc, Kind::AllocatorDesc));
    std::lock_guard lock(object->mutex);
    bool complete = object->allocator != nullptr && object->alloc != nullptr && object->free != nullptr &&
                    object->allocAdvise != nullptr && object->getAddrFromBlock != nullptr;
    if (!complete) return fail(__func__, ACL_ERROR_INVALID_PARAM, "the description lacks its object or a function");
    return ACL_SUCCESS;
}

aclError aclrtAllocatorUnregister(aclrtStream stream) {
    SIM_API;
    sim::StreamChoice choice = sim::chooseStream(stream);
    return choice ? ACL_SUCCESS : fail(__func__, choice.status, choice.text);
}
