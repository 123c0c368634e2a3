#include "aclnnop/aclnn_dynamic_quant.h"
#include "aclnnop/aclnn_dynamic_quant_v2.h"

#include "core/entry.hpp"
#include "ops/dynamic_quant.hpp"

namespace sim::dynamic_quant {

namespace {

int32_t judge(PhaseOne &call, const Params &params) {
    if (auto refusal = check(params, call)) return call.reject(*refusal);
    if (isEmpty(params)) return call.acceptEmpty();
    if (auto refusal = checkSteps(params)) return call.reject(*refusal);
    uint64_t user = primitive::isA950() ? 1024 : 512;
    return call.accept(primitive::systemWorkspace + user, makeKernel(params));
}

}  // namespace

}  // namespace sim::dynamic_quant

extern "C" {

aclnnStatus aclnnDynamicQuantGetWorkspaceSize(const aclTensor *x, const aclTensor *smoothScalesOptional,
                                              const aclTensor *yOut, const aclTensor *scaleOut,
                                              uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnDynamicQuant", workspaceSize, executor);
    sim::dynamic_quant::Params params{call.input("x", x),
                                      call.input("smoothScalesOptional", smoothScalesOptional),
                                      nullptr,
                                      call.inplace("yOut", yOut),
                                      call.inplace("scaleOut", scaleOut),
                                      nullptr};
    return sim::dynamic_quant::judge(call, params);
}

aclnnStatus aclnnDynamicQuant(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnDynamicQuant", workspace, workspaceSize, executor, stream);
}

// dstType is not looked at: the dtype of yOut decides.
aclnnStatus aclnnDynamicQuantV2GetWorkspaceSize(const aclTensor *x, const aclTensor *smoothScalesOptional,
                                                const aclTensor *groupIndexOptional, int64_t /*dstType*/,
                                                const aclTensor *yOut, const aclTensor *scaleOut,
                                                const aclTensor *offsetOut, uint64_t *workspaceSize,
                                                aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnDynamicQuantV2", workspaceSize, executor);
    sim::dynamic_quant::Params params{call.input("x", x),
                                      call.input("smoothScalesOptional", smoothScalesOptional),
                                      call.input("groupIndexOptional", groupIndexOptional),
                                      call.inplace("yOut", yOut),
                                      call.inplace("scaleOut", scaleOut),
                                      call.inplace("offsetOut", offsetOut)};
    return sim::dynamic_quant::judge(call, params);
}

aclnnStatus aclnnDynamicQuantV2(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnDynamicQuantV2", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
