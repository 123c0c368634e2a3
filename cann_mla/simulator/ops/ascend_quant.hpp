// aclnnAscendQuant and V3: elements times a scale that is given, to integers. One scale for all, for a column, or (V3)
// for a row.
#pragma once

#include <string>

#include "ops/primitive.hpp"

namespace sim::ascend_quant {

enum class Interface { V1, V3 };

struct Params {
    Interface interface;
    const TensorDesc *x, *scale, *offset;
    bool sqrtMode;
    const char *roundMode;
    int32_t dstType;
    int32_t axis;  // of x, the one that scale goes along; V1: the last one
    const TensorDesc *y;
};

std::optional<Rejection> check(const Params &params, const PhaseOne &call);

Kernel makeKernel(const Params &params);

}  // namespace sim::ascend_quant
