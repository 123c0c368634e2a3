#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_mm.h"

#include "core/entry.hpp"
#include "ops/matmul.hpp"

namespace sim::matmul {

namespace {

constexpr uint64_t userWorkspace = 4 * 1024 * 1024 + 512;

int32_t judge(const char *api, Variant variant, const aclTensor *self, const aclTensor *mat2, aclTensor *out,
              int8_t cubeMathType, uint64_t *workspaceSize, aclOpExecutor **executor) {
    PhaseOne call(api, workspaceSize, executor);
    const TensorDesc *selfDesc = call.input("self", self);
    const TensorDesc *mat2Desc = call.input("mat2", mat2);
    const TensorDesc *outDesc = call.inplace("out", out);  // strides of out are honoured
    Params params{variant, selfDesc, mat2Desc, outDesc, cubeMathType};
    if (auto refusal = check(params, call)) return call.reject(*refusal);
    if (isEmpty(params)) return call.acceptEmpty();
    if (auto refusal = checkSteps(params)) return call.reject(*refusal);
    return call.accept(primitive::systemWorkspace + userWorkspace, makeKernel(params));
}

}  // namespace

}  // namespace sim::matmul

extern "C" {

aclnnStatus aclnnMmGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t cubeMathType,
                                    uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    return sim::matmul::judge("aclnnMm", sim::matmul::Variant::Mm, self, mat2, out, cubeMathType, workspaceSize,
                              executor);
}

aclnnStatus aclnnMm(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnMm", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out,
                                        int8_t cubeMathType, uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    return sim::matmul::judge("aclnnMatmul", sim::matmul::Variant::Matmul, self, mat2, out, cubeMathType,
                              workspaceSize, executor);
}

aclnnStatus aclnnMatmul(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnMatmul", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMatmulWeightNzGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out,
                                                int8_t cubeMathType, uint64_t *workspaceSize,
                                                aclOpExecutor **executor) {
    SIM_API;
    return sim::matmul::judge("aclnnMatmulWeightNz", sim::matmul::Variant::WeightNz, self, mat2, out, cubeMathType,
                              workspaceSize, executor);
}

aclnnStatus aclnnMatmulWeightNz(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnMatmulWeightNz", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
