#include "ops/fused_infer_attention_softmax.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "numeric/convert.hpp"
#include "numeric/multiversion.hpp"

namespace sim::fia {

namespace {

constexpr size_t lanes = 16;  // independent sums, so that compilers can use wide registers without reordering

// exp by a polynomial on [-ln2/2, ln2/2] and a power of two; within 2 units in the last place, 0 below -87.
inline float exponential(float x) {
    constexpr float log2e = 1.44269504F, ln2High = 0.693359375F, ln2Low = -2.12194440e-4F;
    constexpr float roundingShift = 12582912.0F;  // 1.5 * 2^23: the low bits of the sum are the nearest integer
    constexpr float lowest = -87.0F, highest = 88.0F;
    float inside = x > lowest ? x : lowest;
    inside = inside < highest ? inside : highest;
    float shifted = inside * log2e + roundingShift;
    float power = shifted - roundingShift;
    float r = (inside - power * ln2High) - power * ln2Low;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    float factor = numeric::floatFromBits((numeric::floatBits(shifted) + 127U) << 23);
    float result = x < lowest ? 0.0F : p * factor;
    return x == x ? result : x;
}

// `convert` writes codes, `revert` reads them back, a piece at a time.
template <class Code, class Convert, class Revert>
void throughCodes(float *values, size_t n, const Convert &convert, const Revert &revert) {
    constexpr size_t piece = 512;
    Code codes[piece];
    for (size_t i = 0; i < n; i += piece) {
        size_t count = std::min(piece, n - i);
        convert(values + i, codes, count);
        revert(codes, values + i, count);
    }
}

}  // namespace

SIM_MULTIVERSION float maximum(const float *values, size_t n) {
    float best[lanes];
    std::fill(best, best + lanes, -INFINITY);
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        for (size_t k = 0; k < lanes; ++k) best[k] = std::max(best[k], values[i + k]);
    }
    for (; i < n; ++i) best[0] = std::max(best[0], values[i]);
    return *std::max_element(best, best + lanes);
}

SIM_MULTIVERSION void exponentials(float *values, size_t n, float max) {
    for (size_t i = 0; i < n; ++i) values[i] = exponential(values[i] - max);
}

SIM_MULTIVERSION float total(const float *values, size_t n) {
    float sums[lanes] = {};
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        for (size_t k = 0; k < lanes; ++k) sums[k] += values[i + k];
    }
    for (; i < n; ++i) sums[0] += values[i];
    float sum = 0.0F;
    for (float lane : sums) sum += lane;
    return sum;
}

SIM_MULTIVERSION void scale(float *values, size_t n, float factor) {
    for (size_t i = 0; i < n; ++i) values[i] *= factor;
}

void roundToFp16(float *values, size_t n) {
    throughCodes<uint16_t>(
        values, n, [](const float *in, uint16_t *out, size_t k) { numeric::floatToFp16(in, out, k); },
        [](const uint16_t *in, float *out, size_t k) { numeric::fp16ToFloat(in, out, k); });
}

void roundToInt8(float *values, size_t n) {
    throughCodes<int8_t>(
        values, n, [](const float *in, int8_t *out, size_t k) { numeric::floatToInt8(in, out, k); },
        [](const int8_t *in, float *out, size_t k) { numeric::int8ToFloat(in, out, k); });
}

void roundToE4m3(float *values, size_t n) {
    throughCodes<uint8_t>(
        values, n, [](const float *in, uint8_t *out, size_t k) { numeric::floatToE4m3(in, out, k); },
        [](const uint8_t *in, float *out, size_t k) { numeric::e4m3ToFloat(in, out, k); });
}

void roundToHifloat8(float *values, size_t n) {
    throughCodes<uint8_t>(
        values, n, [](const float *in, uint8_t *out, size_t k) { numeric::floatToHifloat8(in, out, k); },
        [](const uint8_t *in, float *out, size_t k) { numeric::hifloat8ToFloat(in, out, k); });
}

}  // namespace sim::fia
