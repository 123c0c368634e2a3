// aclnnRmsNorm: y = x / sqrt(mean(x^2) + epsilon) * gamma over the trailing axes that gamma covers.
#pragma once

#include "ops/primitive.hpp"

namespace sim::rms_norm {

struct Params {
    const TensorDesc *x, *gamma, *y, *rstd;
    float epsilon;
};

// Nulls and the operator definition: what is asked before anything else.
std::optional<Rejection> checkDefinition(const Params &params, const PhaseOne &call);

std::optional<Rejection> checkTiling(const Params &params);

Kernel makeKernel(const Params &params);

}  // namespace sim::rms_norm
