// TND without rope and with D up to 256: few rules, and pseShift, padding, prefix and quantisation operands are
// ignored.
#include <algorithm>

#include "ops/fused_infer_attention_routes.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

constexpr int64_t maskSize = 2048;

void checkRanks(const Params &p) {
    size_t q = p.query->shape.size(), k = p.key->front().shape.size(), v = p.value->front().shape.size();
    require(q == 3, "query has shape ", p.query->shape, "; layout TND wants 3 axes");
    if (!p.blockTable) {
        require(k == 3 && v == 3, "key has shape ", p.key->front().shape, " and value ", p.value->front().shape,
                "; layout TND wants 3 axes");
        return;
    }
    if (!oneOf<size_t>(k, {3, 5}) && !oneOf<size_t>(v, {3, 5})) return;
    require(k == v, "the key cache has shape ", p.key->front().shape, " and the value cache ", p.value->front().shape,
            "; the number of axes must be equal");
    if (k != 5) return;
    int32_t blockSize = low32(p.blockSize);
    for (const Tensor *t : {&p.key->front(), &p.value->front()}) {
        require(t->shape[4] == 16 && t->shape[3] == blockSize, "an NZ cache has shape ", t->shape,
                "; the last two axes must be blockSize, ", blockSize, ", and 16");
    }
}

void checkLengths(const Params &p) {
    require(p.actualSeqLengths && p.actualSeqLengths->count > 0,
            "actualSeqLengthsOptional is null or empty; layout TND needs it");
    require(p.actualSeqLengthsKv && p.actualSeqLengthsKv->count > 0,
            "actualSeqLengthsKvOptional is null or empty; layout TND needs it");
    if (!p.actualSeqLengths->hasValues() || !p.actualSeqLengthsKv->hasValues()) return;
    int64_t lastQ = p.actualSeqLengths->values.back(), lastKv = p.actualSeqLengthsKv->values.back();
    require(p.query->shape[0] == lastQ, "the last of actualSeqLengthsOptional is ", lastQ, "; T of query is ",
            p.query->shape[0]);
    if (p.blockTable) return;
    require(p.key->front().shape[0] == lastKv && p.value->front().shape[0] == lastKv,
            "the last of actualSeqLengthsKvOptional is ", lastKv, "; T of key is ", p.key->front().shape[0],
            " and of value ", p.value->front().shape[0]);
}

void checkBand(const Params &p) {
    if (low32(p.sparseMode) != 4) return;
    if (!p.actualSeqLengths->hasValues() || !p.actualSeqLengthsKv->hasValues()) return;
    require(p.preTokens >= 0 || p.nextTokens >= 0, "preTokens is ", p.preTokens, " and nextTokens ", p.nextTokens,
            "; both must not be negative");
    int64_t negated = minus(0, p.nextTokens);
    require(negated <= p.preTokens, "preTokens is ", p.preTokens, " and nextTokens ", p.nextTokens,
            "; their sum must not be negative");
}

void checkMask(const Params &p) {
    int32_t sparse = low32(p.sparseMode);
    require(oneOf(sparse, {0, 3, 4}), "sparseMode is ", sparse, "; allowed: 0, 3, 4");
    if (!p.attenMask) {
        require(sparse == 0, "sparseMode is ", sparse,
                " and attenMaskOptional is null; it needs a mask of [2048, 2048]");
        return;
    }
    require(sparse != 0, "attenMaskOptional is given with sparseMode 0; layout TND takes a mask in modes 3 and 4");
    const Shape &mask = p.attenMask->shape;
    bool fits = mask.size() >= 2 && mask.size() <= 4 && mask[mask.size() - 1] == maskSize &&
                mask[mask.size() - 2] == maskSize &&
                std::all_of(mask.begin(), mask.end() - 2, [](int64_t d) { return d == 1; });
    require(fits, "attenMaskOptional has shape ", mask, "; allowed: [2048, 2048] with up to two leading axes of 1");
}

void checkHeads(const Params &p) {
    require(p.numKeyValueHeads != 0,
            "numKeyValueHeads is 0; in layout TND without rope it must be given (real CANN crashes here)");
    int64_t d = p.query->shape[2];
    const Shape &key = p.key->front().shape, &value = p.value->front().shape;
    int64_t keyDim = 0, valueDim = 0;
    if (!p.blockTable) {
        keyDim = key[2];
        valueDim = value[2];
    } else {
        int64_t cacheBlock = 0;
        if (key.size() == 3) {
            keyDim = over(key[2], p.numKeyValueHeads);
            valueDim = over(value[2], p.numKeyValueHeads);
            cacheBlock = key[1];
        } else if (key.size() == 5) {
            keyDim = times(key[2], 16);
            valueDim = times(value[2], 16);
            cacheBlock = key[3];
        }
        require(p.blockSize == cacheBlock && p.blockSize % 16 == 0 && p.blockSize <= 512, "blockSize is ", p.blockSize,
                "; it must be that of the cache, ", cacheBlock, ", a multiple of 16 and at most 512");
    }
    require(d == keyDim && d == valueDim && d <= 256, "D of query, key and value are ", d, ", ", keyDim, " and ",
            valueDim, "; they must be equal and at most 256");
}

void checkSink(const Params &p) {
    if (!p.learnableSink) return;
    const Tensor &sink = *p.learnableSink;
    require(sink.dtype == p.query->dtype, "learnableSinkOptional has dtype ", sink.dtype, "; that of query is ",
            p.query->dtype, ", and they must be equal");
    require(sink.shape == Shape{p.query->shape[1]}, "learnableSinkOptional has shape ", sink.shape, "; expected [",
            p.query->shape[1], "]");
    int32_t precise = low32(p.innerPrecise);
    require(!oneOf(precise, {1, 2, 3}), "innerPrecise is ", precise, "; with learnableSinkOptional 0 is allowed");
}

void checkLse(const Params &p) {
    if (!p.softmaxLseFlag) return;
    Shape wanted{p.query->shape[0], p.query->shape[1], 1};
    require(p.softmaxLse->shape == wanted, "softmaxLse has shape ", p.softmaxLse->shape, "; expected ", wanted);
}

}  // namespace

void checkSplitFuse(const Params &p) {
    const Tensor &second = secondOperand(p);
    require(isHalf(p.query->dtype) && p.key->front().dtype == p.query->dtype && second.dtype == p.query->dtype,
            "query, key and value have dtypes ", p.query->dtype, ", ", p.key->front().dtype, " and ", second.dtype,
            "; layout TND wants FP16 or BF16, all equal");
    require(p.key->size() == 1 && p.value->size() == 1, "key has ", p.key->size(), " tensors and value ",
            p.value->size(), "; layout TND takes one each");
    checkRanks(p);
    checkLengths(p);
    checkTopics(p, checkBand, checkMask, checkHeads, checkSink, checkLse);
}

}  // namespace sim::fia
