#include "aclnnop/aclnn_ascend_quant.h"
#include "aclnnop/aclnn_ascend_quant_v3.h"

#include "core/entry.hpp"
#include "ops/ascend_quant.hpp"

namespace sim::ascend_quant {

namespace {

int32_t judge(PhaseOne &call, const Params &params) {
    if (auto refusal = check(params, call)) return call.reject(*refusal);
    if (params.x->isEmpty()) return call.acceptEmpty();
    return call.accept(primitive::systemWorkspace, makeKernel(params));
}

}  // namespace

}  // namespace sim::ascend_quant

extern "C" {

aclnnStatus aclnnAscendQuantGetWorkspaceSize(const aclTensor *x, const aclTensor *scale, const aclTensor *offset,
                                             bool sqrtMode, const char *roundMode, int32_t dstType,
                                             const aclTensor *y, uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnAscendQuant", workspaceSize, executor);
    const sim::TensorDesc *xDesc = call.input("x", x), *scaleDesc = call.input("scale", scale),
                          *offsetDesc = call.input("offset", offset);
    return sim::ascend_quant::judge(call, {sim::ascend_quant::Interface::V1, xDesc, scaleDesc, offsetDesc, sqrtMode,
                                           roundMode, dstType, -1, call.inplace("y", y)});
}

aclnnStatus aclnnAscendQuant(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnAscendQuant", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnAscendQuantV3GetWorkspaceSize(const aclTensor *x, const aclTensor *scale, const aclTensor *offset,
                                               bool sqrtMode, const char *roundMode, int32_t dstType, int32_t axis,
                                               const aclTensor *y, uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnAscendQuantV3", workspaceSize, executor);
    const sim::TensorDesc *xDesc = call.input("x", x), *scaleDesc = call.input("scale", scale),
                          *offsetDesc = call.input("offset", offset);
    return sim::ascend_quant::judge(call, {sim::ascend_quant::Interface::V3, xDesc, scaleDesc, offsetDesc, sqrtMode,
                                           roundMode, dstType, axis, call.inplace("y", y)});
}

aclnnStatus aclnnAscendQuantV3(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnAscendQuantV3", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
