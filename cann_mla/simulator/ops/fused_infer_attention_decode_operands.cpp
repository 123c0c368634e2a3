// Lengths, pse shift, post quantisation, pages, padding and prefix of the older decode kernel.
#include <algorithm>

#include "ops/fused_infer_attention_decode.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

uint32_t bits32(int64_t value) { return static_cast<uint32_t>(value); }

void checkLengthValues(Decode &s, uint32_t count) {
    const auto &lens = s.p.actualSeqLengthsKv->values;
    s.longestKv = 0;
    if (lens.empty()) {
        s.longestKv = s.cacheLength;
        return;
    }
    uint32_t batches = count == 1 && s.listLengths.size() == 1 ? 1 : s.batch;
    for (uint32_t i = 0; i < batches; ++i) {
        int64_t length = count == 1 ? lens[0] : lens[std::min<size_t>(i, lens.size() - 1)];
        require(length >= 0, "actualSeqLengthsKvOptional[", i, "] is ", length, "; it must not be negative");
        if (!s.paged) {
            uint32_t limit = s.listLengths[s.listLengths.size() == 1 ? 0 : i];
            require(bits32(length) <= limit, "actualSeqLengthsKvOptional[", i, "] is ", length, "; S of key is ",
                    limit);
        }
        s.longestKv = std::max(s.longestKv, bits32(length));
    }
}

void checkScaleShape(const char *name, const Tensor &t, const Decode &s) {
    if (elements(t.shape) == 1 || t.shape.empty() || t.shape.size() > 4) return;
    int64_t n = s.heads, d = s.d;
    const Shape allowed[] = {{1, n, 1, d},     {n, 1, d},           {n, d},       {1, 1, n, d}, {1, n, d},
                             {1, times(n, d)}, {1, 1, times(n, d)}, {times(n, d)}};
    require(std::find(std::begin(allowed), std::end(allowed), t.shape) != std::end(allowed), name, " has shape ",
            t.shape, "; allowed: one element, or one for each of N ", n, " and D ", d);
}

}  // namespace

void checkDecodeLengths(Decode &s) {
    const MaybeArray &kv = s.p.actualSeqLengthsKv;
    if (s.tokens()) {
        s.hasKvLengths = true;
        s.longestKv = s.cacheLength;
        if (s.lengthsUnknown) return;
        require(kv && kv->count > 0, "actualSeqLengthsKvOptional is null or empty; layout ", s.layout, " needs it");
        uint32_t stays = s.longestKv;
        checkLengthValues(s, static_cast<uint32_t>(kv->count));
        s.longestKv = std::max(s.longestKv, stays);
        return;
    }
    if (!kv) {
        s.longestKv = s.cacheLength;
        require(!s.paged || s.lengthsUnknown,
                "actualSeqLengthsKvOptional is null; with blockTableOptional it is required");
        return;
    }
    s.hasKvLengths = true;
    if (kv->count == 0) {
        s.longestKv = s.cacheLength;
        return;
    }
    require(kv->count == 1 || kv->count >= s.batch, "actualSeqLengthsKvOptional has ", kv->count,
            " entries; allowed: 1, or at least B, ", s.batch);
    checkLengthValues(s, std::min(static_cast<uint32_t>(kv->count), s.batch));
}

void checkDecodePse(Decode &s) {
    if (!s.p.pseShift) return;
    const Tensor &pse = *s.p.pseShift;
    require(!s.nzCache, "pseShiftOptional is given; with a cache of 5 axes it must be null");
    require(isHalf(pse.dtype) && (s.qDtype == ACL_INT8 || pse.dtype == s.qDtype), "pseShiftOptional has dtype ",
            pse.dtype, "; allowed: that of query, ", s.qDtype);
    require(pse.shape.size() == 4, "pseShiftOptional has shape ", pse.shape, "; 4 axes are allowed");
    uint32_t b = bits32(pse.shape[0]), n = bits32(pse.shape[1]), rows = bits32(pse.shape[2]);
    s.pseColumns = bits32(pse.shape[3]);
    require((b == 1 || b == s.batch) && n == s.heads && rows == 1 && s.pseColumns >= s.cacheLength,
            "pseShiftOptional has shape ", pse.shape, "; expected [1 or ", s.batch, ", ", s.heads, ", 1, at least ",
            s.cacheLength, "]");
    s.pse = true;
}

void checkDecodePostQuant(const Decode &s) {
    const Params &p = s.p;
    if (s.qDtype != ACL_INT8) {
        require(!p.deqScale1 && !p.quantScale1 && !p.deqScale2,
                "deqScale1Optional, quantScale1Optional or deqScale2Optional is given; they belong to an INT8 query");
    }
    if (s.outDtype != ACL_INT8) {
        require(!p.quantScale2 && !p.quantOffset2,
                "quantScale2Optional or quantOffset2Optional is given; attentionOut has dtype ", s.outDtype,
                ", and they belong to INT8");
        return;
    }
    require(p.quantScale2.has_value(), "quantScale2Optional is null; attentionOut has dtype INT8 and needs it");
    aclDataType dtype = p.quantScale2->dtype;
    require(oneOf(dtype, {ACL_BF16, ACL_FLOAT}), "quantScale2Optional has dtype ", dtype, "; allowed: BF16, FLOAT");
    require(!p.quantOffset2 || p.quantOffset2->dtype == dtype, "quantOffset2Optional has dtype ",
            p.quantOffset2 ? p.quantOffset2->dtype : dtype, "; that of quantScale2Optional is ", dtype);
    require(s.qDtype == ACL_BF16 || dtype != ACL_BF16, "quantScale2Optional has dtype BF16; with query of ", s.qDtype,
            " FLOAT is allowed");
    require(s.kvDtype != ACL_INT4, "key has dtype INT4; then quantScale2Optional is not allowed");
    checkScaleShape("quantScale2Optional", *p.quantScale2, s);
    if (p.quantOffset2) checkScaleShape("quantOffset2Optional", *p.quantOffset2, s);
}

void checkDecodePages(const Decode &s) {
    if (!s.paged) return;
    require(s.query != Decode::Axes::HiddenLast || s.kvHeads * s.d <= 65535, "a cache row has ", s.kvHeads * s.d,
            " elements; at most 65535 are allowed in layout ", s.layout);
    require(s.blockSize != 0 && s.blockSize <= 512, "blockSize is ", s.blockSize, "; 1 to 512 are allowed");
    require(s.kvDtype != ACL_INT8 || s.blockSize % 32 == 0, "blockSize is ", s.blockSize,
            "; a multiple of 32 is needed");
    require(!isHalf(s.kvDtype) || s.blockSize % 16 == 0, "blockSize is ", s.blockSize, "; a multiple of 16 is needed");
    require(s.longestKv <= s.cacheLength, "actualSeqLengthsKvOptional reaches ", s.longestKv,
            "; blockTableOptional has room for ", s.cacheLength);
    checkDecodeAntiquantPages(s);
}

void checkDecodePadding(Decode &s) {
    if (!s.p.kvPaddingSize || elements(s.p.kvPaddingSize->shape) == 0) return;
    require(s.kvDtype != ACL_INT4, "kvPaddingSizeOptional is given; with an INT4 key it must be null");
    require(!s.rope, "kvPaddingSizeOptional is given; with queryRope it must be null");
    s.kvPadding = s.sameBatch && s.hasKvLengths && !s.paged;
}

void checkDecodePrefix(Decode &s) {
    const Params &p = s.p;
    if (!p.keySharedPrefix && !p.valueSharedPrefix) return;
    require(p.keySharedPrefix && p.valueSharedPrefix,
            "one of keySharedPrefixOptional and valueSharedPrefixOptional is null; both or neither");
    const Tensor &k = *p.keySharedPrefix, &v = *p.valueSharedPrefix;
    require(k.dtype == s.kvDtype && v.dtype == s.kvDtype, "the shared prefixes have dtypes ", k.dtype, " and ", v.dtype,
            "; that of key is ", s.kvDtype);
    require(!s.paged, "keySharedPrefixOptional is given; with blockTableOptional it must be null");
    require(!s.kvPadding, "keySharedPrefixOptional is given; with kvPaddingSizeOptional it must be null");
    require(k.shape == v.shape && k.shape.size() == p.query->shape.size() && axis(k.shape, 0) == 1,
            "the shared prefixes have shapes ", k.shape, " and ", v.shape,
            "; they must be equal, with the axes of query and B 1");
    int64_t n = s.kvHeads, d = s.d;
    bool hiddenLast = s.query == Decode::Axes::HiddenLast;
    bool fits = !hiddenLast           ? axis(k.shape, 1) == n && axis(k.shape, 3) == d
                : k.shape.size() == 3 ? k.shape[2] == static_cast<int64_t>(bits32(times(n, d)))
                : k.shape.size() == 4 ? k.shape[2] == n && k.shape[3] == d
                                      : true;
    require(fits, "keySharedPrefixOptional has shape ", k.shape, "; N and D must be those of key, ", n, " and ", d);
    s.prefix = true;
    s.prefixLength = elements(k.shape) == 0 ? 0 : bits32(axis(k.shape, hiddenLast ? 1 : 2));
    if (!p.actualSharedPrefixLen || p.actualSharedPrefixLen->count == 0) return;
    require(p.actualSharedPrefixLen->count == 1, "actualSharedPrefixLenOptional has ", p.actualSharedPrefixLen->count,
            " entries; allowed: 1");
    if (!p.actualSharedPrefixLen->hasValues()) return;
    int64_t length = p.actualSharedPrefixLen->values[0];
    require(length >= 0 && bits32(length) <= s.prefixLength, "actualSharedPrefixLenOptional is ", length,
            "; allowed: 0 to S of the prefix, ", s.prefixLength);
    uint32_t total = bits32(length) + s.longestKv;
    require(!s.pse || total <= s.pseColumns, "prefix and key together have ", total,
            " tokens; the last axis of pseShiftOptional is ", s.pseColumns);
    require(!s.mask || total <= s.maskColumns, "prefix and key together have ", total,
            " tokens; the last axis of attenMaskOptional is ", s.maskColumns);
    require(s.antiquantMode != 1 || total <= antiquantLength(s), "prefix and key together have ", total,
            " tokens; the antiquant scales have ", antiquantLength(s));
}

}  // namespace sim::fia
