#include "aclnnop/aclnn_ring_attention_update.h"

#include "core/entry.hpp"
#include "ops/ring_attention_update.hpp"

namespace sim::ring {

namespace {

constexpr uint64_t systemWorkspace = 16 * 1024 * 1024;

std::optional<std::string> text(const char *value) { return value ? std::optional<std::string>(value) : std::nullopt; }

int32_t judge(PhaseOne &call, const Params &p) {
    if (auto refusal = check(p, call.executorIsNull(), call.workspaceSizeIsNull())) return call.reject(*refusal);
    if (auto refusal = checkLate(p)) return call.acceptUntilPhaseTwo(*refusal);
    return call.accept(systemWorkspace, makeKernel(p));
}

}  // namespace

}  // namespace sim::ring

#define RING_TENSORS                                                                                                   \
    const aclTensor *prevAttnOut, const aclTensor *prevSoftmaxMax, const aclTensor *prevSoftmaxSum,                    \
        const aclTensor *curAttnOut, const aclTensor *curSoftmaxMax, const aclTensor *curSoftmaxSum,                   \
        const aclTensor *actualSeqQlenOptional
#define RING_OUTPUTS                                                                                                   \
    const aclTensor *attnOutOut, const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut,                       \
        uint64_t *workspaceSize, aclOpExecutor **executor

// Braces keep the order: operands are registered as the prototype names them.
#define RING_PARAMS(softmaxLayout)                                                                                     \
    sim::ring::Params {                                                                                                \
        sim::product() == sim::Product::A950, call.input("prevAttnOut", prevAttnOut),                                  \
            call.input("prevSoftmaxMax", prevSoftmaxMax), call.input("prevSoftmaxSum", prevSoftmaxSum),                \
            call.input("curAttnOut", curAttnOut), call.input("curSoftmaxMax", curSoftmaxMax),                          \
            call.input("curSoftmaxSum", curSoftmaxSum), call.input("actualSeqQlenOptional", actualSeqQlenOptional),    \
            call.output("attnOutOut", attnOutOut), call.output("softmaxMaxOut", softmaxMaxOut),                        \
            call.output("softmaxSumOut", softmaxSumOut), sim::ring::text(inputLayoutOptional), softmaxLayout           \
    }

extern "C" {

aclnnStatus aclnnRingAttentionUpdateGetWorkspaceSize(RING_TENSORS, char *inputLayoutOptional, RING_OUTPUTS) {
    SIM_API;
    sim::PhaseOne call("aclnnRingAttentionUpdate", workspaceSize, executor);
    return sim::ring::judge(call, RING_PARAMS(std::nullopt));
}

aclnnStatus aclnnRingAttentionUpdate(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                     aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnRingAttentionUpdate", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnRingAttentionUpdateV2GetWorkspaceSize(RING_TENSORS, char *inputLayoutOptional,
                                                       char *inputSoftmaxLayoutOptional, RING_OUTPUTS) {
    SIM_API;
    sim::PhaseOne call("aclnnRingAttentionUpdateV2", workspaceSize, executor);
    return sim::ring::judge(call, RING_PARAMS(sim::ring::text(inputSoftmaxLayoutOptional)));
}

aclnnStatus aclnnRingAttentionUpdateV2(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                       aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnRingAttentionUpdateV2", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
