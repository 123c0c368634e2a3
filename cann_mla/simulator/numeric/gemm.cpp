#include "numeric/gemm.hpp"

#include "numeric/convert.hpp"
#include "numeric/multiversion.hpp"
#include "numeric/parallel.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace sim::numeric {
namespace {

// Depth of a panel. Also the longest sum of int8 products (each at most 2^14) that float32 holds exactly.
constexpr size_t kDepth = 1024;
// Columns of a panel handed to one thread: wide enough for the BLAS to reach its rate, narrow enough that the panel
// stays in the second-level cache and a few threads share the columns evenly.
constexpr size_t kColumns = 192;

size_t roundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Scratch that each thread keeps: panels are small, and fresh pages for each would cost more than decoding them.
template <int Purpose>
float *scratch(size_t n) {
    static thread_local std::vector<float> buffer;
    if (buffer.size() < n) buffer.resize(n);
    return buffer.data();
}

// Rows of one FRACTAL_NZ column block lie one after the other, C0 elements each; the panel wants them `stride` apart.
template <size_t C0, typename T, typename DecodeOne>
inline void spreadBlock(const T *source, size_t rows, float *out, size_t stride, DecodeOne decodeOne) {
    for (size_t row = 0; row < rows; ++row) {
        for (size_t column = 0; column < C0; ++column) {
            out[row * stride + column] = decodeOne(source[row * C0 + column]);
        }
    }
}

SIM_MULTIVERSION void spreadBf16(const uint16_t *source, size_t rows, float *out, size_t stride) {
    spreadBlock<16>(source, rows, out, stride,
                    [](uint16_t bits) { return floatFromBits(static_cast<uint32_t>(bits) << 16); });
}

SIM_MULTIVERSION void spreadInt8(const int8_t *source, size_t rows, float *out, size_t stride) {
    spreadBlock<32>(source, rows, out, stride, [](int8_t value) { return static_cast<float>(value); });
}

void spreadOther(Storage storage, const uint8_t *source, size_t rows, size_t width, size_t c0, float *out,
                 size_t stride) {
    for (size_t row = 0; row < rows; ++row) {
        decode(storage, source + row * c0 * storageBytes(storage), out + row * stride, width);
    }
}

void spread(Storage storage, const uint8_t *source, size_t rows, size_t width, size_t c0, float *out, size_t stride) {
    const bool whole = width == c0;
    if (whole && storage == Storage::Bf16) {
        spreadBf16(reinterpret_cast<const uint16_t *>(source), rows, out, stride);
    } else if (whole && storage == Storage::Int8) {
        spreadInt8(reinterpret_cast<const int8_t *>(source), rows, out, stride);
    } else {
        spreadOther(storage, source, rows, width, c0, out, stride);
    }
}

SIM_MULTIVERSION void addAsInteger(const float *source, size_t n, int32_t *destination) {
    for (size_t i = 0; i < n; ++i) destination[i] += static_cast<int32_t>(source[i]);
}

}  // namespace

size_t storageBytes(Storage storage) {
    switch (storage) {
        case Storage::Fp32: return 4;
        case Storage::Bf16:
        case Storage::Fp16: return 2;
        default: return 1;
    }
}

void decode(Storage storage, const void *source, float *destination, size_t n) {
    switch (storage) {
        case Storage::Bf16: return bf16ToFloat(static_cast<const uint16_t *>(source), destination, n);
        case Storage::Fp16: return fp16ToFloat(static_cast<const uint16_t *>(source), destination, n);
        case Storage::Fp32: std::copy_n(static_cast<const float *>(source), n, destination); return;
        case Storage::Int8: return int8ToFloat(static_cast<const int8_t *>(source), destination, n);
        case Storage::E4m3: return e4m3ToFloat(static_cast<const uint8_t *>(source), destination, n);
        case Storage::Hifloat8: return hifloat8ToFloat(static_cast<const uint8_t *>(source), destination, n);
    }
}

Panel densePanel(Storage storage, const void *data, size_t columns) {
    const auto *bytes = static_cast<const uint8_t *>(data);
    return [=](size_t k0, size_t rows, size_t n0, size_t width, float *out) {
        for (size_t row = 0; row < rows; ++row) {
            decode(storage, bytes + ((k0 + row) * columns + n0) * storageBytes(storage), out + row * width, width);
        }
    };
}

Panel nzPanel(Storage storage, const void *data, size_t rows) {
    const auto *bytes = static_cast<const uint8_t *>(data);
    const size_t c0 = 32 / storageBytes(storage);
    const size_t blockBytes = roundUp(rows, 16) * 32;
    return [=](size_t k0, size_t depth, size_t n0, size_t width, float *out) {
        if (n0 % c0 != 0) throw std::logic_error("a FRACTAL_NZ panel starts at a whole column block");
        for (size_t column = 0; column < width; column += c0) {
            const uint8_t *block = bytes + (n0 + column) / c0 * blockBytes + k0 * 32;
            spread(storage, block, depth, std::min(c0, width - column), c0, out + column, width);
        }
    };
}

void multiplyColumns(const float *a, size_t m, size_t k, const Panel &weight, size_t n0, size_t n, float *c,
                     size_t ldc) {
    for (size_t k0 = 0; k0 < k; k0 += kDepth) {
        const size_t depth = std::min(kDepth, k - k0);
        float *panel = scratch<0>(depth * n);
        weight(k0, depth, n0, n, panel);
        sgemm(m, n, depth, a + k0, k, panel, n, k0 == 0 ? 0.0F : 1.0F, c, ldc);
    }
}

void multiplyColumnsExact(const float *a, size_t m, size_t k, const Panel &weight, size_t n0, size_t n, int32_t *c,
                          size_t ldc) {
    for (size_t row = 0; row < m; ++row) std::fill_n(c + row * ldc, n, 0);
    float *partial = scratch<1>(m * n);
    for (size_t k0 = 0; k0 < k; k0 += kDepth) {
        const size_t depth = std::min(kDepth, k - k0);
        float *panel = scratch<0>(depth * n);
        weight(k0, depth, n0, n, panel);
        sgemm(m, n, depth, a + k0, k, panel, n, 0.0F, partial, n);
        for (size_t row = 0; row < m; ++row) addAsInteger(partial + row * n, n, c + row * ldc);
    }
}

void forColumns(size_t n, const std::function<void(size_t n0, size_t columns)> &body) {
    parallelFor((n + kColumns - 1) / kColumns, [&](size_t i) {
        const size_t n0 = i * kColumns;
        body(n0, std::min(kColumns, n - n0));
    });
}

}  // namespace sim::numeric
