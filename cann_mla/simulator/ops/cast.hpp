// aclnnCast: every element in another type.
#pragma once

#include "ops/primitive.hpp"

namespace sim::cast {

struct Params {
    const TensorDesc *self, *out;
    aclDataType dtype;
};

std::optional<Rejection> check(const Params &params, const PhaseOne &call);
std::optional<Rejection> checkSteps(const Params &params);

Kernel makeKernel(const Params &params);

}  // namespace sim::cast
