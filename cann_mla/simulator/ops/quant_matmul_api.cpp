#include "aclnnop/aclnn_quant_matmul_v3.h"
#include "aclnnop/aclnn_quant_matmul_v4.h"
#include "aclnnop/aclnn_quant_matmul_v5.h"
#include "aclnnop/aclnn_quant_matmul_weight_nz.h"

#include "core/entry.hpp"
#include "ops/quant_matmul.hpp"

namespace sim::quant_matmul {

namespace {

constexpr uint64_t userWorkspace = 512;

int32_t judge(PhaseOne &call, const Params &params) {
    if (auto refusal = checkPresence(params, call)) return call.reject(*refusal);
    if (isEmpty(params)) return call.acceptEmpty();
    if (auto refusal = check(params)) return call.reject(*refusal);
    if (auto refusal = checkLate(params)) return call.acceptUntilPhaseTwo(*refusal);
    return call.accept(primitive::systemWorkspace + userWorkspace, makeKernel(params));
}

// V5 and WeightNz have one prototype.
Params fifteenParams(Interface interface, PhaseOne &call, const aclTensor *x1, const aclTensor *x2,
                     const aclTensor *x1Scale, const aclTensor *x2Scale, const aclTensor *yScale,
                     const aclTensor *x1Offset, const aclTensor *x2Offset, const aclTensor *yOffset,
                     const aclTensor *bias, bool transposeX1, bool transposeX2, int64_t groupSize, aclTensor *out) {
    Params p;
    p.interface = interface;
    p.x1 = call.input("x1", x1);
    p.x2 = call.input("x2", x2);
    p.x1Scale = call.input("x1Scale", x1Scale);
    p.x2Scale = call.input("x2Scale", x2Scale);
    p.yScale = call.input("yScale", yScale);
    p.x1Offset = call.input("x1Offset", x1Offset);
    p.x2Offset = call.input("x2Offset", x2Offset);
    p.yOffset = call.input("yOffset", yOffset);
    p.bias = call.input("bias", bias);
    p.transposeX1 = transposeX1;
    p.transposeX2 = transposeX2;
    p.groupSize = groupSize;
    p.out = call.inplace("out", out);
    return p;
}

}  // namespace

}  // namespace sim::quant_matmul

extern "C" {

aclnnStatus aclnnQuantMatmulV3GetWorkspaceSize(const aclTensor *x1, const aclTensor *x2, const aclTensor *scale,
                                               const aclTensor *offset, const aclTensor *bias, bool transposeX1,
                                               bool transposeX2, const aclTensor *out, uint64_t *workspaceSize,
                                               aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnQuantMatmulV3", workspaceSize, executor);
    sim::quant_matmul::Params p;
    p.interface = sim::quant_matmul::Interface::V3;
    p.names = sim::quant_matmul::v3Names;
    p.x1 = call.input("x1", x1);
    p.x2 = call.input("x2", x2);
    p.x2Scale = call.input(p.names.x2Scale, scale);
    p.x2Offset = call.input(p.names.x2Offset, offset);
    p.bias = call.input("bias", bias);
    p.transposeX1 = transposeX1;
    p.transposeX2 = transposeX2;
    p.out = call.inplace("out", out);
    return sim::quant_matmul::judge(call, p);
}

aclnnStatus aclnnQuantMatmulV3(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnQuantMatmulV3", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnQuantMatmulV4GetWorkspaceSize(const aclTensor *x1, const aclTensor *x2, const aclTensor *scale,
                                               const aclTensor *offset, const aclTensor *pertokenScaleOptional,
                                               const aclTensor *bias, bool transposeX1, bool transposeX2,
                                               const aclTensor *out, uint64_t *workspaceSize,
                                               aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnQuantMatmulV4", workspaceSize, executor);
    sim::quant_matmul::Params p;
    p.interface = sim::quant_matmul::Interface::V4;
    p.names = sim::quant_matmul::v3Names;
    p.x1 = call.input("x1", x1);
    p.x2 = call.input("x2", x2);
    p.x2Scale = call.input(p.names.x2Scale, scale);
    p.x2Offset = call.input(p.names.x2Offset, offset);
    p.x1Scale = call.input(p.names.x1Scale, pertokenScaleOptional);
    p.bias = call.input("bias", bias);
    p.transposeX1 = transposeX1;
    p.transposeX2 = transposeX2;
    p.out = call.inplace("out", out);
    return sim::quant_matmul::judge(call, p);
}

aclnnStatus aclnnQuantMatmulV4(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnQuantMatmulV4", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnQuantMatmulV5GetWorkspaceSize(const aclTensor *x1, const aclTensor *x2, const aclTensor *x1Scale,
                                               const aclTensor *x2Scale, const aclTensor *yScale,
                                               const aclTensor *x1Offset, const aclTensor *x2Offset,
                                               const aclTensor *yOffset, const aclTensor *bias, bool transposeX1,
                                               bool transposeX2, int64_t groupSize, aclTensor *out,
                                               uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnQuantMatmulV5", workspaceSize, executor);
    return sim::quant_matmul::judge(
        call, sim::quant_matmul::fifteenParams(sim::quant_matmul::Interface::V5, call, x1, x2, x1Scale, x2Scale, yScale,
                                               x1Offset, x2Offset, yOffset, bias, transposeX1, transposeX2, groupSize,
                                               out));
}

aclnnStatus aclnnQuantMatmulV5(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnQuantMatmulV5", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnQuantMatmulWeightNzGetWorkspaceSize(const aclTensor *x1, const aclTensor *x2, const aclTensor *x1Scale,
                                                     const aclTensor *x2Scale, const aclTensor *yScale,
                                                     const aclTensor *x1Offset, const aclTensor *x2Offset,
                                                     const aclTensor *yOffset, const aclTensor *bias, bool transposeX1,
                                                     bool transposeX2, int64_t groupSize, aclTensor *out,
                                                     uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnQuantMatmulWeightNz", workspaceSize, executor);
    return sim::quant_matmul::judge(
        call, sim::quant_matmul::fifteenParams(sim::quant_matmul::Interface::WeightNz, call, x1, x2, x1Scale, x2Scale,
                                               yScale, x1Offset, x2Offset, yOffset, bias, transposeX1, transposeX2,
                                               groupSize, out));
}

aclnnStatus aclnnQuantMatmulWeightNz(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                     aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnQuantMatmulWeightNz", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
