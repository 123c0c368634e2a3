#include "ops/fused_infer_attention_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor.hpp"
#include "numeric/convert.hpp"
#include "ops/fused_infer_attention_softmax.hpp"

namespace sim::fia {

namespace {

size_t size(int64_t n) { return static_cast<size_t>(n); }

float toFp16(float value) { return numeric::fp16ToFloat(numeric::floatToFp16(value)); }

float parameter(const MaybeTensor &tensor, const void *data, int64_t channel) {
    int64_t index = elements(tensor->shape) == 1 ? 0 : channel;
    return decodeElement(tensor->dtype, data, index);
}

void postQuantise(const Plan &plan, const Operands &o, int64_t head, float *row) {
    const Params &p = plan.p;
    for (int64_t i = 0; i < plan.dv; ++i) {
        int64_t channel = head * plan.dv + i;
        float value = row[i] * parameter(p.quantScale2, o.postScale, channel);
        if (o.postOffset) value += parameter(p.quantOffset2, o.postOffset, channel);
        row[i] = value;
    }
    if (p.attentionOut->dtype == ACL_INT8) roundToFp16(row, size(plan.dv));
}

void store(aclDataType dtype, const float *row, int64_t n, void *out, int64_t offset) {
    auto *words = static_cast<uint16_t *>(out) + offset;
    auto *bytes = static_cast<uint8_t *>(out) + offset;
    switch (dtype) {
        case ACL_FLOAT16:
            return numeric::floatToFp16(row, words, size(n));
        case ACL_BF16:
            return numeric::floatToBf16(row, words, size(n));
        case ACL_INT8:
            return numeric::floatToInt8(row, reinterpret_cast<int8_t *>(bytes), size(n));
        case ACL_FLOAT8_E4M3FN:
            return numeric::floatToE4m3(row, bytes, size(n));
        default:
            return numeric::floatToHifloat8(row, bytes, size(n));
    }
}

// Every column of the row lies outside its window.
bool isOutside(const Plan &plan, const Batch &batch, int64_t row, const Window &window) {
    int64_t all = batch.columns + plan.prefixLength;
    return row + window.next < 0 || row - window.pre > all - 1;
}

struct Ending {
    float factor;  // what the accumulated output is multiplied by
    float lse;
};

// The sink joins after the last block, so that numerators are rounded as if it were not there.
Ending endRow(float maximum, float sum, const float *sink) {
    if (!sink) return {1.0F / sum, maximum + std::log(sum)};
    float larger = std::max(maximum, *sink), own = std::exp(maximum - larger);
    float total = sum * own + std::exp(*sink - larger);
    return {own / total, larger + std::log(total)};
}

}  // namespace

void writeTile(const Plan &plan, const Operands &o, const Tile &tile, const Window &window, TileState &state) {
    const Batch &batch = o.batches[size(tile.batch)];
    bool dropMaskedRows = (plan.p.innerPrecise >> 1 & 1) != 0;
    // FP8 numerators reach pScale, so the sum does as well.
    float shift = plan.numerator == Numerator::Fp8 ? std::log(o.numeratorScale) : 0.0F;
    for (int64_t r = 0; r < state.count; ++r) {
        int64_t head = tile.head + r / tile.rows, queryRow = tile.row + r % tile.rows;
        float maximum = state.maximum[size(r)];
        if (isOutside(plan, batch, queryRow, window)) continue;
        if (dropMaskedRows && maximum == masked) continue;
        const float *sink = o.sink.empty() ? nullptr : &o.sink[size(head)];
        float sum = state.sum[size(r)];
        Ending ending = endRow(maximum - shift, sum, sink);
        if (plan.numerator == Numerator::Int8) ending.factor = 1.0F / toFp16(sum);
        int64_t token = batch.queryStart + queryRow;
        float *row = state.output.data() + r * plan.dv;
        scale(row, size(plan.dv), o.valueScale * ending.factor);
        if (o.postScale) postQuantise(plan, o, head, row);
        int64_t offset = tile.batch * plan.out.batch + head * plan.out.head + token * plan.out.token;
        store(plan.p.attentionOut->dtype, row, plan.dv, o.out, offset);
        if (o.lse) o.lse[tile.batch * plan.lse.batch + head * plan.lse.head + token * plan.lse.token] = ending.lse;
    }
}

void clearOutputs(const Plan &plan, const Operands &o) {
    int64_t count = elements(plan.p.attentionOut->shape);
    if (o.out) std::memset(o.out, 0, size(packedBytes(count, plan.p.attentionOut->dtype)));
    if (o.lse) std::fill_n(o.lse, elements(plan.p.softmaxLse->shape), INFINITY);
}

}  // namespace sim::fia
