// The weight products of MlaProlog, with what happens to a result before anybody sees it.
#pragma once

#include "numeric/gemm.hpp"

#include <cstddef>
#include <cstdint>

namespace sim::mla_prolog {

struct Projection {
    numeric::Panel weight;
    size_t k = 0;
    bool integer = false;                // INT8 operands: exact sums, then rounded to float once
    bool roundsToBf16 = false;           // the result leaves the matrix unit as BF16
    const float *channelScale = nullptr; // one factor a column
    bool tokenScaleFirst = false;        // A2 and A3 multiply by the row's factor first, Ascend950 by the column's

    // c[m, n] = columns [n0, n0 + n) of a[m, k] W, dequantised or rounded. tokenScale: one factor a row, or null.
    void columns(const float *a, size_t m, const float *tokenScale, size_t n0, size_t n, float *c, size_t ldc) const;
    // All n columns, over the pool.
    void all(const float *a, size_t m, const float *tokenScale, size_t n, float *c) const;
};

// The panel with each 32-row block of a column multiplied by its power of two; scales are (columns, k / 32) E8M0.
numeric::Panel mxScaled(numeric::Panel panel, const uint8_t *scales, size_t k);

// Rows of E4M3 codes to floats, each block of 32 times its power of two; scales are (rows, k / 32). Exact as long as
// code times scale is a float, that is for scales below 2^119.
void decodeMx(const uint8_t *codes, const uint8_t *scales, size_t n, float *out);

}  // namespace sim::mla_prolog
