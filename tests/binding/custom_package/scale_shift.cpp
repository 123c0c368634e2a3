// The library of the custom operator package: written against the simulator as its own operators are.
#include "aclnn_scale_shift.h"

#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "core/operator.hpp"

scaleStatus aclnnScaleShiftGetWorkspaceSize(const aclTensor *x, const aclTensorList *shifts, double scale,
                                            const aclIntArray *rowsOptional, char *labelOptional, int8_t repeat,
                                            scaleRounding rounding, const aclTensor *out, uint64_t *workspaceSize,
                                            aclOpExecutor **executor) {
    sim::PhaseOne call("aclnnScaleShift", workspaceSize, executor);
    const sim::TensorDesc *input = call.input("x", x);
    auto added = call.inputList("shifts", shifts);
    const std::vector<int64_t> *rows = call.intArray("rowsOptional", rowsOptional);
    const sim::TensorDesc *output = call.output("out", out);
    if (input == nullptr || output == nullptr || !added) return call.reject(ACLNN_ERR_PARAM_NULLPTR, "x, shifts or out is null");
    std::string label = labelOptional == nullptr ? "none" : labelOptional;
    if (input->dtype != ACL_FLOAT || input->shape != output->shape || input->rank() != 2) {
        return call.reject(ACLNN_ERR_PARAM_INVALID, "x and out must be FP32 matrices of one shape (label " + label + ")");
    }
    int64_t width = input->dim(1);
    std::vector<int64_t> chosen;
    for (int64_t row = 0; rows == nullptr && row < input->dim(0); ++row) chosen.push_back(row);
    if (rows != nullptr) chosen = *rows;
    int64_t height = input->dim(0);
    return call.accept(64, [=](const sim::Launch &launch) {
        if (label == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(300));
        for (int64_t row : chosen) {
            if (row >= height) throw sim::KernelFault(507015, "row " + std::to_string(row) + " is outside of x");
        }
        float shift = 0;
        for (const void *one : launch.inList("shifts")) shift += *static_cast<const float *>(one);
        for (int64_t row : chosen) {
            for (int64_t i = row * width; i < (row + 1) * width; ++i) {
                float value = launch.in<float>("x")[i];
                for (int8_t round = 0; round < repeat; ++round) value = static_cast<float>(value * scale) + shift;
                launch.out<float>("out")[i] = rounding == SCALE_DOWN ? std::floor(value) : value;
            }
        }
    });
}

scaleStatus aclnnScaleShift(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, const aclrtStream stream) {
    return sim::phaseTwo("aclnnScaleShift", workspace, workspaceSize, executor, stream);
}
