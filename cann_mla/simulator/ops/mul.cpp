// aclnnMul and aclnnInplaceMul: products of two operands that are repeated against each other.
#include "aclnnop/aclnn_mul.h"

#include "core/entry.hpp"
#include "ops/elementwise.hpp"
#include "ops/promotion.hpp"

namespace sim::mul {

using namespace primitive;

namespace {

struct Params {
    Named self, other, out;
};

void checkDtypes(const Params &p) {
    for (const Named &operand : {p.self, p.other, p.out}) {
        requireDtype(paramInvalid, operand,
                     {ACL_FLOAT, ACL_FLOAT16, ACL_INT32, ACL_DOUBLE, ACL_INT8, ACL_UINT8, ACL_INT16, ACL_INT64,
                      ACL_BOOL, ACL_COMPLEX128, ACL_COMPLEX64, ACL_BF16});
    }
    aclDataType inner = promoted(p.self.desc->dtype, p.other.desc->dtype);
    if (isA950() || canCast(inner, p.out.desc->dtype)) return;
    refuse(paramInvalid, std::string("the product of ") + p.self.name + " and " + p.other.name + " has dtype " +
                             dtypeName(inner) + ", which cannot become " + dtypeName(p.out.desc->dtype) + ", that of " +
                             p.out.name);
}

std::optional<Rejection> check(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {p.self, p.other, p.out});
        requirePointers(call);
        checkDtypes(p);
        requireBroadcast(paramInvalid, p.self, p.other, p.out);
    });
}

int32_t judge(PhaseOne &call, const Params &p) {
    if (auto refusal = check(p, call)) return call.reject(*refusal);
    const TensorDesc &self = *p.self.desc, &other = *p.other.desc, &out = *p.out.desc;
    if (self.isEmpty() || other.isEmpty()) return call.acceptEmpty();
    aclDataType inner = promoted(self.dtype, other.dtype);
    elementwise::Task task{elementwise::Operation::Multiply, self.dtype, other.dtype, inner, inner, out.dtype,
                           self.shape, other.shape, out.shape};
    bool blocked = isNz(self) || isNz(other) || isNz(out);
    return call.accept(systemWorkspace, [task, blocked, names = p](const Launch &launch) {
        if (blocked) failWithoutKernel("an operand in FRACTAL_NZ");
        elementwise::run(task, launch.in(names.self.name), launch.in(names.other.name), launch.out(names.out.name));
    });
}

}  // namespace

}  // namespace sim::mul

extern "C" {

aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnMul", workspaceSize, executor);
    sim::primitive::Named left{"self", call.input("self", self)}, right{"other", call.input("other", other)};
    return sim::mul::judge(call, {left, right, {"out", call.inplace("out", out)}});
}

aclnnStatus aclnnMul(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnMul", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnInplaceMulGetWorkspaceSize(aclTensor *selfRef, const aclTensor *other, uint64_t *workspaceSize,
                                            aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnInplaceMul", workspaceSize, executor);
    sim::primitive::Named own{"selfRef", call.inplace("selfRef", selfRef)};
    return sim::mul::judge(call, {own, {"other", call.input("other", other)}, own});
}

aclnnStatus aclnnInplaceMul(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnInplaceMul", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
