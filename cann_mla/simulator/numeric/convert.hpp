// Number formats of the device, to and from float.
//
// Bit patterns travel as uint16_t / uint8_t. Decoding is exact for every format here. Encoding names its rounding;
// where a format has no infinity, or the caller wants none, `Overflow::Saturate` gives the largest finite value.
// The scalar functions are the definition; the array functions run the same code over n elements (source and
// destination must not overlap).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sim::numeric {

enum class Rounding { NearestEven, NearestAway };  // CANN: CAST_RINT, CAST_ROUND
enum class Overflow { Saturate, Special };         // Special: infinity, or NaN where the format has no infinity

inline uint32_t floatBits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float floatFromBits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// ---- 16-bit ------------------------------------------------------------------------------------------------------

inline float bf16ToFloat(uint16_t bits) {
    return floatFromBits(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t floatToBf16(float value, Rounding rounding = Rounding::NearestEven) {
    const uint32_t bits = floatBits(value);
    const uint32_t half = rounding == Rounding::NearestEven ? 0x7FFFU + ((bits >> 16) & 1U) : 0x8000U;
    const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    return static_cast<uint16_t>((nan ? bits | 0x00400000U : bits + half) >> 16);
}

inline float roundToBf16(float value) {
    return bf16ToFloat(floatToBf16(value));
}

float fp16ToFloat(uint16_t bits);
uint16_t floatToFp16(float value, Rounding rounding = Rounding::NearestEven);  // overflow gives infinity

// ---- 8-bit floating point ----------------------------------------------------------------------------------------

float e4m3ToFloat(uint8_t bits);  // FLOAT8_E4M3FN: no infinity, 0x7F and 0xFF are NaN, largest 448
float e5m2ToFloat(uint8_t bits);  // FLOAT8_E5M2: IEEE-like, largest 57344
float e8m0ToFloat(uint8_t bits);  // 2^(bits-127), 255 is NaN
float hifloat8ToFloat(uint8_t bits);

uint8_t floatToE4m3(float value, Overflow overflow = Overflow::Saturate);  // nearest even
uint8_t floatToE5m2(float value, Overflow overflow = Overflow::Saturate);  // nearest even
uint8_t floatToHifloat8(float value, Overflow overflow = Overflow::Saturate);  // nearest, ties away from zero

// ---- 4-bit (one element an item here; two a byte in memory, low nibble first) --------------------------------------

float e2m1ToFloat(uint8_t bits);
uint8_t floatToE2m1(float value);  // nearest even, saturating at 6
inline int8_t int4ToInt8(uint8_t nibble) {
    return static_cast<int8_t>(static_cast<int8_t>(nibble << 4) >> 4);
}

// ---- integers ----------------------------------------------------------------------------------------------------

// Nearest integer, saturated to [-128, 127]; NaN gives 0.
inline int8_t floatToInt8(float value, Rounding rounding = Rounding::NearestEven) {
    const float whole = rounding == Rounding::NearestEven ? std::nearbyintf(value) : std::roundf(value);
    const float low = whole < -128.0F ? -128.0F : whole;
    const float clamped = low > 127.0F ? 127.0F : low;
    return clamped == clamped ? static_cast<int8_t>(clamped) : int8_t{0};
}

// ---- arrays ------------------------------------------------------------------------------------------------------

void bf16ToFloat(const uint16_t *source, float *destination, size_t n);
void fp16ToFloat(const uint16_t *source, float *destination, size_t n);
void int8ToFloat(const int8_t *source, float *destination, size_t n);
void e4m3ToFloat(const uint8_t *source, float *destination, size_t n);
void e5m2ToFloat(const uint8_t *source, float *destination, size_t n);
void hifloat8ToFloat(const uint8_t *source, float *destination, size_t n);
void int4ToFloat(const uint8_t *packed, float *destination, size_t n);  // n elements, an even start
void e2m1ToFloat(const uint8_t *packed, float *destination, size_t n);  // n elements, an even start

void floatToBf16(const float *source, uint16_t *destination, size_t n);  // nearest even
void floatToFp16(const float *source, uint16_t *destination, size_t n);  // nearest even
void roundToBf16(float *values, size_t n);                               // in place, nearest even
void floatToInt8(const float *source, int8_t *destination, size_t n);    // nearest even, saturating
void floatToE4m3(const float *source, uint8_t *destination, size_t n);   // nearest even, saturating
void floatToHifloat8(const float *source, uint8_t *destination, size_t n);  // ties away, saturating

}  // namespace sim::numeric
