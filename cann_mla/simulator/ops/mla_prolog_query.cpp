#include "ops/mla_prolog_query.hpp"

#include "numeric/blas.hpp"
#include "numeric/convert.hpp"
#include "numeric/parallel.hpp"
#include "ops/mla_prolog_math.hpp"

#include <algorithm>

namespace sim::mla_prolog {
namespace {

Projection projection(const Plan &plan, aclDataType dtype, const void *weight, const void *scales, int64_t k) {
    Projection result;
    result.k = static_cast<size_t>(k);
    result.weight = numeric::nzPanel(storageOf(dtype), weight, result.k);
    result.integer = dtype == ACL_INT8;
    result.roundsToBf16 = dtype == ACL_BF16;
    result.tokenScaleFirst = !plan.is950;
    if (plan.scenario.weight == WeightQuant::Mxfp8) {
        result.weight = mxScaled(result.weight, static_cast<const uint8_t *>(scales), result.k);
    } else {
        result.channelScale = static_cast<const float *>(scales);
    }
    return result;
}

std::vector<float> fromBf16(const uint16_t *bits, int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    numeric::bf16ToFloat(bits, values.data(), values.size());
    return values;
}

// Tokens of a block that one task takes: all, unless there are too few heads to keep the pool busy.
int64_t tokensPerTask(int64_t heads, int64_t count) {
    const int64_t wanted = 4 * static_cast<int64_t>(numeric::parallelWidth());
    if (heads >= wanted) return count;
    const int64_t parts = (wanted + heads - 1) / heads;
    return std::max<int64_t>(64, (count + parts - 1) / parts);
}

}  // namespace

Projection tokenProjection(const Plan &plan, const void *weight, const void *scales) {
    return projection(plan, plan.scenario.tokenDtype(), weight, scales, plan.he);
}

QueryPath::QueryPath(const Plan &plan, const Operands &operands)
    : plan_(plan),
      operands_(operands),
      down_(tokenProjection(plan, operands.weightDq, operands.dequantScaleWDq)),
      up_(projection(plan, plan.scenario.weightUqQrDtype(), operands.weightUqQr, operands.dequantScaleWUqQr, plan.hcq)),
      gamma_(fromBf16(operands.rmsnormGammaCq, plan.hcq)) {}

void QueryPath::run(const float *x, int64_t first, int64_t count) const {
    const Normalised cq = normalise(x, first, count);
    const int64_t step = tokensPerTask(plan_.n, count), parts = (count + step - 1) / step;
    numeric::parallelFor(static_cast<size_t>(plan_.n * parts), [&](size_t task) {
        const int64_t head = static_cast<int64_t>(task) / parts, offset = static_cast<int64_t>(task) % parts * step;
        runHead(cq, head, first, offset, std::min(step, count - offset));
    });
}

QueryPath::Normalised QueryPath::normalise(const float *x, int64_t first, int64_t count) const {
    const auto hcq = static_cast<size_t>(plan_.hcq), rows = static_cast<size_t>(count);
    Normalised cq{std::vector<float>(rows * hcq), std::vector<float>(rows, 1.0F)};
    const auto *tokenScale = static_cast<const float *>(operands_.dequantScaleX);
    down_.all(x, rows, tokenScale != nullptr ? tokenScale + first : nullptr, hcq, cq.values.data());
    numeric::parallelFor(rows, [&](size_t i) {
        float *row = cq.values.data() + i * hcq;
        rmsNorm(row, hcq, gamma_.data(), plan_.epsilonCq, plan_.alphaCq, row);
        cq.scales[i] = quantiseRow(row, first + static_cast<int64_t>(i));
    });
    return cq;
}

// Replaces c_q by what the product with weightUqQr sees, emits queryNorm, and returns the row's scale.
float QueryPath::quantiseRow(float *row, int64_t token) const {
    const auto hcq = static_cast<size_t>(plan_.hcq), at = static_cast<size_t>(token);
    if (plan_.scenario.weight == WeightQuant::None) {
        numeric::roundToBf16(row, hcq);
        if (operands_.queryNorm != nullptr) {
            numeric::floatToBf16(row, static_cast<uint16_t *>(operands_.queryNorm) + at * hcq, hcq);
        }
        return 1.0F;
    }
    thread_local std::vector<uint8_t> buffer, blockScales;
    buffer.resize(hcq);
    auto *norm = static_cast<uint8_t *>(operands_.queryNorm);
    uint8_t *codes = norm != nullptr ? norm + at * hcq : buffer.data();
    if (plan_.scenario.weight == WeightQuant::Mxfp8) {
        blockScales.resize(hcq / kMxBlock);
        quantiseMx(row, hcq, codes, blockScales.data());
        decodeMx(codes, blockScales.data(), hcq, row);
        if (norm != nullptr) {
            auto *out = static_cast<uint8_t *>(operands_.dequantScaleQNorm);
            std::copy(blockScales.begin(), blockScales.end(), out + at * blockScales.size());
        }
        return 1.0F;
    }
    if (operands_.smoothScalesCq != nullptr) {
        for (size_t i = 0; i < hcq; ++i) row[i] *= operands_.smoothScalesCq[i];
    }
    const aclDataType dtype = plan_.scenario.queryNormDtype();
    const float scale = DynamicQuant{dtype, plan_.is950}(row, hcq, codes);
    numeric::decode(storageOf(dtype), codes, row, hcq);
    if (norm != nullptr) static_cast<float *>(operands_.dequantScaleQNorm)[at] = scale;
    return scale;
}

// One head of `count` tokens from `offset` in the block: q_c and q_r, then q_n = bf16(q_c) weightUk.
void QueryPath::runHead(const Normalised &cq, int64_t head, int64_t first, int64_t offset, int64_t count) const {
    const auto d = static_cast<size_t>(plan_.d), width = d + kDr, rows = static_cast<size_t>(count);
    thread_local std::vector<float> up, nope, panel;
    up.resize(rows * width);
    nope.resize(rows * kHckv);
    panel.resize(d * kHckv);
    up_.columns(cq.values.data() + offset * plan_.hcq, rows, cq.scales.data() + offset,
                static_cast<size_t>(head) * width, width, up.data(), width);
    for (size_t i = 0; i < rows; ++i) numeric::roundToBf16(up.data() + i * width, d);
    const auto *weightUk = static_cast<const uint16_t *>(operands_.weightUk) + head * plan_.d * kHckv;
    numeric::bf16ToFloat(weightUk, panel.data(), panel.size());
    numeric::sgemm(rows, kHckv, d, up.data(), width, panel.data(), kHckv, 0.0F, nope.data(), kHckv);
    for (size_t i = 0; i < rows; ++i) {
        const int64_t token = first + offset + static_cast<int64_t>(i);
        writeToken(nope.data() + i * kHckv, up.data() + i * width + d, head, token);
    }
}

void QueryPath::writeToken(float *nope, const float *rope, int64_t head, int64_t token) const {
    const int64_t at = token * plan_.n + head;
    float rotated[kDr];
    rotate(rope, operands_.ropeCos + token * kDr, operands_.ropeSin + token * kDr, rotated);
    if (plan_.scenario.kv != KvQuant::PerTensor) {
        numeric::floatToBf16(nope, static_cast<uint16_t *>(operands_.query) + at * kHckv, kHckv);
    } else {
        numeric::roundToBf16(nope, kHckv);
        const DynamicQuant quantise{plan_.scenario.queryDtype(), plan_.is950, !plan_.is950};
        const float scale = quantise(nope, kHckv, static_cast<uint8_t *>(operands_.query) + at * kHckv);
        operands_.dequantScaleQNope[at] = scale;
        // The score is (scale / quantScaleCkv) * (codes of q . codes of k + q_rope' . k_rope).
        const float factor = operands_.quantScaleCkv[0] / scale;
        numeric::roundToBf16(rotated, kDr);
        for (float &value : rotated) value *= factor;
    }
    numeric::floatToBf16(rotated, operands_.queryRope + at * kDr, kDr);
}

}  // namespace sim::mla_prolog
