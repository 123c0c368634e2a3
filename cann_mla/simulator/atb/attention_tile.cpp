#include "atb/attention_tile.hpp"

#include <algorithm>
#include <cmath>

#include "numeric/blas.hpp"
#include "numeric/convert.hpp"
#include "ops/fused_infer_attention_softmax.hpp"

namespace sim::atb {

namespace {

size_t size(int64_t n) { return static_cast<size_t>(n); }

void grow(std::vector<float>& buffer, int64_t count) {
    if (buffer.size() < size(count)) buffer.resize(size(count));
}

}  // namespace

void AttentionTile::begin(int64_t rowCount, int64_t keyWidth, int64_t outputWidth, bool roundsToBf16,
                          bool scoresOfHalf) {
    rows = rowCount;
    width = keyWidth;
    valueWidth = outputWidth;
    bf16 = roundsToBf16;
    halfScores = scoresOfHalf;
    empty_ = true;
    grow(query, rows * width);
    grow(keys, stripe * width);
    grow(scores, rows * stripe);
    grow(output, rows * valueWidth);
    rowMax.assign(size(rows), -INFINITY);
    rowSum.assign(size(rows), 0.0F);
}

void AttentionTile::multiplyKeys(int64_t n, int64_t first, int64_t part, bool add) {
    numeric::sgemm(size(rows), size(n), size(part), query.data() + first, size(width), keys.data() + first, size(width),
                   add ? 1.0F : 0.0F, scores.data(), size(n), numeric::Transposed::No, numeric::Transposed::Yes);
}

void AttentionTile::exponentiate(int64_t r, int64_t n) {
    float *row = scoreRow(r, n), &max = rowMax[size(r)];
    float newMax = std::max(max, fia::maximum(row, size(n)));
    if (newMax == -INFINITY) {  // every key so far is hidden
        std::fill(row, row + n, 0.0F);
        return;
    }
    float step = max - newMax;
    if (halfScores) {
        step = numeric::fp16ToFloat(numeric::floatToFp16(step));
        for (int64_t j = 0; j < n; ++j) row[j] -= newMax;
        fia::roundToFp16(row, size(n));
        fia::exponentials(row, size(n), 0.0F);
    } else {
        fia::exponentials(row, size(n), newMax);
    }
    float factor = std::exp(step);
    rowSum[size(r)] = rowSum[size(r)] * factor + fia::total(row, size(n));
    if (!empty_) fia::scale(output.data() + r * valueWidth, size(valueWidth), factor);
    max = newMax;
}

void AttentionTile::absorb(int64_t n, const float* valueRows, int64_t ld) {
    for (int64_t r = 0; r < rows; ++r) {
        exponentiate(r, n);
        if (bf16) {
            numeric::roundToBf16(scoreRow(r, n), size(n));
        } else {
            fia::roundToFp16(scoreRow(r, n), size(n));
        }
    }
    numeric::sgemm(size(rows), size(valueWidth), size(n), scores.data(), size(n), valueRows, size(ld),
                   empty_ ? 0.0F : 1.0F, output.data(), size(valueWidth));
    empty_ = false;
}

void AttentionTile::absorbInt8(int64_t n, const float* valueRows, int64_t ld, const std::vector<float>& scale) {
    std::vector<float> step(size(rows)), products(size(rows * valueWidth));
    if (empty_) std::fill(output.begin(), output.begin() + rows * valueWidth, 0.0F);
    for (int64_t r = 0; r < rows; ++r) {
        exponentiate(r, n);
        float *row = scoreRow(r, n), largest = fia::maximum(row, size(n));
        step[size(r)] = largest * (1.0F / 127.0F);
        if (largest == 0.0F) continue;
        for (int64_t j = 0; j < n; ++j) row[j] /= step[size(r)];
        fia::roundToFp16(row, size(n));
        fia::roundToInt8(row, size(n));
    }
    numeric::sgemm(size(rows), size(valueWidth), size(n), scores.data(), size(n), valueRows, size(ld), 0.0F,
                   products.data(), size(valueWidth));
    for (int64_t r = 0; r < rows; ++r) {
        float factor = scale[size(r)] * step[size(r)];
        for (int64_t d = 0; d < valueWidth; ++d)
            output[size(r * valueWidth + d)] += products[size(r * valueWidth + d)] * factor;
    }
    empty_ = false;
}

float* AttentionTile::finishRow(int64_t r) {
    float *row = output.data() + r * valueWidth, sum = rowSum[size(r)];
    for (int64_t d = 0; d < valueWidth; ++d) row[d] = sum == 0.0F ? 0.0F : row[d] / sum;
    return row;
}

float AttentionTile::lse(int64_t r) const { return rowMax[size(r)] + std::log(rowSum[size(r)]); }

}  // namespace sim::atb
