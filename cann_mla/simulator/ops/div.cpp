// aclnnDiv: quotients of two operands that are repeated against each other; integers are divided as FLOAT.
#include "aclnnop/aclnn_div.h"

#include "core/entry.hpp"
#include "ops/cast.hpp"
#include "ops/elementwise.hpp"
#include "ops/promotion.hpp"

namespace sim::div {

using namespace primitive;

namespace {

struct Params {
    const TensorDesc *self, *other, *out;
};

// What a quotient has before it is cast to out.
aclDataType resultOf(const Params &p) {
    aclDataType dtype = promoted(p.self->dtype, p.other->dtype);
    return isIntegral(dtype) || dtype == ACL_BOOL ? ACL_FLOAT : dtype;
}

// Two INT32 are divided as they are, everything else in the dtype of the result. Ascend950 has INT32 already where
// they are promoted to it.
aclDataType innerOf(const Params &p) {
    bool together = isA950() ? promoted(p.self->dtype, p.other->dtype) == ACL_INT32
                             : p.self->dtype == ACL_INT32 && p.other->dtype == ACL_INT32;
    return together ? ACL_DOUBLE : resultOf(p);
}

void checkDtypes(const Params &p) {
    for (const Named &operand : {Named{"other", p.other}, {"self", p.self}}) {
        requireDtype(paramInvalid, operand,
                     {ACL_FLOAT16, ACL_FLOAT, ACL_INT64, ACL_INT32, ACL_INT16, ACL_INT8, ACL_UINT8, ACL_DOUBLE,
                      ACL_BOOL, ACL_BF16, ACL_COMPLEX64, ACL_COMPLEX128});
    }
    // A2 and A3 ask about the promoted dtype, though the quotient of integers is FLOAT.
    aclDataType asked = isA950() ? resultOf(p) : promoted(p.self->dtype, p.other->dtype);
    if (canCast(asked, p.out->dtype)) return;
    refuse(paramInvalid, std::string("out has dtype ") + dtypeName(p.out->dtype) + "; a quotient of " +
                             dtypeName(p.self->dtype) + " by " + dtypeName(p.other->dtype) + " is " +
                             dtypeName(asked) + ", which cannot become that");
}

std::optional<Rejection> check(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"out", p.out}, {"other", p.other}, {"self", p.self}});
        requirePointers(call);
        requireBroadcast(paramInvalid, {"self", p.self}, {"other", p.other}, {"out", p.out});
        checkDtypes(p);
        for (const Named &operand : {Named{"self", p.self}, {"other", p.other}, {"out", p.out}}) {
            if (!isPrivateFormat(operand.desc->format)) continue;
            refuse(paramInvalid, std::string(operand.name) + " has format " + formatName(operand.desc->format) +
                                     "; allowed: ND");
        }
    });
}

// The quotient still has to become what out is.
std::optional<Rejection> checkSteps(const Params &p) {
    TensorDesc quotient = *p.out;
    quotient.dtype = resultOf(p);
    quotient.format = ACL_FORMAT_ND;
    bool eight = isOneOf(p.out->dtype, {ACL_HIFLOAT8, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN});
    auto refusal = cast::checkSteps({&quotient, p.out, p.out->dtype});
    if (!refusal && (isA950() || !eight)) return std::nullopt;
    return Rejection{innerNullptr, std::string("out has dtype ") + dtypeName(p.out->dtype) +
                                       "; no kernel makes it from a quotient of " + dtypeName(quotient.dtype)};
}

int32_t judge(PhaseOne &call, const Params &p) {
    if (auto refusal = check(p, call)) return call.reject(*refusal);
    if (p.self->isEmpty() || p.other->isEmpty()) return call.acceptEmpty();
    if (auto refusal = checkSteps(p)) return call.reject(*refusal);
    elementwise::Task task{elementwise::Operation::Divide, p.self->dtype, p.other->dtype, innerOf(p), resultOf(p),
                           p.out->dtype, p.self->shape, p.other->shape, p.out->shape};
    return call.accept(systemWorkspace, [task](const Launch &launch) {
        elementwise::run(task, launch.in("self"), launch.in("other"), launch.out("out"));
    });
}

}  // namespace

}  // namespace sim::div

extern "C" {

aclnnStatus aclnnDivGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnDiv", workspaceSize, executor);
    const sim::TensorDesc *selfDesc = call.input("self", self), *otherDesc = call.input("other", other);
    return sim::div::judge(call, {selfDesc, otherDesc, call.inplace("out", out)});
}

aclnnStatus aclnnDiv(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnDiv", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
