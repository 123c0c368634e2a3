#include "aclnnop/aclnn_cast.h"

#include "core/entry.hpp"
#include "ops/cast.hpp"

namespace sim::cast {

using namespace primitive;

namespace {

constexpr int64_t mostDimensions = 8;

bool isCommon(aclDataType dtype) {
    return isOneOf(dtype, {ACL_FLOAT16, ACL_FLOAT, ACL_DOUBLE, ACL_INT8, ACL_UINT8, ACL_INT16, ACL_INT32, ACL_INT64,
                           ACL_UINT16, ACL_UINT32, ACL_UINT64, ACL_BOOL, ACL_COMPLEX64, ACL_COMPLEX128, ACL_BF16});
}

bool isWide(aclDataType dtype) { return isOneOf(dtype, {ACL_FLOAT16, ACL_FLOAT, ACL_BF16}); }

bool isFloat8(aclDataType dtype) { return isOneOf(dtype, {ACL_HIFLOAT8, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN}); }

bool isFloat4(aclDataType dtype) { return isOneOf(dtype, {ACL_FLOAT4_E2M1, ACL_FLOAT4_E1M2}); }

bool isServed(aclDataType from, aclDataType to) {
    if (from == to || (isCommon(from) && isCommon(to))) return true;
    auto either = [&](auto left, auto right) { return (left(from) && right(to)) || (left(to) && right(from)); };
    auto is = [](aclDataType wanted) { return [wanted](aclDataType dtype) { return dtype == wanted; }; };
    return either(isFloat8, isWide) || either(isFloat4, isWide) || either(isFloat4, isFloat8) ||
           (from == ACL_INT32 && to == ACL_INT4) || either(is(ACL_COMPLEX32), is(ACL_COMPLEX64)) ||
           either(is(ACL_COMPLEX32), is(ACL_FLOAT16));
}

void checkDtypes(const Params &p) {
    auto known = [](aclDataType dtype, bool asResult) {
        if (isCommon(dtype)) return true;
        if (!isA950()) return false;
        return isFloat8(dtype) || isFloat4(dtype) || dtype == ACL_COMPLEX32 || (asResult && dtype == ACL_INT4);
    };
    if (!known(p.self->dtype, false)) {
        refuse(paramInvalid, std::string("self has dtype ") + dtypeName(p.self->dtype) + ", which Cast does not take");
    }
    if (!known(p.dtype, true)) {
        refuse(paramInvalid, std::string("dtype is ") + dtypeName(p.dtype) + ", which Cast does not make");
    }
}

}  // namespace

std::optional<Rejection> check(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"self", p.self}, {"out", p.out}});
        requirePointers(call);
        checkDtypes(p);
        requireRank(paramInvalid, {"self", p.self}, 0, mostDimensions);
        requireShape(paramInvalid, {"out", p.out}, p.self->shape, "the shape of self");
        if (p.out->dtype == ACL_INT4 && !p.self->isDense()) {
            refuse(paramInvalid, "self is a strided view with strides " + print(p.self->strides) +
                                     "; with out of INT4 it must be dense");
        }
    });
}

std::optional<Rejection> checkSteps(const Params &p) {
    return caught([&] {
        if (!isServed(p.self->dtype, p.dtype)) {
            refuse(innerNullptr, std::string("self has dtype ") + dtypeName(p.self->dtype) + " and dtype is " +
                                     dtypeName(p.dtype) + "; no kernel converts this way");
        }
        // The result has the dtype that was asked for and the format of self, and is copied into out as it is.
        if (p.out->dtype != p.dtype) {
            refuse(innerNullptr, std::string("out has dtype ") + dtypeName(p.out->dtype) + " and dtype is " +
                                     dtypeName(p.dtype) + "; they must be equal");
        }
        if (p.self->format != ACL_FORMAT_ND) {
            refuse(innerNullptr, std::string("self has format ") + formatName(p.self->format) + "; allowed: ND");
        }
    });
}

}  // namespace sim::cast

extern "C" {

aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor *self, aclDataType dtype, aclTensor *out, uint64_t *workspaceSize,
                                      aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnCast", workspaceSize, executor);
    const sim::TensorDesc *selfDesc = call.input("self", self), *outDesc = call.inplace("out", out);
    sim::cast::Params params{selfDesc, outDesc, dtype};
    if (auto refusal = sim::cast::check(params, call)) return call.reject(*refusal);
    if (selfDesc->isEmpty()) return call.acceptEmpty();
    if (auto refusal = sim::cast::checkSteps(params)) return call.reject(*refusal);
    uint64_t workspace = selfDesc->dtype == dtype ? 0 : sim::primitive::systemWorkspace + 512;
    return call.accept(workspace, sim::cast::makeKernel(params));
}

aclnnStatus aclnnCast(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnCast", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
