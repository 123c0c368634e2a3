// Rope (MLA) and fractal caches in the older decode kernel.
#include "ops/fused_infer_attention_decode.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

using Axes = Decode::Axes;

void checkQueryRope(Decode &s) {
    const Params &p = s.p;
    aclDataType wanted = s.full ? ACL_BF16 : s.qDtype;
    require(p.queryRope->dtype == wanted, "queryRope has dtype ", p.queryRope->dtype, "; allowed: ", wanted);
    const Shape &rope = p.queryRope->shape, &q = p.query->shape;
    bool fits = rope.size() == q.size() && rope[0] == q[0] && rope[1] == q[1];
    if (fits && q.size() == 4) fits = rope[2] == q[2];
    require(fits, "queryRope has shape ", rope, "; all axes but the last must be those of query, ", q);
    bool hidden = s.query == Axes::HiddenLast && rope.size() == 3;
    s.dRope = static_cast<uint32_t>(hidden ? rope.back() / s.heads : rope.back());
}

void checkLimits(const Decode &s) {
    require(s.kvHeads == 1, "numKeyValueHeads is ", s.kvHeads, "; with queryRope 1 is allowed");
    bool powerOfTwo = (s.group & (s.group - 1)) == 0 && s.group <= 128;
    require(powerOfTwo, "numHeads is ", s.heads, "; with queryRope a power of two up to 128 is allowed");
    require(s.d == 512 && s.dRope == 64, "D is ", s.d, " and D of queryRope ", s.dRope, "; allowed: 512 and 64");
    require(s.cache != Axes::Nz || s.query != Axes::HeadsFirst,
            "the key cache has 5 axes; it wants layout BSH, BSND or TND, not ", s.layout);
}

void requireCache(const char *name, const Shape &shape, const Shape &wanted) {
    for (size_t i = 1; i < wanted.size(); ++i) {
        require(axis(shape, i) == wanted[i], name, " has shape ", shape, "; expected [blocks",
                wanted.size() > 1 ? ", ..." : "", "] with axes from 1 as in ", wanted);
    }
}

Shape cacheShape(const Decode &s, int64_t d, int64_t elementSize) {
    int64_t n = s.kvHeads, block = s.blockSize, inner = 32 / elementSize;
    if (s.cache == Axes::HiddenLast) return {0, block, times(n, d)};
    if (s.cache == Axes::HeadsFirst) return {0, n, block, d};
    return {0, n, d / inner, block, inner};
}

int64_t sizeOf(aclDataType dtype) { return dtype == ACL_INT8 ? 1 : dtype == ACL_FLOAT ? 4 : 2; }

void checkKeyRope(const Decode &s) {
    const Params &p = s.p;
    require(s.paged, "blockTableOptional is null; queryRope with one to 32 query tokens needs a paged cache");
    aclDataType wanted = s.full ? p.queryRope->dtype : s.kvDtype;
    require(p.keyRope->dtype == wanted, "keyRope has dtype ", p.keyRope->dtype, "; allowed: ", wanted);
    const Shape &rope = p.keyRope->shape, &key = p.key->front().shape;
    require(elements(rope) != 0 && elements(key) != 0, "key has shape ", key, " and keyRope ", rope,
            "; they must not be empty");
    require(rope.size() == key.size() && rope[0] == key[0], "keyRope has shape ", rope, " and key ", key,
            "; the number of axes and of blocks must be equal");
    requireCache("key", key, cacheShape(s, s.d, sizeOf(s.kvDtype)));
    requireCache("keyRope", rope, cacheShape(s, s.dRope, sizeOf(p.keyRope->dtype)));
}

void checkExcluded(const Decode &s) {
    require(!s.pse, "pseShiftOptional is given; here it must be null");
    require(s.sameBatch, "key is a list of tensors; here one tensor is allowed");
    require(!s.prefix, "keySharedPrefixOptional is given; here it must be null");
    require(s.outDtype != ACL_INT8, "attentionOut has dtype INT8; here FP16 or BF16 is allowed");
    require(!s.kvPadding, "kvPaddingSizeOptional is given; here it must be null");
}

// ---- caches of 5 axes without rope ----

void checkNzOperands(const Decode &s) {
    const Params &p = s.p;
    require(s.anti && s.qDtype == ACL_BF16 && s.kvDtype == ACL_INT8 && s.outDtype == ACL_BF16,
            "query, key and attentionOut have dtypes ", s.qDtype, ", ", s.kvDtype, " and ", s.outDtype,
            "; with a cache of 5 axes BF16, INT8 and BF16 are allowed");
    for (const Tensor *t : {&p.key->front(), &s.value}) {
        bool fits = elements(t->shape) != 0 && axis(t->shape, 2) == s.d / 32 && axis(t->shape, 4) == 32;
        require(fits, "a cache has shape ", t->shape, "; expected [blocks, N, ", s.d / 32, ", blockSize, 32]");
    }
    require(p.keyAntiquantScale && p.valueAntiquantScale,
            "keyAntiquantScaleOptional or valueAntiquantScaleOptional is null; a cache of 5 axes needs both");
    for (const Tensor *t : {&*p.keyAntiquantScale, &*p.valueAntiquantScale}) {
        require(s.antiquantMode != 0 || t->dtype == ACL_BF16, "an antiquant scale has dtype ", t->dtype,
                "; per channel BF16 is allowed");
        require(s.antiquantMode != 1 || t->dtype == ACL_FLOAT, "an antiquant scale has dtype ", t->dtype,
                "; per token FLOAT is allowed");
    }
    require(s.paged, "blockTableOptional is null; a cache of 5 axes needs it");
}

void checkNzExcluded(const Params &p) {
    bool any = p.pseShift || p.quantScale2 || p.quantOffset2 || p.antiquantScale || p.antiquantOffset ||
               p.keyAntiquantOffset || p.valueAntiquantOffset || p.keySharedPrefix || p.valueSharedPrefix ||
               p.queryRope || p.keyRope || p.keyRopeAntiquantScale || p.dequantScaleQuery;
    require(!any,
            "an operand is given that a cache of 5 axes excludes: pseShift, quantScale2, quantOffset2, "
            "antiquantScale, antiquantOffset, key or value antiquant offsets, prefix, rope, keyRopeAntiquantScale or "
            "dequantScaleQuery");
}

void checkNzMask(const Decode &s) {
    if (s.layout == "TND" && s.lengthsUnknown) return;
    auto sparse = static_cast<uint32_t>(s.p.sparseMode);
    require(s.s >= 1, "S of query is 0");
    bool fits = s.s > 1 ? sparse == 3 : sparse == 0 || (s.layout == "TND" && sparse == 3);
    require(fits, "sparseMode is ", sparse, "; with a cache of 5 axes and S of query ", s.s, " allowed: ",
            s.s > 1             ? "3"
            : s.layout == "TND" ? "0, 3"
                                : "0");
    if (sparse == 0) {
        require(!s.p.attenMask, "attenMaskOptional is given; with sparseMode 0 and a cache of 5 axes it must be null");
    } else {
        require(s.p.attenMask && s.p.attenMask->shape == Shape{2048, 2048},
                "attenMaskOptional is null or not [2048, 2048]; sparseMode 3 needs that");
    }
}

void checkNzAttributes(const Decode &s) {
    const Params &p = s.p;
    require(s.d == 128, "D is ", s.d, "; with a cache of 5 axes 128 is allowed");
    require(oneOf(s.layout, {"BSH", "BSND", "BNSD", "TND"}), "inputLayout is \"", s.layout,
            "\"; with a cache of 5 axes allowed: BSH, BSND, BNSD, TND");
    require(s.antiquantMode != 0 || (p.keyAntiquantMode == 0 && p.valueAntiquantMode == 0), "keyAntiquantMode is ",
            p.keyAntiquantMode, " and valueAntiquantMode ", p.valueAntiquantMode, "; allowed: 0, 0 or 1, 1");
    require(s.antiquantMode != 1 || (p.keyAntiquantMode == 1 && p.valueAntiquantMode == 1), "keyAntiquantMode is ",
            p.keyAntiquantMode, " and valueAntiquantMode ", p.valueAntiquantMode, "; allowed: 0, 0 or 1, 1");
    require(s.blockSize == 128 || s.blockSize == 512, "blockSize is ", s.blockSize,
            "; with a cache of 5 axes allowed: 128, 512");
    require(static_cast<uint32_t>(p.innerPrecise) == 1, "innerPrecise is ", p.innerPrecise,
            "; with a cache of 5 axes 1 is allowed");
}

}  // namespace

void checkDecodeMla(Decode &s) {
    if (!s.rope) return;
    checkQueryRope(s);
    checkLimits(s);
    checkKeyRope(s);
    require(!s.anti, "key has dtype ", s.kvDtype, " and query ", s.qDtype, "; with queryRope they must be equal");
    checkExcluded(s);
    require(s.blockSize == 128 || (s.blockSize == 16 && s.cache != Axes::Nz), "blockSize is ", s.blockSize,
            "; with queryRope allowed: 128", s.cache == Axes::Nz ? "" : ", 16");
}

void checkDecodeNz(const Decode &s) {
    if (!s.nzCache) return;
    checkNzOperands(s);
    checkNzExcluded(s.p);
    checkNzAttributes(s);
    checkNzMask(s);
    checkExcluded(s);
    require(s.p.queryQuantMode == 0, "queryQuantMode is ", s.p.queryQuantMode, "; with a cache of 5 axes 0 is allowed");
}

}  // namespace sim::fia
