// aclOpExecutor: repeatable executors and the refreshing of their addresses.
#include <string>

#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_base.h"
#include "checker/lifetimes.hpp"
#include "core/entry.hpp"
#include "core/error.hpp"
#include "core/executor.hpp"
#include "core/objects.hpp"
#include "core/settings.hpp"

using sim::Executor;
using sim::fail;
using sim::Kind;
using sim::Operand;
using sim::Role;

namespace {

// Which operands an index counts over, in the order of the C prototype.
enum class Side { Inputs, Outputs, All };

bool counts(Side side, const Operand &operand) {
    if (side == Side::All) return true;
    return (operand.role == Role::Output) == (side == Side::Outputs);
}

const char *sideName(Side side) {
    switch (side) {
        case Side::Inputs: return "input";
        case Side::Outputs: return "output";
        default: return "tensor";
    }
}

// Inputs (in-place operands among them) come before outputs, whatever the prototype's order.
template <typename Visit>
void forEachCounted(Executor &executor, Side side, Visit visit) {
    for (bool outputs : {false, true}) {
        for (Operand &operand : executor.operands) {
            if ((operand.role == Role::Output) == outputs && counts(side, operand)) visit(operand);
        }
    }
}

// The operand with a flattened index: every tensor counts once, members of lists too, null ones too.
Operand *findFlat(Executor &executor, Side side, size_t index) {
    Operand *found = nullptr;
    size_t next = 0;
    forEachCounted(executor, side, [&](Operand &operand) {
        if (!operand.placeholder && next++ == index) found = &operand;
    });
    return found;
}

// The member `relativeIndex` of the tensor parameter `irIndex`, where every parameter counts once.
Operand *findMember(Executor &executor, Side side, size_t irIndex, size_t relativeIndex) {
    Operand *found = nullptr;
    size_t parameters = 0, member = 0;
    const Operand *previous = nullptr;
    forEachCounted(executor, side, [&](Operand &operand) {
        bool sameParameter = previous != nullptr && previous->parameter == operand.parameter;
        member = sameParameter ? member + 1 : 0;
        if (!sameParameter) ++parameters;
        previous = &operand;
        if (parameters == irIndex + 1 && member == relativeIndex && !operand.placeholder) found = &operand;
    });
    return found;
}

std::string position(Side side, size_t index) { return std::string(sideName(side)) + " " + std::to_string(index); }

int32_t setTensorAddress(const char *api, const aclTensor *tensor, void *addr) {
    auto object = sim::lookupAs<sim::TensorObject>(tensor, Kind::Tensor);
    if (!object) return fail(api, ACLNN_ERR_PARAM_INVALID, sim::badHandle(tensor, Kind::Tensor));
    auto changed = std::make_shared<sim::TensorObject>(*object);
    changed->desc.data = addr;
    sim::replaceObject(tensor, Kind::Tensor, changed);
    return ACL_SUCCESS;
}

// Opens the executor, finds the operand and gives it the address.
template <typename Find>
aclnnStatus refresh(const char *api, aclOpExecutor *executor, void *addr, const std::string &what, Find find) {
    if (executor == nullptr) return fail(api, ACLNN_ERR_INNER_NULLPTR, "executor is null");
    auto object = sim::lookupAs<Executor>(executor, Kind::Executor);
    if (!object) return fail(api, ACLNN_ERR_PARAM_INVALID, sim::badHandle(executor, Kind::Executor));
    std::lock_guard lock(object->mutex);
    Operand *operand = find(*object);
    if (operand == nullptr) {
        return fail(api, ACLNN_ERR_PARAM_INVALID, std::string(object->api) + " has no " + what + "; indices start at 0");
    }
    if (!operand->tensor) {
        if (sim::strict()) sim::checker::tellNullOperand(executor, what + " (" + operand->name + ")");
        return fail(api, ACLNN_ERR_PARAM_INVALID,
                    what + " (" + operand->name + ") was null in phase one of " + object->api +
                        ", so its address cannot be set; plan the call again with a tensor there");
    }
    operand->address = addr;
    return ACL_SUCCESS;
}

aclnnStatus setFlat(const char *api, Side side, aclOpExecutor *executor, size_t index, aclTensor *tensor, void *addr) {
    if (tensor == nullptr) return fail(api, ACLNN_ERR_INNER_NULLPTR, "tensor is null");
    if (int32_t status = setTensorAddress(api, tensor, addr)) return status;
    return refresh(api, executor, addr, position(side, index),
                   [&](Executor &object) { return findFlat(object, side, index); });
}

aclnnStatus setMember(const char *api, Side side, aclOpExecutor *executor, size_t irIndex, size_t relativeIndex,
                      aclTensorList *tensors, void *addr) {
    if (tensors == nullptr) return fail(api, ACLNN_ERR_INNER_NULLPTR, "tensors is null");
    auto list = sim::lookupAs<sim::TensorListObject>(tensors, Kind::TensorList);
    if (!list) return fail(api, ACLNN_ERR_PARAM_INVALID, sim::badHandle(tensors, Kind::TensorList));
    if (relativeIndex >= list->members.size()) {
        return fail(api, ACLNN_ERR_PARAM_INVALID,
                    "relativeIndex is " + std::to_string(relativeIndex) + ", but the list has " +
                        std::to_string(list->members.size()) + " tensors");
    }
    const aclTensor *member = list->members[relativeIndex];
    if (member == nullptr) return fail(api, ACLNN_ERR_INNER_NULLPTR, "the member of the list is null");
    if (int32_t status = setTensorAddress(api, member, addr)) return status;
    return refresh(api, executor, addr, position(side, irIndex) + ", member " + std::to_string(relativeIndex),
                   [&](Executor &object) { return findMember(object, side, irIndex, relativeIndex); });
}

}  // namespace

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor) {
    SIM_API;
    if (executor == nullptr) return fail(__func__, ACLNN_ERR_INNER_NULLPTR, "executor is null");
    auto object = sim::lookupAs<Executor>(executor, Kind::Executor);
    if (!object) return fail(__func__, ACLNN_ERR_PARAM_INVALID, sim::badHandle(executor, Kind::Executor));
    std::lock_guard lock(object->mutex);
    object->repeatable = true;
    return ACL_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor) {
    SIM_API;
    if (executor == nullptr) return fail(__func__, ACLNN_ERR_INNER_NULLPTR, "executor is null");
    if (sim::retire(executor, Kind::Executor, {__func__})) return ACL_SUCCESS;
    return fail(__func__, ACLNN_ERR_PARAM_INVALID, sim::badHandle(executor, Kind::Executor));
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {
    SIM_API;
    return setFlat(__func__, Side::Inputs, executor, index, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {
    SIM_API;
    return setFlat(__func__, Side::Outputs, executor, index, tensor, addr);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {
    SIM_API;
    return setFlat(__func__, Side::All, executor, index, tensor, addr);
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                         aclTensorList *tensors, void *addr) {
    SIM_API;
    return setMember(__func__, Side::Inputs, executor, irIndex, relativeIndex, tensors, addr);
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                          aclTensorList *tensors, void *addr) {
    SIM_API;
    return setMember(__func__, Side::Outputs, executor, irIndex, relativeIndex, tensors, addr);
}

aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                    aclTensorList *tensors, void *addr) {
    SIM_API;
    return setMember(__func__, Side::All, executor, irIndex, relativeIndex, tensors, addr);
}

// The older spellings.
aclnnStatus AclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {
    SIM_API;
    return aclSetInputTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {
    SIM_API;
    return aclSetOutputTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {
    SIM_API;
    return aclSetTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                         aclTensorList *tensors, void *addr) {
    SIM_API;
    return aclSetDynamicInputTensorAddr(executor, irIndex, relativeIndex, tensors, addr);
}

aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                          aclTensorList *tensors, void *addr) {
    SIM_API;
    return aclSetDynamicOutputTensorAddr(executor, irIndex, relativeIndex, tensors, addr);
}

aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                    aclTensorList *tensors, void *addr) {
    SIM_API;
    return aclSetDynamicTensorAddr(executor, irIndex, relativeIndex, tensors, addr);
}
