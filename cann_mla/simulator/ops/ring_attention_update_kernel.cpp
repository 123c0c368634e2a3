// The merge of two partial results, in FLOAT, in the order of the device's instructions.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "numeric/convert.hpp"
#include "numeric/parallel.hpp"
#include "ops/ring_attention_update.hpp"

namespace sim::ring {

namespace {

constexpr int64_t copies = 8;            // softmax values stand eightfold on the last axis
constexpr int32_t deviceFault = 507015;  // what the device reports for a read outside a tensor

struct Operands {
    const void *prevAttn, *curAttn;
    const float *prevMax, *prevSum, *curMax, *curSum;
    void *attn;
    float *max, *sum;
    aclDataType dtype;
};

void load(aclDataType dtype, const void *source, int64_t offset, int64_t n, float *out) {
    auto count = static_cast<size_t>(n);
    if (dtype == ACL_FLOAT) {
        std::memcpy(out, static_cast<const float *>(source) + offset, count * sizeof(float));
    } else if (dtype == ACL_BF16) {
        numeric::bf16ToFloat(static_cast<const uint16_t *>(source) + offset, out, count);
    } else {
        numeric::fp16ToFloat(static_cast<const uint16_t *>(source) + offset, out, count);
    }
}

void store(aclDataType dtype, const float *values, int64_t n, void *destination, int64_t offset) {
    auto count = static_cast<size_t>(n);
    if (dtype == ACL_FLOAT) {
        std::memcpy(static_cast<float *>(destination) + offset, values, count * sizeof(float));
    } else if (dtype == ACL_BF16) {
        numeric::floatToBf16(values, static_cast<uint16_t *>(destination) + offset, count);
    } else {
        numeric::floatToFp16(values, static_cast<uint16_t *>(destination) + offset, count);
    }
}

// One query of one head: D values at `attnAt`, eight softmax values at `softmaxAt`.
void mergeRow(const Operands &o, int64_t attnAt, int64_t softmaxAt, int64_t d, std::vector<float> &scratch) {
    float prevScale[copies], curScale[copies];
    for (int64_t i = 0; i < copies; ++i) {
        float prevMax = o.prevMax[softmaxAt + i], curMax = o.curMax[softmaxAt + i];
        float max = std::max(prevMax, curMax);
        float prev = o.prevSum[softmaxAt + i] * std::exp(prevMax - max);
        float cur = o.curSum[softmaxAt + i] * std::exp(curMax - max);
        float sum = prev + cur;
        o.max[softmaxAt + i] = max;
        o.sum[softmaxAt + i] = sum;
        prevScale[i] = prev / sum;
        curScale[i] = cur / sum;
    }
    scratch.resize(static_cast<size_t>(2 * d));
    float *prev = scratch.data(), *cur = prev + d;
    load(o.dtype, o.prevAttn, attnAt, d, prev);
    load(o.dtype, o.curAttn, attnAt, d, cur);
    for (int64_t i = 0; i < d; ++i) prev[i] = prev[i] * prevScale[i % copies] + cur[i] * curScale[i % copies];
    store(o.dtype, prev, d, o.attn, attnAt);
}

void mergeSbh(const Operands &o, const std::vector<int64_t> &attn, int64_t n) {
    int64_t s = attn[0], b = attn[1], h = attn[2], d = h / n;
    numeric::parallelFor(static_cast<size_t>(b * n), [&](size_t index) {
        std::vector<float> scratch;
        int64_t batch = static_cast<int64_t>(index) / n, head = static_cast<int64_t>(index) % n;
        for (int64_t i = 0; i < s; ++i) {
            mergeRow(o, (i * b + batch) * h + head * d, (static_cast<int64_t>(index) * s + i) * copies, d, scratch);
        }
    });
}

void mergeTnd(const Operands &o, const std::vector<int64_t> &attn) {
    int64_t n = attn[1], d = attn[2];
    numeric::parallelFor(static_cast<size_t>(attn[0]), [&](size_t t) {
        std::vector<float> scratch;
        for (int64_t head = 0; head < n; ++head) {
            int64_t row = static_cast<int64_t>(t) * n + head;
            mergeRow(o, row * d, row * copies, d, scratch);
        }
    });
}

// Softmax memory packed [N, s_b, 8] a batch. Tokens that no batch holds stay as they are.
void mergePackedTnd(const Operands &o, const std::vector<int64_t> &attn, const std::vector<int64_t> &ends) {
    int64_t n = attn[1], d = attn[2];
    for (size_t batch = 0; batch + 1 < ends.size(); ++batch) {
        int64_t begin = std::clamp<int64_t>(ends[batch], 0, attn[0]),
                end = std::clamp<int64_t>(ends[batch + 1], 0, attn[0]);
        if (end <= begin) continue;
        int64_t length = end - begin;
        numeric::parallelFor(static_cast<size_t>(length), [&](size_t s) {
            std::vector<float> scratch;
            for (int64_t head = 0; head < n; ++head) {
                int64_t softmaxAt = (begin * n + head * length + static_cast<int64_t>(s)) * copies;
                mergeRow(o, ((begin + static_cast<int64_t>(s)) * n + head) * d, softmaxAt, d, scratch);
            }
        });
    }
}

std::vector<int64_t> readEnds(const void *data, aclDataType dtype, int64_t count) {
    std::vector<int64_t> ends;
    for (int64_t i = 0; data && i < count; ++i) {
        if (dtype == ACL_INT32) {
            ends.push_back(static_cast<const int32_t *>(data)[i]);
        } else if (elementBits(dtype) == 64) {
            ends.push_back(static_cast<const int64_t *>(data)[i]);
        } else {
            throw KernelFault(deviceFault, std::string("actualSeqQlenOptional has dtype ") + dtypeName(dtype) +
                                               "; the kernel reads INT64");
        }
    }
    return ends;
}

}  // namespace

Kernel makeKernel(const Params &p) {
    bool sbh = *p.inputLayout == "SBH", packed = p.softmaxLayout.value_or("") != "TND";
    std::vector<int64_t> attn = p.prevAttnOut->shape;
    int64_t heads = p.prevSoftmaxMax->shape[1];
    aclDataType dtype = p.prevAttnOut->dtype;
    aclDataType endsDtype = p.actualSeqQlen ? p.actualSeqQlen->dtype : ACL_INT64;
    int64_t endsCount = p.actualSeqQlen ? p.actualSeqQlen->numel() : 0;
    // A2 and A3 compare no shapes in layout TND: what does not fit is read outside its tensor.
    TensorDesc wanted;
    if (!sbh) wanted.shape = {attn[0], attn[1], copies};
    bool covered = p.curAttnOut->numel() >= p.prevAttnOut->numel();
    for (const TensorDesc *t : {p.prevSoftmaxMax, p.prevSoftmaxSum, p.curSoftmaxMax, p.curSoftmaxSum}) {
        covered = covered && t->numel() >= wanted.numel();
    }
    return [=](const Launch &launch) {
        if (!covered) throw KernelFault(deviceFault, "cur or softmax operands are smaller than prevAttnOut demands");
        Operands o{launch.in("prevAttnOut"),           launch.in("curAttnOut"),
                   launch.in<float>("prevSoftmaxMax"), launch.in<float>("prevSoftmaxSum"),
                   launch.in<float>("curSoftmaxMax"),  launch.in<float>("curSoftmaxSum"),
                   launch.out("attnOutOut"),           launch.out<float>("softmaxMaxOut"),
                   launch.out<float>("softmaxSumOut"), dtype};
        if (sbh) return mergeSbh(o, attn, heads);
        if (!packed) return mergeTnd(o, attn);
        mergePackedTnd(o, attn, readEnds(launch.in("actualSeqQlenOptional"), endsDtype, endsCount));
    };
}

}  // namespace sim::ring
