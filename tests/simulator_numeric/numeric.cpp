// The numeric layer of the simulator against definitions: exhaustive where a format has few codes, by search for the
// nearest value where it is rounded to. Prints what is wrong and ends with 1.
#include "numeric/convert.hpp"
#include "numeric/gemm.hpp"
#include "numeric/parallel.hpp"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace sim::numeric;

namespace {

int failures = 0;

void check(bool ok, const char *what, double detail = 0) {
    if (ok) return;
    if (failures++ < 20) std::printf("wrong: %s (%g)\n", what, detail);
}

std::mt19937 random_bits(1);

float randomFloat(int lowestExponent, int highestExponent, bool tie) {
    const int exponent = lowestExponent + static_cast<int>(random_bits() % (highestExponent - lowestExponent + 1));
    const uint32_t mantissa = random_bits() & (tie ? 0x00780000U : 0x007FFFFFU);  // few bits set: many exact ties
    return floatFromBits(static_cast<uint32_t>(exponent + 127) << 23 | mantissa | (random_bits() & 0x80000000U));
}

// HiFloat8 by its table: prefix, exponent field with an implicit leading one, mantissa.
double hifloat8ByDefinition(int code) {
    struct Row { int from, exponentBits, mantissaBits; };
    const Row rows[] = {{0x60, 4, 1}, {0x40, 3, 2}, {0x20, 2, 3}, {0x10, 1, 3}, {0x08, 0, 3}};
    const double sign = code & 0x80 ? -1 : 1;
    const int magnitude = code & 0x7F;
    if (code == 0x80) return NAN;
    if (magnitude == 0x6F) return sign * INFINITY;
    if (magnitude < 8) return magnitude == 0 ? 0 : sign * std::ldexp(1, magnitude - 23);
    for (const Row &row : rows) {
        if (magnitude < row.from) continue;
        const int mantissa = magnitude & ((1 << row.mantissaBits) - 1);
        int exponent = 0;
        if (row.exponentBits > 0) {
            const int field = (magnitude - row.from) >> row.mantissaBits, top = 1 << (row.exponentBits - 1);
            exponent = top + (field & (top - 1));
            if (field & top) exponent = -exponent;
        }
        return sign * std::ldexp(1 + std::ldexp(mantissa, -row.mantissaBits), exponent);
    }
    return 0;
}

// The code of the nearest finite value; on a tie the larger magnitude, or the even code.
int nearestCode(float value, int codes, const std::function<double(int)> &decode, bool tiesAway) {
    int best = 0;
    for (int code = 1; code < codes; ++code) {
        const double candidate = decode(code);
        if (!std::isfinite(candidate)) continue;
        const double distance = std::fabs(candidate - std::fabs(value)), least = std::fabs(decode(best) - std::fabs(value));
        const bool wins = tiesAway ? candidate > decode(best) : code % 2 == 0;
        if (distance < least || (distance == least && wins)) best = code;
    }
    return best;
}

void testEightBitFormats() {
    check(hifloat8ToFloat(0x08) == 1.0F && hifloat8ToFloat(0x0F) == 1.875F, "HIFLOAT8 around one");
    check(hifloat8ToFloat(0x10) == 2.0F && hifloat8ToFloat(0x18) == 0.5F, "HIFLOAT8 two and a half");
    check(hifloat8ToFloat(0x6E) == 32768.0F && hifloat8ToFloat(0x01) == std::ldexp(1.0F, -22), "HIFLOAT8 ends");
    check(e4m3ToFloat(0x7E) == 448.0F && e4m3ToFloat(0x01) == std::ldexp(1.0F, -9), "E4M3 ends");
    check(e5m2ToFloat(0x7B) == 57344.0F && std::isinf(e5m2ToFloat(0x7C)), "E5M2 ends");
    check(e8m0ToFloat(127) == 1.0F && e8m0ToFloat(0) == std::ldexp(1.0F, -127) && std::isnan(e8m0ToFloat(255)), "E8M0");
    for (int code = 0; code < 256; ++code) {
        const auto byte = static_cast<uint8_t>(code);
        const double expected = hifloat8ByDefinition(code);
        const float value = hifloat8ToFloat(byte);
        check(value == expected || (std::isnan(value) && std::isnan(expected)), "HIFLOAT8 decode", code);
        if (std::isfinite(value)) check(floatToHifloat8(value) == byte || value == 0, "HIFLOAT8 round trip", code);
        if (std::isfinite(e4m3ToFloat(byte))) check(floatToE4m3(e4m3ToFloat(byte)) == byte, "E4M3 round trip", code);
        if (std::isfinite(e5m2ToFloat(byte))) check(floatToE5m2(e5m2ToFloat(byte)) == byte, "E5M2 round trip", code);
    }
    const auto e4m3 = [](int code) { return static_cast<double>(e4m3ToFloat(static_cast<uint8_t>(code))); };
    for (int i = 0; i < 100000; ++i) {
        const float a = randomFloat(-25, 15, i % 2 == 0), b = randomFloat(-12, 9, i % 2 == 0);
        const int sign = std::signbit(a) ? 0x80 : 0;
        if (std::fabs(a) < 40960.0F) {
            const int code = nearestCode(a, 128, hifloat8ByDefinition, true);
            check(floatToHifloat8(a) == (code == 0 ? 0 : code | sign), "HIFLOAT8 nearest, ties away", a);
        }
        check((floatToE4m3(b) & 0x7F) == nearestCode(b, 127, e4m3, false), "E4M3 nearest, ties to even", b);
    }
    check(floatToHifloat8(40959.0F) == 0x6E && floatToHifloat8(40960.0F) == 0x6E, "HIFLOAT8 saturates");
    check(floatToHifloat8(40960.0F, Overflow::Special) == 0x6F, "HIFLOAT8 overflows to infinity");
    check(floatToE4m3(464.0F, Overflow::Special) == 0x7E && floatToE4m3(465.0F, Overflow::Special) == 0x7F, "E4M3 top");
    check(floatToE4m3(-1e30F) == 0xFE && floatToE4m3(-INFINITY) == 0xFE, "E4M3 saturates");
    check(floatToE2m1(5.0F) == 6 && floatToE2m1(2.5F) == 4 && floatToE2m1(-100.0F) == 15, "E2M1");
    check(int4ToInt8(0xF) == -1 && int4ToInt8(0x7) == 7, "INT4");
}

void testSixteenBitFormats() {
    for (int code = 0; code < 65536; ++code) {
        const auto bits = static_cast<uint16_t>(code);
        const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
        double expected = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
        if (exponent == 31) expected = mantissa == 0 ? INFINITY : NAN;
        const float value = fp16ToFloat(bits);
        check(std::isnan(expected) ? std::isnan(value) : std::fabs(value) == expected, "FP16 decode", code);
        if (!std::isnan(value)) check(floatToFp16(value) == bits, "FP16 round trip", code);
        if (!std::isnan(value)) check(floatToBf16(bf16ToFloat(bits)) == bits || exponent == 31, "BF16 round trip", code);
    }
    check(floatToFp16(2049.0F) == 0x6800 && floatToFp16(2051.0F) == 0x6802, "FP16 ties to even");
    check(floatToFp16(2049.0F, Rounding::NearestAway) == 0x6801, "FP16 ties away");
    check(floatToFp16(65519.0F) == 0x7BFF && floatToFp16(65520.0F) == 0x7C00, "FP16 overflow");
    check(floatToBf16(1.00390625F) == 0x3F80 && floatToBf16(1.01171875F) == 0x3F82, "BF16 ties to even");
    check(floatToBf16(1.00390625F, Rounding::NearestAway) == 0x3F81, "BF16 ties away");
    check(std::isnan(bf16ToFloat(floatToBf16(floatFromBits(0x7F800001U)))), "BF16 keeps a NaN one");
}

void testIntegers() {
    check(floatToInt8(2.5F) == 2 && floatToInt8(3.5F) == 4 && floatToInt8(-2.5F) == -2, "INT8 ties to even");
    check(floatToInt8(2.5F, Rounding::NearestAway) == 3 && floatToInt8(-2.5F, Rounding::NearestAway) == -3, "INT8 away");
    check(floatToInt8(1e9F) == 127 && floatToInt8(-1e9F) == -128 && floatToInt8(NAN) == 0, "INT8 saturates");
}

// The largest sums that float32 would lose: every product is 2^14.
void testProducts() {
    constexpr size_t m = 5, k = 2560, n = 416;
    std::vector<int8_t> a(m * k), b(k * n), nz(k * n);
    for (int8_t &value : a) value = static_cast<int8_t>(random_bits());
    for (int8_t &value : b) value = static_cast<int8_t>(random_bits());
    for (size_t i = 0; i < k; ++i) a[i] = -128, b[i * n] = -128;
    std::vector<int32_t> expected(m * n, 0), found(m * n);
    for (size_t row = 0; row < m; ++row) {
        for (size_t i = 0; i < k; ++i) {
            for (size_t col = 0; col < n; ++col) expected[row * n + col] += a[row * k + i] * b[i * n + col];
        }
    }
    check(expected[0] == 128 * 128 * static_cast<int32_t>(k), "hand value of the product", expected[0]);
    for (size_t i = 0; i < k; ++i) {
        for (size_t col = 0; col < n; ++col) {
            nz[((col / 32 * (k / 16) + i / 16) * 16 + i % 16) * 32 + col % 32] = b[i * n + col];
        }
    }
    std::vector<float> left(m * k), sums(m * n);
    decode(Storage::Int8, a.data(), left.data(), left.size());
    for (const Panel &panel : {densePanel(Storage::Int8, b.data(), n), nzPanel(Storage::Int8, nz.data(), k)}) {
        forColumns(n, [&](size_t n0, size_t columns) {
            multiplyColumnsExact(left.data(), m, k, panel, n0, columns, found.data() + n0, n);
            multiplyColumns(left.data(), m, k, panel, n0, columns, sums.data() + n0, n);
        });
        check(found == expected, "exact product");
        for (size_t i = 0; i < sums.size(); ++i) {
            check(std::fabs(sums[i] - static_cast<float>(expected[i])) <= 1e-6F * k * 16384, "float product", sums[i]);
        }
    }
    const float c[] = {NAN, 1}, one[] = {2}, row[] = {3, 4};
    float out[] = {c[0], c[1]};
    sgemm(1, 2, 1, one, 1, row, 2, 0.0F, out, 2);
    check(out[0] == 6 && out[1] == 8, "beta 0 ignores what was there");
    sgemm(1, 2, 1, one, 1, row, 1, 1.0F, out, 2, Transposed::No, Transposed::Yes);
    check(out[0] == 12 && out[1] == 16, "transposed operand, added");
}

void testLoops() {
    std::atomic<int> calls{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < 200; ++round) {
                parallelFor(17, [&](size_t) {
                    ++calls;
                    parallelFor(3, [&](size_t) { ++calls; });
                });
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    check(calls == 4 * 200 * 17 * 4, "every index once, nested too", calls);
    bool caught = false;
    try {
        parallelFor(100, [](size_t i) { if (i == 5) throw std::runtime_error("five"); });
    } catch (const std::runtime_error &) {
        caught = true;
    }
    check(caught, "an exception reaches the caller");
    parallelFor(0, [&](size_t) { check(false, "no index, no call"); });
}

}  // namespace

int main() {
    testEightBitFormats();
    testSixteenBitFormats();
    testIntegers();
    testProducts();
    testLoops();
    if (failures > 0) std::printf("%d wrong\n", failures);
    return failures > 0 ? 1 : 0;
}
