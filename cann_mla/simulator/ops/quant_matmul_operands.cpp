#include "ops/quant_matmul_operands.hpp"

#include <array>

#include "numeric/convert.hpp"

namespace sim::quant_matmul {

namespace {

constexpr size_t blockRows = 16, blockWidth = 32;

// What each byte stands for.
using Table = std::array<float, 256>;

Table tableOf(aclDataType dtype) {
    Table table;
    for (size_t i = 0; i < table.size(); ++i) {
        auto bits = static_cast<uint8_t>(i);
        switch (dtype) {
            case ACL_INT8: table[i] = static_cast<float>(static_cast<int8_t>(bits)); break;
            case ACL_HIFLOAT8: table[i] = numeric::hifloat8ToFloat(bits); break;
            case ACL_FLOAT8_E5M2: table[i] = numeric::e5m2ToFloat(bits); break;
            default: table[i] = numeric::e4m3ToFloat(bits);
        }
    }
    return table;
}

// A weight that is stored as its transpose, [n, k] or blocks of it.
numeric::Panel transposedPanel(const Table &table, const uint8_t *data, size_t k, size_t n, bool nz) {
    size_t padded = (n + blockRows - 1) / blockRows * blockRows;
    return [=](size_t k0, size_t rows, size_t n0, size_t columns, float *out) {
        for (size_t column = 0; column < columns; ++column) {
            size_t from = n0 + column;
            for (size_t row = 0; row < rows; ++row) {
                size_t depth = k0 + row;
                size_t at =
                    nz ? (depth / blockWidth * padded + from) * blockWidth + depth % blockWidth : from * k + depth;
                out[row * columns + column] = table[data[at]];
            }
        }
    };
}

// FLOAT8_E5M2, which the products do not know; it comes in ND only.
numeric::Panel densePanel(const Table &table, const uint8_t *data, size_t n) {
    return [=](size_t k0, size_t rows, size_t n0, size_t columns, float *out) {
        for (size_t row = 0; row < rows; ++row) {
            const uint8_t *from = data + (k0 + row) * n + n0;
            for (size_t column = 0; column < columns; ++column) out[row * columns + column] = table[from[column]];
        }
    };
}

numeric::Storage storageOf(aclDataType dtype) {
    if (dtype == ACL_INT8) return numeric::Storage::Int8;
    return dtype == ACL_HIFLOAT8 ? numeric::Storage::Hifloat8 : numeric::Storage::E4m3;
}

}  // namespace

numeric::Panel weightPanel(const Product &p, const uint8_t *data) {
    auto k = static_cast<size_t>(p.k()), n = static_cast<size_t>(p.n());
    if (p.x2.transposed) return transposedPanel(tableOf(p.x2.dtype), data, k, n, p.x2.nz);
    if (p.x2.dtype == ACL_FLOAT8_E5M2) return densePanel(tableOf(p.x2.dtype), data, n);
    return p.x2.nz ? numeric::nzPanel(storageOf(p.x2.dtype), data, k)
                   : numeric::densePanel(storageOf(p.x2.dtype), data, n);
}

void loadRows(const Product &p, const uint8_t *data, int64_t k0, int64_t depth, float *out) {
    Table table = tableOf(p.x1.dtype);
    int64_t m = p.m(), k = p.k();
    for (int64_t row = 0; row < m; ++row) {
        int64_t at = p.x1.transposed ? k0 * m + row : row * k + k0, step = p.x1.transposed ? m : 1;
        for (int64_t i = 0; i < depth; ++i) out[row * depth + i] = table[data[at + i * step]];
    }
}

}  // namespace sim::quant_matmul
