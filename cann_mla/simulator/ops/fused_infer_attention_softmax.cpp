#include "ops/fused_infer_attention_softmax.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "numeric/convert.hpp"
#include "numeric/multiversion.hpp"

namespace sim::fia {

namespace {

constexpr size_t lanes = 16;  // independent sums, so that compilers can use wide registers without reordering

// exp by a polynomial on [-ln2/2, ln2/2] and a power of two; within 2 units in the last place.
inline float exponential(float x) {
    constexpr float log2e = 1.44269504F, ln2High = 0.693359375F, ln2Low = -2.12194440e-4F;
    constexpr float roundingShift = 12582912.0F;  // 1.5 * 2^23
    constexpr float lowest = -87.0F, highest = 88.0F;
    float inside = x < lowest ? lowest : x;
    inside = inside > highest ? highest : inside;
    float power = (inside * log2e + roundingShift) - roundingShift;
    float r = (inside - power * ln2High) - power * ln2Low;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    auto bits = static_cast<uint32_t>((static_cast<int32_t>(power) + 127) << 23);
    float factor;
    std::memcpy(&factor, &bits, sizeof factor);
    float result = p * factor;
    result = x < lowest ? 0.0F : result;
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
        for (size_t k = 0; k < lanes; ++k) best[k] = values[i + k] > best[k] ? values[i + k] : best[k];
    }
    for (; i < n; ++i) best[0] = values[i] > best[0] ? values[i] : best[0];
    return *std::max_element(best, best + lanes);
}

SIM_MULTIVERSION float exponentiate(float *values, size_t n, float max) {
    float sums[lanes] = {};
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        for (size_t k = 0; k < lanes; ++k) {
            float e = exponential(values[i + k] - max);
            values[i + k] = e;
            sums[k] += e;
        }
    }
    for (; i < n; ++i) {
        values[i] = exponential(values[i] - max);
        sums[0] += values[i];
    }
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
