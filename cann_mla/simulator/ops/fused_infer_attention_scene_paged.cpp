// Shared path: blockTable, blockSize and the caches of paged attention.
#include <algorithm>

#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

int64_t bytesTimesTwo(aclDataType dtype) {
    if (dtype == ACL_INT4 || dtype == ACL_FLOAT4_E2M1) return 1;
    if (oneOf(dtype, {ACL_INT8, ACL_HIFLOAT8, ACL_FLOAT8_E4M3FN})) return 2;
    return 4;
}

int64_t longestInBlocks(const Scene &s) {
    int64_t longest = 0;
    if (!s.kvLens()) return 0;
    const auto &lens = s.kvLens()->values;
    for (size_t i = 0; i < std::min<size_t>(lens.size(), s.b); ++i) {
        longest = std::max(longest, plus(lens[i], s.blockSize - 1) / s.blockSize);
    }
    return longest;
}

void requireBlockSize(const Scene &s, const char *scene, int64_t unit, int64_t most) {
    require(s.blockSize % unit == 0 && s.blockSize >= unit && s.blockSize <= most, "blockSize is ", s.blockSize, "; ",
            scene, " allows multiples of ", unit, " up to ", most);
}

void checkBlockSize(const Scene &s) {
    if (s.quant == Quant::None) {
        if (s.rope != Rope::None) return requireBlockSize(s, "rope", 16, 1024);
        if (s.d == 64 || s.d == 128) return requireBlockSize(s, "D 64 or 128", 16, 1024);
        if (s.s1 > 1) return requireBlockSize(s, "D other than 64 and 128 with S > 1", 128, 1024);
        if (s.s1 == 1) return requireBlockSize(s, "D other than 64 and 128 with S 1", 16, 512);
    } else if (s.quant == Quant::Anti) {
        requireBlockSize(s, "this key dtype", 64 / bytesTimesTwo(s.kvDtype), 512);
    } else {
        require(s.mla != Mla::Split512 || s.blockSize == 128, "blockSize is ", s.blockSize,
                "; full quantisation with rope and D 512 allows 128");
        require(s.fullQuant != FullQuant::Mxfp8 || s.blockSize == 512 || s.blockSize == 1024, "blockSize is ",
                s.blockSize, "; MXFP8 allows 512 and 1024");
        require(s.fullQuant != FullQuant::Fp8Gqa || s.blockSize == 128, "blockSize is ", s.blockSize,
                "; FP8 with per-token-per-head scales allows 128");
    }
}

// The inner axis of an NZ cache. keyRope is 16 bits wide in full quantisation.
int64_t nzInner(const Scene &s, bool rope) {
    if (s.quant == Quant::Anti || (s.quant == Quant::Full && rope)) return 16;
    return 64 / bytesTimesTwo(s.kvDtype);
}

void checkCache(const Scene &s, const char *name, const Shape &cache, int64_t d) {
    if (cache.size() == 3) {
        require(cache[1] == s.blockSize && cache[2] == s.n2 * d && cache[2] <= 65535, name, " has shape ", cache,
                "; a BnBsH cache must be [blocks, ", s.blockSize, ", ", s.n2 * d, "] with H up to 65535");
    } else if (cache.size() == 4) {
        require(cache[1] == s.n2 && cache[2] == s.blockSize && cache[3] == d, name, " has shape ", cache,
                "; a BnNBsD cache must be [blocks, ", s.n2, ", ", s.blockSize, ", ", d, "]");
    } else {
        int64_t inner = nzInner(s, std::string(name) == "keyRope");
        require(cache.size() == 5 && cache[1] == s.n2 && cache[2] == d / inner && cache[3] == s.blockSize &&
                    cache[4] == inner,
                name, " has shape ", cache, "; an NZ cache must be [blocks, ", s.n2, ", ", d / inner, ", ", s.blockSize,
                ", ", inner, "]");
    }
}

void checkCaches(const Scene &s) {
    const Shape &key = s.p.key->front().shape, &value = s.p.value->front().shape;
    require(key.size() == value.size(), "key has shape ", key, " and value ", value,
            "; the number of axes must be equal");
    require(key[0] == value[0], "key has shape ", key, " and value ", value, "; the number of blocks must be equal");
    if (s.kvLayout == Layout::BnNBsD) {
        require(key[1] == value[1] && key[2] == value[2] && key[3] == s.d && value[3] == s.dv, "key has shape ", key,
                " and value ", value, "; heads and block size must be equal, D ", s.d, " and ", s.dv);
    }
    if (s.kvLayout == Layout::BnBsH) {
        require(key[1] == value[1] && key[2] == s.d * s.n2 && value[2] == s.dv * s.n2, "key has shape ", key,
                " and value ", value, "; block size must be equal, H ", s.d * s.n2, " and ", s.dv * s.n2);
    }
    if (s.kvLayout == Layout::NZ) {
        require(key[1] == value[1] && key[3] == value[3], "key has shape ", key, " and value ", value,
                "; heads and block size must be equal");
        require(s.mla == Mla::Combined128 || (key[2] == value[2] && key[4] == value[4]), "key has shape ", key,
                " and value ", value, "; the two parts of D must be equal");
        require(
            s.quant != Quant::None || (key[4] == 16 && value[4] == 16 && key[2] == s.d / 16 && value[2] == s.dv / 16),
            "key has shape ", key, " and value ", value, "; an NZ cache must be [blocks, N, D / 16, blockSize, 16]");
    }
    require(s.kvLayout == Layout::NZ || s.mla == Mla::Combined128 || s.d == s.dv, "D of key is ", s.d, " and of value ",
            s.dv, "; in a paged cache they must be equal, or 192 and 128");
    require(!(s.a2() && s.kvLayout == Layout::NZ && s.rope == Rope::None) ||
                (oneOf(s.d, {64, 128}) && oneOf(s.dv, {64, 128})),
            "D is ", s.d, "; an NZ cache without rope allows 64 and 128");
    if (s.lengthsUnknown) return;
    checkCache(s, "key", key, s.d);
    checkCache(s, "value", value, s.dv);
    if (s.rope == Rope::Split) checkCache(s, "keyRope", s.p.keyRope->shape, s.dRope);
}

void checkTable(const Scene &s) {
    const Tensor &table = *s.p.blockTable;
    require(table.dtype == ACL_INT32, "blockTableOptional has dtype ", table.dtype, "; allowed: INT32");
    require(elements(table.shape) != 0, "blockTableOptional has shape ", table.shape, "; it must not be empty");
    if (s.lengthsUnknown) return;
    require(table.shape[0] == s.b && table.shape[1] >= longestInBlocks(s), "blockTableOptional has shape ", table.shape,
            "; allowed: [", s.b, ", at least ", longestInBlocks(s), "]", s.tokensFirst(s.qLayout) ? emptyFirst(s.qLens) : "");
}

void checkExcludedFeatures(const Scene &s) {
    require(!s.hasQueryPaddingOperand && !s.p.kvPaddingSize,
            "queryPaddingSizeOptional or kvPaddingSizeOptional is given; paged attention does not take them");
    require(!s.p.keySharedPrefix && !s.p.valueSharedPrefix,
            "a shared prefix is given; paged attention does not take it");
    require(s.qDtype != ACL_INT8 || s.rope == Rope::Split,
            "query has dtype INT8; paged attention takes it only with queryRope and keyRope");
    if (s.quant != Quant::Anti) return;
    require(!(s.s1 > 1 && s.kvDtype == ACL_INT8 && oneOf(s.p.keyAntiquantMode, {0, 1})), "S of query is ", s.s1,
            " with INT8 key and keyAntiquantMode ", s.p.keyAntiquantMode, "; paged attention takes it only for S 1");
    require(s.kvLayout != Layout::BnNBsD || s.qLayout == Layout::BNSD || s.qLayout == Layout::TND,
            "the key cache is BnNBsD and inputLayout ", s.layout, "; antiquantisation allows it for BNSD and TND");
}

// Full quantisation: which cache layout goes with which query layout.
void checkFullQuantCache(const Scene &s) {
    if (s.quant != Quant::Full) return;
    if (s.fullQuant == FullQuant::Mxfp8) {
        require(s.kvLayout != Layout::BnBsH, "the key cache has 3 axes; MXFP8 allows 4 (BnNBsD) and 5 (NZ)");
    } else if (s.fullQuant == FullQuant::Fp8Gqa) {
        require(s.kvLayout == Layout::BnNBsD, "the key cache has shape ", s.p.key->front().shape,
                "; FP8 with per-token-per-head scales allows 4 axes (BnNBsD)");
    } else if (oneOf(s.layout, {"BSH", "BSND", "BSH_NBSD", "BSND_NBSD"})) {
        require(s.kvLayout != Layout::BnNBsD, "the key cache has 4 axes; layout ", s.layout,
                " allows 3 (BnBsH) and 5 (NZ)");
    }
}

void checkMaskColumns(const Scene &s) {
    if ((s.sparseMode != 0 && s.sparseMode != 1) || !s.p.attenMask || !s.kvLens()) return;
    const Shape &mask = s.p.attenMask->shape;
    int64_t columns = times(longestInBlocks(s), s.blockSize);
    require(mask.empty() || mask.back() >= columns, "attenMaskOptional has shape ", mask,
            "; with paged attention its last axis must be at least ", columns);
}

}  // namespace

void checkPaged(const Scene &s) {
    if (s.storage != Storage::Paged) return;
    checkTable(s);
    checkFullQuantCache(s);
    checkMaskColumns(s);
    checkExcludedFeatures(s);
    checkBlockSize(s);
    checkCaches(s);
}

}  // namespace sim::fia
