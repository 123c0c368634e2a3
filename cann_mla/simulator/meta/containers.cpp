// aclScalar, the host arrays, and the lists of tensors and scalars.
#include <cstring>
#include <string>

#include "aclnn/acl_meta.h"
#include "checker/lifetimes.hpp"
#include "core/entry.hpp"
#include "core/error.hpp"
#include "core/objects.hpp"
#include "core/settings.hpp"

using sim::fail;
using sim::Kind;

namespace {

// A destroyed null is fine, a handle that is not live is refused.
aclnnStatus destroy(const char *api, const void *handle, Kind kind) {
    if (handle == nullptr || sim::retire(handle, kind, {api})) return ACL_SUCCESS;
    return fail(api, ACLNN_ERR_PARAM_INVALID, sim::badHandle(handle, kind));
}

// Guards against an absurd length (an uninitialised count).
constexpr uint64_t kMaxLength = uint64_t{1} << 28;

bool tooLong(const char *api, uint64_t size) {
    if (size <= kMaxLength) return false;
    fail(api, ACLNN_ERR_PARAM_INVALID, "size is " + std::to_string(size) + "; at most 2^28 entries are taken");
    return true;
}

template <typename Handle, typename T, typename Source>
Handle *createArray(const char *api, Kind kind, const Source *value, uint64_t size) {
    if (tooLong(api, size)) return nullptr;
    auto object = std::make_shared<sim::ArrayObject<T>>();
    // CANN takes a null pointer with any size; nothing reads the values then.
    if (value != nullptr) object->values.assign(value, value + size);
    else object->values.resize(size);
    return static_cast<Handle *>(sim::makeHandle(kind, std::move(object), api));
}

template <typename ObjectType>
aclnnStatus sizeOf(const char *api, const void *handle, Kind kind, uint64_t *size,
                   uint64_t (*count)(const ObjectType &)) {
    if (handle == nullptr || size == nullptr) {
        return fail(api, ACLNN_ERR_PARAM_NULLPTR, handle == nullptr ? "the handle is null" : "size is null");
    }
    auto object = sim::lookupAs<ObjectType>(handle, kind);
    if (!object) return fail(api, ACLNN_ERR_PARAM_INVALID, sim::badHandle(handle, kind));
    *size = count(*object);
    return ACL_SUCCESS;
}

template <typename ObjectType>
uint64_t countValues(const ObjectType &object) { return object.values.size(); }

template <typename ObjectType>
uint64_t countMembers(const ObjectType &object) { return object.members.size(); }

// Whether some were.
template <typename Member>
bool tellDeadMembers(const std::vector<const Member *> &members, Kind kind) {
    bool told = false;
    for (const Member *member : members) {
        if (sim::stateOf(member, kind) != sim::State::Dead) continue;
        sim::checker::tellDeadHandle(member, kind);
        told = true;
    }
    return told;
}

// CANN takes whatever the members are.
template <typename Handle, typename ObjectType, typename Member>
Handle *createList(const char *api, Kind kind, Kind memberKind, const Member *const *value, uint64_t size) {
    if (tooLong(api, size)) return nullptr;
    auto object = std::make_shared<ObjectType>();
    if (value != nullptr) object->members.assign(value, value + size);
    else object->members.resize(size, nullptr);
    if (sim::strict()) object->madeOfDead = tellDeadMembers(object->members, memberKind);
    return static_cast<Handle *>(sim::makeHandle(kind, std::move(object), api));
}

// Ends the list and its members. A member that was destroyed before is the caller's mistake (CANN would free it twice);
// the others are destroyed all the same.
template <typename ObjectType>
aclnnStatus destroyList(const char *api, const void *list, Kind kind, Kind memberKind) {
    if (list == nullptr) return ACL_SUCCESS;
    auto object = std::static_pointer_cast<ObjectType>(sim::retire(list, kind, {api}));
    if (!object) return fail(api, ACLNN_ERR_PARAM_INVALID, sim::badHandle(list, kind));
    aclnnStatus status = ACL_SUCCESS;
    for (size_t i = 0; i < object->members.size(); ++i) {
        const auto *member = object->members[i];
        if (member == nullptr || sim::retire(member, memberKind, {api})) continue;
        if (sim::strict() && !object->madeOfDead && sim::stateOf(member, memberKind) == sim::State::Dead) {
            sim::checker::tellDeadMember(list, kind, i, member, memberKind);
        }
        status = fail(api, ACLNN_ERR_PARAM_INVALID,
                      "member " + std::to_string(i) + ": " + sim::describeBadHandle(member, memberKind) +
                          "; destroying the list destroys its members, do not destroy them as well");
    }
    return status;
}

}  // namespace

aclScalar *aclCreateScalar(void *value, aclDataType dataType) {
    SIM_API;
    if (value == nullptr) {
        fail(__func__, ACLNN_ERR_PARAM_NULLPTR, "value is null");
        return nullptr;
    }
    auto object = std::make_shared<sim::ScalarObject>();
    object->dtype = dataType;
    std::memcpy(object->bytes.data(), value, static_cast<size_t>((sim::elementBits(dataType) + 7) / 8));
    return static_cast<aclScalar *>(sim::makeHandle(Kind::Scalar, std::move(object), __func__));
}

aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size) {
    SIM_API;
    return createArray<aclIntArray, int64_t>(__func__, Kind::IntArray, value, size);
}

aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size) {
    SIM_API;
    return createArray<aclFloatArray, float>(__func__, Kind::FloatArray, value, size);
}

aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size) {
    SIM_API;
    return createArray<aclBoolArray, uint8_t>(__func__, Kind::BoolArray, value, size);
}

aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size) {
    SIM_API;
    return createList<aclTensorList, sim::TensorListObject>(__func__, Kind::TensorList, Kind::Tensor, value, size);
}

aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size) {
    SIM_API;
    return createList<aclScalarList, sim::ScalarListObject>(__func__, Kind::ScalarList, Kind::Scalar, value, size);
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar) {
    SIM_API;
    return destroy(__func__, scalar, Kind::Scalar);
}
aclnnStatus aclDestroyIntArray(const aclIntArray *array) {
    SIM_API;
    return destroy(__func__, array, Kind::IntArray);
}
aclnnStatus aclDestroyFloatArray(const aclFloatArray *array) {
    SIM_API;
    return destroy(__func__, array, Kind::FloatArray);
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray *array) {
    SIM_API;
    return destroy(__func__, array, Kind::BoolArray);
}

aclnnStatus aclDestroyTensorList(const aclTensorList *array) {
    SIM_API;
    return destroyList<sim::TensorListObject>(__func__, array, Kind::TensorList, Kind::Tensor);
}

aclnnStatus aclDestroyScalarList(const aclScalarList *array) {
    SIM_API;
    return destroyList<sim::ScalarListObject>(__func__, array, Kind::ScalarList, Kind::Scalar);
}

aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *size) {
    SIM_API;
    return sizeOf<sim::IntArrayObject>(__func__, array, Kind::IntArray, size, countValues);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *size) {
    SIM_API;
    return sizeOf<sim::FloatArrayObject>(__func__, array, Kind::FloatArray, size, countValues);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *size) {
    SIM_API;
    return sizeOf<sim::BoolArrayObject>(__func__, array, Kind::BoolArray, size, countValues);
}

aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList, uint64_t *size) {
    SIM_API;
    return sizeOf<sim::TensorListObject>(__func__, tensorList, Kind::TensorList, size, countMembers);
}

aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList, uint64_t *size) {
    SIM_API;
    return sizeOf<sim::ScalarListObject>(__func__, scalarList, Kind::ScalarList, size, countMembers);
}
