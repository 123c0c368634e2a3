// aclnnDynamicQuant and V2: one scale (and offset) for each row of x, found from the row itself.
#pragma once

#include "ops/primitive.hpp"

namespace sim::dynamic_quant {

struct Params {
    const TensorDesc *x, *smooth, *groupIndex;
    const TensorDesc *y, *scale, *offset;  // with an offset: asymmetric
};

// What the operator itself refuses.
std::optional<Rejection> check(const Params &params, const PhaseOne &call);

// Nothing to do, though all is well.
bool isEmpty(const Params &params);

// What its inner steps refuse.
std::optional<Rejection> checkSteps(const Params &params);

Kernel makeKernel(const Params &params);

}  // namespace sim::dynamic_quant
