// Weights in FRACTAL_NZ: aclnnTransMatmulWeight, aclnnNpuFormatCast and the functions that size their results.
#pragma once

#include "ops/primitive.hpp"

namespace sim::weight_layout {

inline constexpr int64_t blockRows = 16;

// Elements of a block's row: 32 bytes of them, 64 of four bits.
int64_t blockWidth(aclDataType dtype);

// [.., ceil(columns / width), ceil(rows / 16), 16, width] for a matrix [.., rows, columns].
std::vector<int64_t> blockShape(const std::vector<int64_t> &shape, int64_t width);

// Moves whole matrices between row-major order and blocks; padding becomes zero.
struct Blocks {
    int64_t matrices, rows, columns, width, elementBits;

    Blocks(const std::vector<int64_t> &shape, int64_t width, aclDataType dtype);
    int64_t rowMajorBytes() const;
    int64_t blockBytes() const;
    // Throws a KernelFault where an odd number of 4-bit elements stands in a row.
    void pack(const void *rowMajor, void *blocks) const;
    void unpack(const void *blocks, void *rowMajor) const;
};

}  // namespace sim::weight_layout
