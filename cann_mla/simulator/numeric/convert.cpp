#include "numeric/convert.hpp"

#include "numeric/multiversion.hpp"

#include <algorithm>
#include <array>

namespace sim::numeric {
namespace {

// A binary format with `Mantissa` stored bits, exponent bias `Bias` and `MaxCode` as its largest finite magnitude.
// Returns the magnitude code; a code above MaxCode means overflow. Not for infinities and NaN.
template <int Mantissa, int Bias>
inline uint32_t encodeMagnitude(uint32_t magnitude, Rounding rounding) {
    const int exponent = std::max(static_cast<int>(magnitude >> 23), 1) - 127;
    const uint32_t implicit = (magnitude >> 23) == 0 ? 0U : 0x00800000U;
    const uint32_t significand = (magnitude & 0x007FFFFFU) | implicit;
    const int below = std::max(0, 1 - Bias - exponent);  // how far under the smallest normal exponent
    const int shift = std::min(23 - Mantissa + below, 31);
    const uint32_t half = 1U << (shift - 1);
    const uint32_t odd = (significand >> shift) & 1U;
    const uint32_t rounded = (significand + (rounding == Rounding::NearestEven ? half - 1U + odd : half)) >> shift;
    return (static_cast<uint32_t>(std::max(0, exponent + Bias - 1)) << Mantissa) + rounded;
}

inline float decodeFp16(uint16_t bits) {
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFFU) << 13;
    const uint32_t exponent = magnitude & 0x0F800000U;
    const uint32_t special = magnitude + (255U - 31U) * 0x00800000U;
    const uint32_t normal = magnitude + (127U - 15U) * 0x00800000U;
    // A subnormal becomes normal by letting a float subtraction remove the implicit bit that it does not have.
    const float subnormal = floatFromBits(magnitude + 113U * 0x00800000U) - floatFromBits(113U * 0x00800000U);
    const uint32_t value = exponent == 0x0F800000U ? special : exponent == 0 ? floatBits(subnormal) : normal;
    return floatFromBits(value | static_cast<uint32_t>(bits & 0x8000U) << 16);
}

inline uint16_t encodeFp16(float value, Rounding rounding) {
    const uint32_t bits = floatBits(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    const uint32_t finite = std::min(encodeMagnitude<10, 15>(magnitude, rounding), 0x7C00U);
    const uint32_t code = magnitude > 0x7F800000U ? 0x7E00U : magnitude == 0x7F800000U ? 0x7C00U : finite;
    return static_cast<uint16_t>(code | ((bits >> 16) & 0x8000U));
}

template <int Mantissa, int Bias>
inline uint8_t encodeEightBits(float value, uint32_t maxCode, uint32_t overflowCode, uint32_t nanCode) {
    const uint32_t bits = floatBits(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    const uint32_t finite = encodeMagnitude<Mantissa, Bias>(magnitude, Rounding::NearestEven);
    const bool tooLarge = magnitude >= 0x7F800000U || finite > maxCode;
    const uint32_t code = magnitude > 0x7F800000U ? nanCode : tooLarge ? overflowCode : finite;
    return static_cast<uint8_t>(code | ((bits >> 24) & 0x80U));
}

// ---- HIFLOAT8 ----------------------------------------------------------------------------------------------------

constexpr uint8_t kHifloat8Max = 0x6E;  // 2^15
constexpr uint8_t kHifloat8Infinity = 0x6F;
constexpr uint8_t kHifloat8Nan = 0x80;

constexpr int kHifloat8LowestExponent = -22;  // of the smallest subnormal

// Mantissa bits of the binade of exponent e: the format tapers off from 3 at 1.0 to none below 2^-15.
constexpr int hifloat8MantissaBits(int exponent) {
    const int size = exponent < 0 ? -exponent : exponent;
    return exponent < -15 ? 0 : size < 4 ? 3 : size < 8 ? 2 : 1;
}

// Code of 2^exponent; the mantissa goes into its low bits. A prefix names how wide the exponent field is; the field
// holds the exponent's sign and, below an implicit leading one, its magnitude.
constexpr uint8_t hifloat8PowerOfTwo(int exponent) {
    if (exponent < -15) return static_cast<uint8_t>(exponent + 23);  // subnormal: 2^(M-23)
    if (exponent == 0) return 0x08;
    const int size = exponent < 0 ? -exponent : exponent;
    const int negative = exponent < 0 ? 1 : 0;
    if (size == 1) return static_cast<uint8_t>(0x10 | (negative << 3));
    if (size < 4) return static_cast<uint8_t>(0x20 | (negative << 4) | ((size - 2) << 3));
    if (size < 8) return static_cast<uint8_t>(0x40 | (negative << 4) | ((size - 4) << 2));
    return static_cast<uint8_t>(0x60 | (negative << 4) | ((size - 8) << 1));
}

struct Hifloat8Binades {
    uint8_t code[38] = {};
    uint8_t mantissaBits[38] = {};
    constexpr Hifloat8Binades() {
        for (int i = 0; i < 38; ++i) {
            code[i] = hifloat8PowerOfTwo(i + kHifloat8LowestExponent);
            mantissaBits[i] = static_cast<uint8_t>(hifloat8MantissaBits(i + kHifloat8LowestExponent));
        }
    }
};
constexpr Hifloat8Binades kBinades;

inline uint8_t encodeHifloat8(float value, Overflow overflow) {
    const uint32_t bits = floatBits(value);
    const uint32_t sign = (bits >> 24) & 0x80U;
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return kHifloat8Nan;
    if (magnitude >= 0x47200000U) {  // 40960, half way from the largest value to what would be the next
        return static_cast<uint8_t>(sign | (overflow == Overflow::Saturate ? kHifloat8Max : kHifloat8Infinity));
    }
    if (magnitude < 0x34000000U) return 0;  // below 2^-23; also -0: the format has one zero
    const int exponent = static_cast<int>(magnitude >> 23) - 127;
    if (exponent < kHifloat8LowestExponent) return static_cast<uint8_t>(sign | 1U);
    const int kept = kBinades.mantissaBits[exponent - kHifloat8LowestExponent];
    const uint32_t rounded = magnitude + (1U << (22 - kept));  // ties away from zero; may carry into the next binade
    const int binade = static_cast<int>(rounded >> 23) - 127 - kHifloat8LowestExponent;
    const uint32_t mantissa = (rounded >> (23 - kept)) & ((1U << kept) - 1U);
    return static_cast<uint8_t>(sign | kBinades.code[binade] | mantissa);
}

float decodeHifloat8(uint8_t bits) {
    const uint32_t code = bits & 0x7FU;
    const float sign = (bits & 0x80U) != 0 ? -1.0F : 1.0F;
    if (code == 0) return bits == kHifloat8Nan ? NAN : 0.0F;
    if (code == kHifloat8Infinity) return sign * INFINITY;
    if (code < 0x08U) return sign * std::ldexp(1.0F, static_cast<int>(code) - 23);
    const int exponentBits = code >= 0x60U ? 4 : code >= 0x40U ? 3 : code >= 0x20U ? 2 : code >= 0x10U ? 1 : 0;
    const int mantissaBits = exponentBits <= 2 ? 3 : exponentBits == 3 ? 2 : 1;
    const uint32_t mantissa = code & ((1U << mantissaBits) - 1U);
    int exponent = 0;
    if (exponentBits > 0) {
        const uint32_t field = (code >> mantissaBits) & ((1U << exponentBits) - 1U);
        const uint32_t top = 1U << (exponentBits - 1);
        exponent = static_cast<int>(top | (field & (top - 1U)));
        if ((field & top) != 0) exponent = -exponent;
    }
    return sign * std::ldexp(1.0F + std::ldexp(static_cast<float>(mantissa), -mantissaBits), exponent);
}

// ---- tables ------------------------------------------------------------------------------------------------------

using Table = std::array<float, 256>;

template <int Exponent, int Mantissa>
float decodeBinary(uint8_t bits) {
    constexpr int bias = (1 << (Exponent - 1)) - 1;
    const int field = (bits >> Mantissa) & ((1 << Exponent) - 1);
    const float mantissa = std::ldexp(static_cast<float>(bits & ((1 << Mantissa) - 1)), -Mantissa);
    const float magnitude = field == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1.0F + mantissa, field - bias);
    return (bits >> (Exponent + Mantissa)) & 1 ? -magnitude : magnitude;
}

template <typename Decode>
Table makeTable(Decode decode) {
    Table table{};
    for (int code = 0; code < 256; ++code) table[code] = decode(static_cast<uint8_t>(code));
    return table;
}

const Table &e4m3Table() {
    static const Table table =
        makeTable([](uint8_t code) { return (code & 0x7F) == 0x7F ? NAN : decodeBinary<4, 3>(code); });
    return table;
}

const Table &e5m2Table() {
    static const Table table = makeTable([](uint8_t code) {
        if ((code & 0x7F) > 0x7C) return NAN;
        if ((code & 0x7F) == 0x7C) return (code & 0x80) != 0 ? -INFINITY : INFINITY;
        return decodeBinary<5, 2>(code);
    });
    return table;
}

const Table &hifloat8Table() {
    static const Table table = makeTable(decodeHifloat8);
    return table;
}

void lookUp(const Table &table, const uint8_t *source, float *destination, size_t n) {
    for (size_t i = 0; i < n; ++i) destination[i] = table[source[i]];
}

template <typename Decode>
void unpackNibbles(const uint8_t *packed, float *destination, size_t n, Decode decode) {
    for (size_t i = 0; i < n; ++i) destination[i] = decode((packed[i / 2] >> (4 * (i % 2))) & 0x0FU);
}

}  // namespace

float fp16ToFloat(uint16_t bits) { return decodeFp16(bits); }
uint16_t floatToFp16(float value, Rounding rounding) { return encodeFp16(value, rounding); }

float e4m3ToFloat(uint8_t bits) { return e4m3Table()[bits]; }
float e5m2ToFloat(uint8_t bits) { return e5m2Table()[bits]; }
float hifloat8ToFloat(uint8_t bits) { return hifloat8Table()[bits]; }
float e8m0ToFloat(uint8_t bits) {
    constexpr uint32_t nan = 0x7FC00000U, smallest = 0x00400000U;  // 2^-127 is subnormal
    return floatFromBits(bits == 255 ? nan : bits == 0 ? smallest : static_cast<uint32_t>(bits) << 23);
}
float e2m1ToFloat(uint8_t bits) { return decodeBinary<2, 1>(bits & 0x0FU); }

uint8_t floatToE4m3(float value, Overflow overflow) {
    return encodeEightBits<3, 7>(value, 0x7E, overflow == Overflow::Saturate ? 0x7E : 0x7F, 0x7F);
}

uint8_t floatToE5m2(float value, Overflow overflow) {
    return encodeEightBits<2, 15>(value, 0x7B, overflow == Overflow::Saturate ? 0x7B : 0x7C, 0x7E);
}

uint8_t floatToHifloat8(float value, Overflow overflow) { return encodeHifloat8(value, overflow); }

uint8_t floatToE2m1(float value) {
    if (std::isnan(value)) return 0;
    const uint32_t bits = floatBits(value);
    const uint32_t code = encodeMagnitude<1, 1>(std::min(bits & 0x7FFFFFFFU, floatBits(6.0F)), Rounding::NearestEven);
    return static_cast<uint8_t>(code | ((bits >> 28) & 0x8U));
}

SIM_MULTIVERSION void bf16ToFloat(const uint16_t *source, float *destination, size_t n) {
    for (size_t i = 0; i < n; ++i) destination[i] = floatFromBits(static_cast<uint32_t>(source[i]) << 16);
}

SIM_MULTIVERSION void fp16ToFloat(const uint16_t *source, float *destination, size_t n) {
    for (size_t i = 0; i < n; ++i) destination[i] = decodeFp16(source[i]);
}

SIM_MULTIVERSION void int8ToFloat(const int8_t *source, float *destination, size_t n) {
    for (size_t i = 0; i < n; ++i) destination[i] = static_cast<float>(source[i]);
}

void e4m3ToFloat(const uint8_t *source, float *destination, size_t n) {
    lookUp(e4m3Table(), source, destination, n);
}

void e5m2ToFloat(const uint8_t *source, float *destination, size_t n) {
    lookUp(e5m2Table(), source, destination, n);
}

void hifloat8ToFloat(const uint8_t *source, float *destination, size_t n) {
    lookUp(hifloat8Table(), source, destination, n);
}

void int4ToFloat(const uint8_t *packed, float *destination, size_t n) {
    unpackNibbles(packed, destination, n, [](uint8_t nibble) { return static_cast<float>(int4ToInt8(nibble)); });
}

void e2m1ToFloat(const uint8_t *packed, float *destination, size_t n) {
    unpackNibbles(packed, destination, n, [](uint8_t nibble) { return decodeBinary<2, 1>(nibble); });
}

SIM_MULTIVERSION void floatToBf16(const float *source, uint16_t *destination, size_t n) {
    for (size_t i = 0; i < n; ++i) destination[i] = floatToBf16(source[i], Rounding::NearestEven);
}

SIM_MULTIVERSION void floatToFp16(const float *source, uint16_t *destination, size_t n) {
    for (size_t i = 0; i < n; ++i) destination[i] = encodeFp16(source[i], Rounding::NearestEven);
}

SIM_MULTIVERSION void roundToBf16(float *values, size_t n) {
    for (size_t i = 0; i < n; ++i) values[i] = bf16ToFloat(floatToBf16(values[i], Rounding::NearestEven));
}

SIM_MULTIVERSION void floatToInt8(const float *source, int8_t *destination, size_t n) {
    for (size_t i = 0; i < n; ++i) destination[i] = floatToInt8(source[i], Rounding::NearestEven);
}

void floatToE4m3(const float *source, uint8_t *destination, size_t n) {
    for (size_t i = 0; i < n; ++i) destination[i] = floatToE4m3(source[i], Overflow::Saturate);
}

void floatToHifloat8(const float *source, uint8_t *destination, size_t n) {
    for (size_t i = 0; i < n; ++i) destination[i] = encodeHifloat8(source[i], Overflow::Saturate);
}

}  // namespace sim::numeric
