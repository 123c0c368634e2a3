// x1 and x2 of one integer or 8-bit float product, as floats.
#pragma once

#include "numeric/gemm.hpp"
#include "ops/quant_matmul.hpp"

namespace sim::quant_matmul {

// x2 of one matrix, however it is stored.
numeric::Panel weightPanel(const Product &product, const uint8_t *data);

// x1 of one matrix, [m, depth] from column k0 on.
void loadRows(const Product &product, const uint8_t *data, int64_t k0, int64_t depth, float *out);

}  // namespace sim::quant_matmul
