#include "ops/fused_infer_attention_scores.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "numeric/convert.hpp"
#include "ops/fused_infer_attention_softmax.hpp"

namespace sim::fia {

namespace {

constexpr int32_t deviceFault = 507015;
constexpr float largestHalf = 65504.0F;
constexpr float ln2 = 0.69314718F, inverseLn2 = 1.44269502F;
constexpr float epsilon = 1e-20F;

size_t size(int64_t n) { return static_cast<size_t>(n); }

float toHalf(float value) {
    return numeric::fp16ToFloat(numeric::floatToFp16(std::clamp(value, -largestHalf, largestHalf)));
}

float largestCode(aclDataType dtype) {
    return dtype == ACL_INT8 ? 127.0F : dtype == ACL_FLOAT8_E4M3FN ? 448.0F : 32768.0F;
}

}  // namespace

void startTile(const Plan &plan, const Operands &o, const Tile &tile, TileState &state) {
    int64_t count = tile.heads * tile.rows;
    state.count = count;
    state.maximum.assign(size(count), -INFINITY);
    state.sum.assign(size(count), 0.0F);
    state.factor.assign(size(count), 1.0F);
    state.output.assign(size(count * plan.dv), 0.0F);
    float common = static_cast<float>(plan.p.scaleValue);
    if (plan.numerator == Numerator::BlockMax) common *= o.scoreScale;
    if (o.uniform) common = 0.0F;
    state.scoreScale.assign(size(count), common);
    const Batch &batch = o.batches[size(tile.batch)];
    for (int64_t r = 0; r < count; ++r) {
        int64_t head = tile.head + r / tile.rows, token = batch.queryStart + tile.row + r % tile.rows;
        if (!o.queryScale) continue;
        const Steps &s = o.queryScaleSteps;
        state.scoreScale[size(r)] *= o.queryScale[tile.batch * s.batch + head * s.head + token * s.token];
    }
}

void scaleQueryGroups(const Plan &plan, const Operands &o, int64_t head, int64_t token, float *row) {
    constexpr int64_t group = 32;
    int64_t groups = (plan.d + 63) / 64 * 2;
    int64_t kvHead = head / plan.group, inGroup = head % plan.group;
    int64_t index =
        o.groupedByKeyHead ? (kvHead * plan.rows + token) * plan.group + inGroup : token * plan.heads + head;
    const auto *codes = static_cast<const uint8_t *>(o.queryGroups) + index * groups;
    for (int64_t i = 0; i < plan.d; ++i) row[i] *= numeric::e8m0ToFloat(codes[i / group]);
}

Scores::Scores(const Plan &plan, const Operands &o, const Tile &tile, const Window &window)
    : plan_(plan), o_(o), tile_(tile), window_(window) {
    masked_ = plan.numerator == Numerator::Int8 ? -largestHalf : masked;
    shift_ = plan.numerator == Numerator::Fp8 ? std::log(o.numeratorScale) : 0.0F;
}

// The INT8 kernel keeps scores in FP16, the others in FLOAT.
void Scores::scaleRow(float *row, int64_t n, float factor) const {
    if (plan_.numerator != Numerator::Int8) return scale(row, size(n), factor);
    float half = toHalf(factor);
    for (int64_t i = 0; i < n; ++i) row[i] = toHalf(toHalf(row[i] * o_.scoreScale) * half);
}

void Scores::addPse(float *row, int64_t head, int64_t queryRow, int64_t column, int64_t n) const {
    const Batch &batch = o_.batches[size(tile_.batch)];
    int64_t r = o_.pseRows > 1 ? queryRow + (plan_.tokens ? 0 : batch.queryStart) : 0;
    int64_t c = column + (plan_.tokens ? 0 : batch.keyStart);
    if (r >= o_.pseRows || c + n > o_.pseColumns)
        throw KernelFault(deviceFault, "pseShift has too few rows or columns");
    int64_t offset = tile_.batch * o_.pseBatch + head * o_.pseHead + r * o_.pseRow + c;
    constexpr int64_t piece = 256;
    float shift[piece];
    for (int64_t i = 0; i < n; i += piece) {
        int64_t count = std::min(piece, n - i);
        decodeElements(plan_.p.pseShift->dtype, o_.pse, offset + i, count, shift);
        for (int64_t k = 0; k < count; ++k) row[i + k] += shift[k];
    }
    if (plan_.numerator == Numerator::Int8) roundToFp16(row, size(n));
}

void Scores::maskWindow(float *row, int64_t queryRow, int64_t column, int64_t n) const {
    int64_t first = std::clamp<int64_t>(queryRow - window_.pre - column, 0, n);
    int64_t end = std::clamp<int64_t>(queryRow + window_.next + 1 - column, first, n);
    std::fill(row, row + first, masked_);
    std::fill(row + end, row + n, masked_);
}

void Scores::maskUser(float *row, int64_t queryRow, int64_t column, int64_t n) const {
    const Batch &batch = o_.batches[size(tile_.batch)];
    int64_t r = o_.maskRows > 1 ? queryRow + (plan_.tokens ? 0 : batch.queryStart) : 0;
    int64_t c = column + (plan_.tokens ? 0 : batch.keyStart);
    if (r >= o_.maskRows || c + n > o_.maskColumns)
        throw KernelFault(deviceFault, "attenMask has too few rows or columns");
    const uint8_t *mask = o_.mask + tile_.batch * o_.maskBatch + r * o_.maskRow + c;
    for (int64_t i = 0; i < n; ++i) row[i] = mask[i] ? masked_ : row[i];
}

// The last columns, as many as the batch has query rows, are a tree; what precedes them is seen by all.
void Scores::maskTree(float *row, int64_t queryRow, int64_t column, int64_t n) const {
    const Batch &batch = o_.batches[size(tile_.batch)];
    int64_t rows = plan_.tokens ? batch.rows : plan_.rows;
    int64_t begin = batch.columns + plan_.prefixLength - batch.rows;
    const uint8_t *tree = o_.mask + o_.treeStarts[size(tile_.batch)] + queryRow * rows;
    for (int64_t i = std::max<int64_t>(begin - column, 0); i < n; ++i) {
        if (column + i >= begin && tree[column + i - begin]) row[i] = masked_;
    }
}

// What stands in a row of the scores are exact products; afterwards they are numerators, rounded as the kernel does.
void Scores::quantise(float *row, int64_t n, float blockMaximum) const {
    switch (plan_.numerator) {
        case Numerator::Float16:
            return roundToFp16(row, size(n));
        case Numerator::BFloat16:
            return numeric::roundToBf16(row, size(n));
        case Numerator::Fp8:
            return roundToE4m3(row, size(n));
        case Numerator::Int8:
            roundToFp16(row, size(n));
            scale(row, size(n), o_.numeratorScale);
            roundToFp16(row, size(n));
            return roundToInt8(row, size(n));
        case Numerator::BlockMax: {
            aclDataType dtype = plan_.p.query->dtype;
            float largest = largestCode(dtype);
            scale(row, size(n), largest / blockMaximum);
            if (dtype == ACL_INT8) {
                roundToFp16(row, size(n));
                roundToInt8(row, size(n));
            } else if (dtype == ACL_FLOAT8_E4M3FN) {
                roundToE4m3(row, size(n));
            } else {
                roundToHifloat8(row, size(n));
            }
            return scale(row, size(n), blockMaximum / largest);
        }
    }
}

void Scores::softmaxRow(float *row, int64_t n, int64_t r, TileState &state) const {
    float before = state.maximum[size(r)], block = maximum(row, size(n));
    if (plan_.microscaled) block = std::ceil(block * inverseLn2) * ln2;
    float now = std::max(before, block);
    state.maximum[size(r)] = now;
    float factor = before == -INFINITY ? 0.0F : std::exp(before - now);
    exponentials(row, size(n), now - shift_);
    state.factor[size(r)] = factor;
    state.sum[size(r)] = state.sum[size(r)] * factor + total(row, size(n));
    quantise(row, n, std::exp(block - now) + epsilon);
}

void Scores::toNumerators(int64_t column, int64_t n, float *scores, TileState &state) const {
    for (int64_t r = 0; r < state.count; ++r) {
        float *row = scores + r * n;
        int64_t head = tile_.head + r / tile_.rows, queryRow = tile_.row + r % tile_.rows;
        scaleRow(row, n, state.scoreScale[size(r)]);
        if (o_.pse) addPse(row, head, queryRow, column, n);
        int64_t maskable = std::clamp<int64_t>(o_.unmaskedFrom - column, 0, n);
        maskWindow(row, queryRow, column, maskable);
        if (plan_.userMask) maskUser(row, queryRow, column, maskable);
        if (plan_.treeMask) maskTree(row, queryRow, column, maskable);
        softmaxRow(row, n, r, state);
    }
}

}  // namespace sim::fia
