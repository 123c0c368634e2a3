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

// `count` dense elements in another dtype, in the calling thread. Faults for dtypes without a kernel.
void convert(aclDataType from, aclDataType to, const void *source, void *destination, int64_t count);

}  // namespace sim::cast
