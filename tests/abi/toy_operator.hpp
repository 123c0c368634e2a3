// An operator made for these tests: yOut = xs[0] + xs[1] + ..., accRef += yOut, in FP32, with a workspace of 96 bytes.
// It is written as the simulator's operators are, so that the programs test phases, operands and launches with it.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "core/operator.hpp"

namespace toy {

inline std::atomic<int> launches{0};
inline std::atomic<int> sleepMilliseconds{0};

inline int64_t count(const sim::TensorDesc *desc) { return desc == nullptr ? 0 : desc->numel(); }

inline aclnnStatus sumGetWorkspaceSize(const aclTensorList *xs, const aclTensor *biasOptional, aclTensor *accRef,
                                       aclTensor *yOut, uint64_t *workspaceSize, aclOpExecutor **executor) {
    sim::PhaseOne call("aclnnToySum", workspaceSize, executor);
    auto inputs = call.inputList("xs", xs);
    const sim::TensorDesc *bias = call.input("biasOptional", biasOptional);
    const sim::TensorDesc *acc = call.inplace("accRef", accRef);
    const sim::TensorDesc *y = call.output("yOut", yOut);
    if (!inputs) return call.reject(ACLNN_ERR_PARAM_NULLPTR, "xs is null");
    if (y == nullptr) return call.reject(ACLNN_ERR_PARAM_NULLPTR, "yOut is null");
    if (call.allOutputsEmpty()) return call.acceptEmpty();
    int64_t length = count(y);
    bool hasBias = bias != nullptr, hasAcc = acc != nullptr;
    if (hasBias) inputs->push_back(bias);
    if (hasAcc) inputs->push_back(acc);
    for (const sim::TensorDesc *input : *inputs) {
        if (count(input) != length) return call.reject(ACLNN_ERR_INNER_TILING_ERROR, "an operand differs in size");
    }
    return call.accept(96, [=](const sim::Launch &launch) {
        std::this_thread::sleep_for(std::chrono::milliseconds(sleepMilliseconds));
        float *out = launch.out<float>("yOut");
        for (int64_t i = 0; i < length; ++i) {
            float sum = hasBias ? launch.in<float>("biasOptional")[i] : 0.0f;
            for (const void *input : launch.inList("xs")) sum += static_cast<const float *>(input)[i];
            if (hasAcc) launch.out<float>("accRef")[i] += sum;
            out[i] = sum;
        }
        ++launches;
    });
}

inline aclnnStatus sum(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return sim::phaseTwo("aclnnToySum", workspace, workspaceSize, executor, stream);
}

// A kernel that fails with a code of its own.
inline aclnnStatus failing(int32_t status, aclrtStream stream) {
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    sim::PhaseOne call("aclnnToyFault", &size, &executor);
    aclnnStatus phaseOne = call.accept(0, [status](const sim::Launch &) {
        throw sim::KernelFault(status, "made to fail");
    });
    return phaseOne != 0 ? phaseOne : sim::phaseTwo("aclnnToyFault", nullptr, 0, executor, stream);
}

}  // namespace toy
