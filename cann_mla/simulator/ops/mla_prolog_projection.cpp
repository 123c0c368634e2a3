#include "ops/mla_prolog_projection.hpp"

#include "numeric/convert.hpp"
#include "ops/mla_prolog_kernel.hpp"

#include <algorithm>
#include <vector>

namespace sim::mla_prolog {
namespace {

void multiplyIntegers(const Projection &projection, const float *a, size_t m, size_t n0, size_t n, float *c,
                      size_t ldc) {
    thread_local std::vector<int32_t> sums;
    sums.resize(m * n);
    numeric::multiplyColumnsExact(a, m, projection.k, projection.weight, n0, n, sums.data(), n);
    for (size_t row = 0; row < m; ++row) {
        for (size_t i = 0; i < n; ++i) c[row * ldc + i] = static_cast<float>(sums[row * n + i]);
    }
}

}  // namespace

void Projection::columns(const float *a, size_t m, const float *tokenScale, size_t n0, size_t n, float *c,
                         size_t ldc) const {
    if (integer) multiplyIntegers(*this, a, m, n0, n, c, ldc);
    else numeric::multiplyColumns(a, m, k, weight, n0, n, c, ldc);
    for (size_t row = 0; row < m; ++row) {
        float *values = c + row * ldc;
        if (roundsToBf16) numeric::roundToBf16(values, n);
        if (channelScale == nullptr) continue;
        const float *channel = channelScale + n0;
        const float token = tokenScale[row];
        if (tokenScaleFirst) {
            for (size_t i = 0; i < n; ++i) values[i] = values[i] * token * channel[i];
        } else {
            for (size_t i = 0; i < n; ++i) values[i] = values[i] * channel[i] * token;
        }
    }
}

void Projection::all(const float *a, size_t m, const float *tokenScale, size_t n, float *c) const {
    numeric::forColumns(n, [&](size_t n0, size_t count) { columns(a, m, tokenScale, n0, count, c + n0, n); });
}

numeric::Panel mxScaled(numeric::Panel panel, const uint8_t *scales, size_t k) {
    const size_t blocks = k / kMxBlock;
    return [panel = std::move(panel), scales, blocks](size_t k0, size_t rows, size_t n0, size_t columns, float *out) {
        panel(k0, rows, n0, columns, out);
        std::vector<float> factors(columns);
        for (size_t row = 0; row < rows; ++row) {
            if (row == 0 || (k0 + row) % kMxBlock == 0) {
                const size_t block = (k0 + row) / kMxBlock;
                for (size_t i = 0; i < columns; ++i) {
                    factors[i] = numeric::e8m0ToFloat(scales[(n0 + i) * blocks + block]);
                }
            }
            for (size_t i = 0; i < columns; ++i) out[row * columns + i] *= factors[i];
        }
    };
}

void decodeMx(const uint8_t *codes, const uint8_t *scales, size_t n, float *out) {
    numeric::e4m3ToFloat(codes, out, n);
    for (size_t first = 0; first < n; first += kMxBlock) {
        const float factor = numeric::e8m0ToFloat(scales[first / kMxBlock]);
        for (size_t i = first; i < first + kMxBlock; ++i) out[i] *= factor;
    }
}

}  // namespace sim::mla_prolog
