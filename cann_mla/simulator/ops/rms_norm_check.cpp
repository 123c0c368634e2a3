#include "aclnnop/aclnn_rms_norm.h"

#include <algorithm>

#include "core/entry.hpp"
#include "ops/rms_norm.hpp"

namespace sim::rms_norm {

using namespace primitive;

namespace {

constexpr int64_t mostDimensions = 8;
constexpr uint64_t userWorkspace = 256;

bool hasZero(const TensorDesc &desc) { return desc.isEmpty(); }

void checkGamma(const Params &p) {
    requireRank(tilingFailed, {"x", p.x}, 1, mostDimensions);
    requireRank(tilingFailed, {"gamma", p.gamma}, 1, std::min(mostDimensions, p.x->rank()));
    requireRank(tilingFailed, {"yOut", p.y}, p.x->rank(), p.x->rank());
    if (hasZero(*p.gamma)) refuse(tilingFailed, "gamma has shape " + print(p.gamma->shape) + "; it must not be empty");
    std::vector<int64_t> trailing(p.x->shape.end() - p.gamma->rank(), p.x->shape.end());
    requireShape(tilingFailed, {"gamma", p.gamma}, trailing, "the trailing axes of x");
}

void checkOutputs(const Params &p) {
    if (hasZero(*p.x)) refuse(tilingFailed, "x has shape " + print(p.x->shape) + "; it must not be empty");
    requireShape(tilingFailed, {"yOut", p.y}, p.x->shape, "the shape of x");
    for (size_t i = 0; i < p.rstd->shape.size(); ++i) {
        int64_t size = p.rstd->shape[i];
        bool fits = size == 1 || (i < p.x->shape.size() && size == p.x->shape[i]);
        if (fits && size != 0) continue;
        refuse(tilingFailed, "rstdOut has shape " + print(p.rstd->shape) +
                                 "; each axis must be that of x, and 1 where gamma covers it");
    }
}

}  // namespace

std::optional<Rejection> checkDefinition(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"x", p.x}, {"gamma", p.gamma}, {"yOut", p.y}, {"rstdOut", p.rstd}});
        requirePointers(call);
        requireDtype(paramInvalid, {"x", p.x}, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
        if (p.gamma->dtype != ACL_FLOAT) requireSameDtype(paramInvalid, {"gamma", p.gamma}, {"x", p.x});
        requireSameDtype(paramInvalid, {"yOut", p.y}, {"x", p.x});
        requireDtype(paramInvalid, {"rstdOut", p.rstd}, {ACL_FLOAT});
        for (const Named &operand : {Named{"x", p.x}, {"gamma", p.gamma}, {"yOut", p.y}, {"rstdOut", p.rstd}}) {
            requireNd(paramInvalid, operand);
        }
    });
}

std::optional<Rejection> checkTiling(const Params &p) {
    return caught([&] {
        checkGamma(p);
        checkOutputs(p);
        if (p.epsilon < 0) {
            refuse(tilingFailed, "epsilon is " + std::to_string(p.epsilon) + "; it must not be negative");
        }
    });
}

}  // namespace sim::rms_norm

extern "C" {

aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor *x, const aclTensor *gamma, double epsilon,
                                         const aclTensor *yOut, const aclTensor *rstdOut, uint64_t *workspaceSize,
                                         aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnRmsNorm", workspaceSize, executor);
    sim::rms_norm::Params params{call.input("x", x), call.input("gamma", gamma), call.output("yOut", yOut),
                                 call.output("rstdOut", rstdOut), static_cast<float>(epsilon)};
    if (auto refusal = sim::rms_norm::checkDefinition(params, call)) return call.reject(*refusal);
    if (call.allOutputsEmpty()) return call.acceptEmpty();
    if (auto refusal = call.checkViews()) return call.reject(*refusal);
    if (auto refusal = sim::rms_norm::checkTiling(params)) return call.reject(*refusal);
    return call.accept(sim::primitive::systemWorkspace + sim::rms_norm::userWorkspace,
                       sim::rms_norm::makeKernel(params));
}

aclnnStatus aclnnRmsNorm(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnRmsNorm", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
