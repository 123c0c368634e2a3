#include "ops/mla_prolog_math.hpp"

#include "numeric/convert.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace sim::mla_prolog {
namespace {

using namespace numeric;

constexpr size_t kLanes = 64;  // floats in a vector register of the device

// The device adds register by register and folds the last register in pairs of neighbours.
float sumOfSquares(const float *x, size_t n) {
    float lanes[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = x[lane] * x[lane];
    for (size_t i = kLanes; i < n; i += kLanes) {
        for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = x[i + lane] * x[i + lane] + lanes[lane];
    }
    for (size_t width = kLanes / 2; width > 0; width /= 2) {
        for (size_t lane = 0; lane < width; ++lane) lanes[lane] = lanes[2 * lane] + lanes[2 * lane + 1];
    }
    return lanes[0];
}

float largestMagnitude(const float *values, size_t n) {
    float largest = 0.0F;
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(values[i]));
    return largest;
}

float largestCode(aclDataType dtype) {
    return dtype == ACL_INT8 ? 127.0F : dtype == ACL_FLOAT8_E4M3FN ? 448.0F : 32768.0F;
}

}  // namespace

Storage storageOf(aclDataType dtype) {
    switch (dtype) {
        case ACL_INT8: return Storage::Int8;
        case ACL_FLOAT8_E4M3FN: return Storage::E4m3;
        case ACL_HIFLOAT8: return Storage::Hifloat8;
        default: return Storage::Bf16;
    }
}

void rmsNorm(const float *x, size_t n, const float *gamma, float epsilon, float alpha, float *out) {
    const float reciprocal = 1.0F / static_cast<float>(n);
    const float root = std::sqrt(sumOfSquares(x, n) * reciprocal + epsilon);
    for (size_t i = 0; i < n; ++i) out[i] = x[i] / root * gamma[i];
    if (std::fabs(alpha - 1.0F) >= FLT_EPSILON) {
        for (size_t i = 0; i < n; ++i) out[i] *= alpha;
    }
}

void rotate(const float *x, const uint16_t *cosBf16, const uint16_t *sinBf16, float *out) {
    constexpr size_t half = 32;
    for (size_t i = 0; i < half; ++i) {
        const float even = x[2 * i], odd = x[2 * i + 1];
        out[i] = even * bf16ToFloat(cosBf16[i]) - odd * bf16ToFloat(sinBf16[i]);
        out[half + i] = odd * bf16ToFloat(cosBf16[half + i]) + even * bf16ToFloat(sinBf16[half + i]);
    }
}

void encode(aclDataType dtype, const float *values, size_t n, uint8_t *codes) {
    switch (dtype) {
        case ACL_INT8: return floatToInt8(values, reinterpret_cast<int8_t *>(codes), n);
        case ACL_FLOAT8_E4M3FN: floatToE4m3(values, codes, n); break;
        default: floatToHifloat8(values, codes, n); break;
    }
    for (size_t i = 0; i < n; ++i) codes[i] = std::isnan(values[i]) ? uint8_t{0} : codes[i];
}

float DynamicQuant::operator()(float *values, size_t n, uint8_t *codes) const {
    const float largest = largestMagnitude(values, n), limit = largestCode(dtype);
    float scale = 0.0F;
    if (is950) {
        scale = largest * (1.0F / limit);
        for (size_t i = 0; i < n; ++i) values[i] /= scale;
    } else {
        scale = largest / limit;
        const float factor = limit / largest;
        for (size_t i = 0; i < n; ++i) values[i] *= factor;
    }
    if (viaHalf) {
        for (size_t i = 0; i < n; ++i) {
            const float half = fp16ToFloat(floatToFp16(values[i], Rounding::NearestAway));
            codes[i] = static_cast<uint8_t>(floatToInt8(half, Rounding::NearestAway));
        }
    } else {
        encode(dtype, values, n, codes);
    }
    return scale;
}

float quantiseTile(aclDataType dtype, float alpha, float *values, size_t n, uint8_t *codes) {
    const float largest = largestMagnitude(values, n);
    float scale = 0.0F;
    if (dtype == ACL_INT8) {
        const float limit = largest * alpha;
        scale = limit * (1.0F / 127.0F);
        const float factor = 1.0F / scale;
        for (size_t i = 0; i < n; ++i) values[i] = std::max(std::min(values[i], limit), -limit) * factor;
    } else {
        scale = std::max(largest, 1e-4F) * (1.0F / largestCode(dtype));
        for (size_t i = 0; i < n; ++i) values[i] /= scale;
    }
    encode(dtype, values, n, codes);
    return scale;
}

void quantiseMx(const float *values, size_t n, uint8_t *codes, uint8_t *scales) {
    constexpr size_t block = 32;
    constexpr int exponentOfLargest = 8;  // 448 lies between 2^8 and 2^9
    for (size_t first = 0; first < n; first += block) {
        uint16_t bits[block];
        int exponent = 0;
        bool zero = true;
        for (size_t i = 0; i < block; ++i) {
            bits[i] = floatToBf16(values[first + i], Rounding::NearestAway);
            exponent = std::max(exponent, (bits[i] >> 7) & 0xFF);
            zero = zero && (bits[i] & 0x7F80) == 0;
        }
        const bool special = exponent == 255;
        const int shared = zero ? 0 : special ? 255 : std::max(exponent - exponentOfLargest, 0);
        scales[first / block] = static_cast<uint8_t>(shared);
        const float factor = zero ? 0.0F : special ? NAN : std::ldexp(1.0F, 127 - shared);
        float scaled[block];
        for (size_t i = 0; i < block; ++i) scaled[i] = roundToBf16(bf16ToFloat(bits[i]) * factor);
        encode(ACL_FLOAT8_E4M3FN, scaled, block, codes + first);
    }
}

}  // namespace sim::mla_prolog
