// The vector steps of MlaProlog on one row, in the order of the device's instructions: all arithmetic in float32.
#pragma once

#include "acl/acl_base.h"
#include "numeric/gemm.hpp"

#include <cstddef>
#include <cstdint>

namespace sim::mla_prolog {

// The formats that a quantised operand can have: INT8, FLOAT8_E4M3FN, HIFLOAT8.
numeric::Storage storageOf(aclDataType dtype);

// out = gamma * x / sqrt(mean(x^2) + epsilon), times alpha unless alpha is 1. n is a multiple of 64. out may be x.
void rmsNorm(const float *x, size_t n, const float *gamma, float epsilon, float alpha, float *out);

// 64 values in pairs (even, odd) to rotated halves; cos and sin are 64 wide and need not repeat. out is not x.
void rotate(const float *x, const uint16_t *cosBf16, const uint16_t *sinBf16, float *out);

// Values to codes of `dtype`, saturating, NaN to 0: ties to even, HIFLOAT8 ties away from zero.
void encode(aclDataType dtype, const float *values, size_t n, uint8_t *codes);

// How one row gets a scale of its own: scale = max|x| / Q with Q = 127, 448, 32768.
struct DynamicQuant {
    aclDataType dtype = ACL_INT8;
    bool is950 = false;
    // A2 and A3 round the query to FP16 on the way to INT8, both times away from zero.
    bool viaHalf = false;

    // Writes n codes and returns the scale. `values` are destroyed.
    float operator()(float *values, size_t n, uint8_t *codes) const;
};

// One tile of a per-tile cache row: codes, and the scale that turns them back. `values` are destroyed.
// INT8 clips at alpha * max|x| first; E4M3 and HIFLOAT8 have no use for alpha.
float quantiseTile(aclDataType dtype, float alpha, float *values, size_t n, uint8_t *codes);

// MX: blocks of 32 values share a power of two. n E4M3 codes and n/32 E8M0 bytes.
void quantiseMx(const float *values, size_t n, uint8_t *codes, uint8_t *scales);

}  // namespace sim::mla_prolog
