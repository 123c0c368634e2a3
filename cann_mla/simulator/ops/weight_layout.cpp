#include "ops/weight_layout.hpp"

#include <algorithm>
#include <cstring>

#include "numeric/parallel.hpp"

namespace sim::weight_layout {

namespace {

int64_t blocks(int64_t size, int64_t unit) { return (size + unit - 1) / unit; }

// The bytes of one row, cut into block rows; calls move(row-major offset, block offset, bytes) for each piece.
template <typename Move>
void forPieces(const Blocks &b, const Move &move) {
    if (b.columns * b.elementBits % 8 != 0) primitive::failWithoutKernel("rows of an odd number of 4-bit elements");
    int64_t rowBytes = b.columns * b.elementBits / 8, pieceBytes = b.width * b.elementBits / 8;
    int64_t paddedRows = blocks(b.rows, blockRows) * blockRows;
    int64_t matrixBytes = b.rows * rowBytes, blockedBytes = blocks(b.columns, b.width) * paddedRows * pieceBytes;
    numeric::parallelFor(static_cast<size_t>(b.matrices), [&](size_t index) {
        auto matrix = static_cast<int64_t>(index);
        for (int64_t row = 0; row < b.rows; ++row) {
            for (int64_t at = 0, column = 0; at < rowBytes; at += pieceBytes, ++column) {
                move(matrix * matrixBytes + row * rowBytes + at,
                     matrix * blockedBytes + (column * paddedRows + row) * pieceBytes,
                     std::min(pieceBytes, rowBytes - at));
            }
        }
    });
}

}  // namespace

int64_t blockWidth(aclDataType dtype) {
    int64_t bits = elementBits(dtype);
    return bits > 0 ? 256 / bits : 0;
}

std::vector<int64_t> blockShape(const std::vector<int64_t> &shape, int64_t width) {
    std::vector<int64_t> result(shape.begin(), shape.end() - 2);
    int64_t rows = shape[shape.size() - 2], columns = shape.back();
    result.insert(result.end(), {blocks(columns, width), blocks(rows, blockRows), blockRows, width});
    return result;
}

Blocks::Blocks(const std::vector<int64_t> &shape, int64_t width, aclDataType dtype)
    : matrices(1),
      rows(shape[shape.size() - 2]),
      columns(shape.back()),
      width(width),
      elementBits(sim::elementBits(dtype)) {
    for (size_t i = 0; i + 2 < shape.size(); ++i) matrices *= shape[i];
}

int64_t Blocks::rowMajorBytes() const { return matrices * rows * (columns * elementBits) / 8; }

int64_t Blocks::blockBytes() const {
    return matrices * blocks(columns, width) * blocks(rows, blockRows) * blockRows * width * elementBits / 8;
}

void Blocks::pack(const void *rowMajor, void *blocked) const {
    std::memset(blocked, 0, static_cast<size_t>(blockBytes()));
    forPieces(*this, [&](int64_t from, int64_t to, int64_t bytes) {
        std::memcpy(static_cast<char *>(blocked) + to, static_cast<const char *>(rowMajor) + from,
                    static_cast<size_t>(bytes));
    });
}

void Blocks::unpack(const void *blocked, void *rowMajor) const {
    forPieces(*this, [&](int64_t to, int64_t from, int64_t bytes) {
        std::memcpy(static_cast<char *>(rowMajor) + to, static_cast<const char *>(blocked) + from,
                    static_cast<size_t>(bytes));
    });
}

}  // namespace sim::weight_layout
