// Reading a call into a Scene. Every refusal here is a tiling error (561002).
#include "ops/fused_infer_attention_scene.hpp"

#include <algorithm>
#include <limits>

#include "ops/fused_infer_attention_rules.hpp"
#include "ops/fused_infer_attention_scene_axes.hpp"

namespace sim::fia {

namespace {

constexpr int64_t tokenLimit = 2147483647;

void readStorageAndDtypes(Scene &s) {
    const Params &p = s.p;
    require(p.key->size() == p.value->size(), "key has ", p.key->size(), " entries and value ", p.value->size(),
            "; the counts must be equal");
    s.qDtype = p.query->dtype;
    s.kvDtype = p.key->front().dtype;
    s.outDtype = p.attentionOut->dtype;
    s.valueDesc = p.key->size() > 1 ? &(*p.key)[1] : &p.value->front();
    if (p.key->size() > 1) {
        s.storage = Storage::List;
    } else if (p.blockTable) {
        s.storage = Storage::Paged;
    }
    if (s.qDtype != s.kvDtype) {
        s.quant = Quant::Anti;
    } else if (!isHalf(s.qDtype)) {
        s.quant = Quant::Full;
    }
}

// Split antiquantisation parameters whose rank the parser itself needs.
void readAntiquantLength(const Scene &s) {
    const Params &p = s.p;
    if (s.quant != Quant::Anti || !p.keyAntiquantScale || !p.valueAntiquantScale) return;
    int64_t mode = p.keyAntiquantMode;
    const Tensor *operand = p.keyAntiquantOffset ? &*p.keyAntiquantOffset : &*p.keyAntiquantScale;
    if (oneOf(s.kvDtype, {ACL_INT4, ACL_INT8}) && p.keyAntiquantMode == 0 && p.valueAntiquantMode == 1) {
        mode = 1;
        operand = p.valueAntiquantOffset ? &*p.valueAntiquantOffset : &*p.valueAntiquantScale;
    }
    size_t rank = operand->shape.size();
    require(mode != 1 || rank == 2 || rank == 3, "a per-token antiquant scale or offset has shape ", operand->shape,
            "; 2 or 3 axes are allowed");
    require(mode != 3 || rank == 3, "a per-token-per-head antiquant scale or offset has shape ", operand->shape,
            "; 3 axes [B, N, S] are allowed");
}

void readLayouts(Scene &s) {
    s.layout = s.p.inputLayout.value_or("");
    auto pair = parseLayout(s.layout);
    require(pair.has_value(), "inputLayout is \"", s.layout,
            "\"; allowed: BSH, BSND, BNSD, TND, NTD, BSH_NBSD, BSND_NBSD, BNSD_NBSD, TND_NTD, NTD_TND, BNSD_BSND, "
            "BSND_BNSD, BSH_BNSD");
    s.qLayout = pair->query;
    s.outLayout = pair->out;
    s.kvLayout = s.qLayout;
    if (s.storage != Storage::Paged) return;
    const Shape &key = s.p.key->front().shape;
    require(key.size() >= 3 && key.size() <= 5, "the paged key cache has shape ", key,
            "; allowed: 3 axes (BnBsH), 4 (BnNBsD) or 5 (NZ)");
    s.kvLayout = key.size() == 3 ? Layout::BnBsH : key.size() == 4 ? Layout::BnNBsD : Layout::NZ;
}

bool allEmpty(const std::vector<Tensor> &list) {
    return std::all_of(list.begin(), list.end(), [](const Tensor &t) { return elements(t.shape) == 0; });
}

void readEmptiness(Scene &s) {
    const Params &p = s.p;
    bool queryEmpty = elements(p.query->shape) == 0, outEmpty = elements(p.attentionOut->shape) == 0;
    require(queryEmpty == outEmpty, "query has shape ", p.query->shape, " and attentionOut ", p.attentionOut->shape,
            "; both or neither may be empty");
    if (queryEmpty) {
        s.empty = true;
        return;
    }
    require(!p.softmaxLseFlag || elements(p.softmaxLse->shape) != 0,
            "softmaxLse is empty although softmaxLseFlag is true and attentionOut is not empty");
    s.empty = allEmpty(*p.key) && allEmpty(*p.value);
}

void readHeadsAndDims(Scene &s) {
    const Params &p = s.p;
    int32_t heads = low32(p.numHeads), kvHeads = low32(p.numKeyValueHeads);
    require(heads > 0, "numHeads is ", heads, "; it must be greater than 0");
    require(kvHeads >= 0, "numKeyValueHeads is ", kvHeads, "; it must be 0 (as numHeads) or greater");
    s.n1 = heads;
    s.n2 = kvHeads == 0 ? heads : kvHeads;
    s.d = headDim("query", p.query->shape, s.qLayout, s.n1);
    s.dv = headDim("value", p.value->front().shape, s.kvLayout, s.n2);
    s.t1 = axisT(p.query->shape, s.qLayout);
    if (oneOf(s.layout, {"BSH", "BSND", "BNSD"})) {
        s.plainDecode = axisS(p.query->shape, s.qLayout) == 1 && s.d == s.dv && !p.queryRope && !p.keyRope;
    }
}

// Plain decode on A2/A3 ignores sparse mode, tokens, query lengths and query padding.
void readOverridableAttributes(Scene &s) {
    const Params &p = s.p;
    if (s.plainDecode && s.a2()) {
        s.sparseMode = 0;
        s.preTokens = s.nextTokens = tokenLimit;
    } else {
        s.sparseMode = low32(p.sparseMode);
        s.preTokens = p.preTokens;
        s.nextTokens = p.nextTokens;
        s.qLens = p.actualSeqLengths;
        s.hasQueryPaddingOperand = p.queryPaddingSize.has_value();
    }
    s.lengthsUnknown = (s.kvLens() && !s.kvLens()->hasValues()) || (s.qLens && !s.qLens->hasValues());
}

void readBatchAndQueryLength(Scene &s) {
    const Shape &query = s.p.query->shape;
    if (!s.tokensFirst(s.qLayout)) {
        requireRank("query", query, s.qLayout);
        s.b = query[0];
        s.s1 = axisS(query, s.qLayout);
        s.qSizes.push_back(s.s1);
        return;
    }
    require(s.qLens.has_value(), "actualSeqLengthsOptional is null; layout ", s.layout,
            " needs the cumulative query lengths");
    s.b = s.lengthsUnknown ? 1 : s.qLens->count;
    if (!s.qLens->hasValues()) {
        s.s1 = s.t1;
        s.qSizes.push_back(s.s1);
        return;
    }
    int64_t previous = 0;
    for (int64_t end : s.qLens->values) {
        s.qSizes.push_back(minus(end, previous));
        s.s1 = std::max(s.s1, minus(end, previous));
        previous = end;
    }
}

void readPagedLength(Scene &s) {
    const Params &p = s.p;
    s.blockSize = low32(p.blockSize);
    require(s.blockSize > 0, "blockSize is ", s.blockSize, "; with blockTableOptional it must be greater than 0");
    const Shape &table = p.blockTable->shape;
    require(table.size() == 2, "blockTableOptional has shape ", table, "; allowed: 2 axes [B, blocks per batch]");
    if (s.quant == Quant::Anti) {
        s.maxBlocksPerBatch = table[1];
    } else if (s.kvLens() && s.kvLens()->hasValues()) {
        const auto &lens = s.kvLens()->values;
        int64_t count = std::min<int64_t>(s.b, lens.size());
        for (int64_t i = 0; i < count; ++i) {
            int64_t len = low32(lens.size() > 1 ? lens[i] : lens[0]);
            s.maxBlocksPerBatch = std::max(s.maxBlocksPerBatch, (len + s.blockSize - 1) / s.blockSize);
        }
    }
    s.s2 = times(s.lengthsUnknown ? table[1] : s.maxBlocksPerBatch, s.blockSize);
}

void readTokenKvLength(Scene &s) {
    if (!s.kvLens()) {
        s.kvSizes.push_back(s.s2);
        return;
    }
    const auto &lens = s.kvLens()->values;
    int64_t count = std::min<int64_t>(s.b, lens.size());
    for (int64_t i = 0; i < count; ++i) {
        int64_t length = minus(lens[i], i == 0 ? 0 : lens[i - 1]);
        s.kvSizes.push_back(length);
        s.s2 = std::max(s.s2, length);
    }
    if (s.lengthsUnknown) s.s2 = axis(s.p.key->front().shape, 0);
}

void readKvLength(Scene &s) {
    if (s.storage == Storage::Paged) return readPagedLength(s);
    if (s.tokensFirst(s.kvLayout)) return readTokenKvLength(s);
    requireRank("key", s.p.key->front().shape, s.kvLayout);
    if (s.storage == Storage::Contiguous) {
        s.s2 = axisS(s.p.key->front().shape, s.kvLayout);
        s.listSeqLens.push_back(s.s2);
        s.kvSizes.push_back(s.s2);
        return;
    }
    for (const Tensor &entry : *s.p.key) {
        int64_t length = axisS(entry.shape, s.kvLayout);
        s.s2 = std::max(s.s2, length);
        s.listSeqLens.push_back(length);
    }
}

void readRope(Scene &s) {
    const Params &p = s.p;
    bool both = p.queryRope && p.keyRope;
    if (p.ascend950) {
        s.rope = both ? Rope::Split : s.d == 192 && s.dv == 128 ? Rope::Combined : Rope::None;
    } else {
        require(s.d >= s.dv, "D of query is ", s.d, " and D of value ", s.dv, "; it must not be the smaller one");
        require(s.d == s.dv || !both, "D of query is ", s.d, " and D of value ", s.dv,
                "; with queryRope and keyRope they must be equal");
        s.rope = s.d > s.dv ? Rope::Combined : both ? Rope::Split : Rope::None;
    }
    s.dDiffers = s.d != s.dv && !(s.d == 192 && s.dv == 128);
    if (s.rope == Rope::Combined) {
        s.mla = Mla::Combined128;
        s.dRope = minus(s.d, s.dv);
    } else if (s.rope == Rope::Split) {
        s.mla = s.d == 512 ? Mla::Split512 : s.d == 128 ? Mla::Split128 : Mla::None;
        s.dRope = headDim("queryRope", p.queryRope->shape, s.qLayout, s.n1);
        int64_t keyDim = headDim("keyRope", p.keyRope->shape, s.kvLayout, s.n2);
        require(s.dRope == keyDim, "D of queryRope is ", s.dRope, " and D of keyRope ", keyDim, "; they must be equal");
    }
}

void readPadding(Scene &s) {
    const Params &p = s.p;
    s.qPadding = s.hasQueryPaddingOperand && (!s.plainDecode || p.ascend950);
    if (s.plainDecode) {
        s.kvPadding =
            p.kvPaddingSize && elements(p.kvPaddingSize->shape) > 0 && s.storage == Storage::Contiguous && s.kvLens();
    } else {
        s.kvPadding = p.kvPaddingSize.has_value();
    }
    if (s.quant == Quant::Anti && s.s1 == 1) s.qPadding = false;
}

int64_t clampToken(int64_t token) { return std::clamp(token, -tokenLimit, tokenLimit); }

void readTokens(Scene &s) {
    bool unlimited = false;
    switch (s.sparseMode) {
        case 0:
            unlimited = !s.mask || s.qPadding || s.kvPadding;
            break;
        case 1:
            unlimited = true;
            break;
        case 2:
        case 3:
        case 9:
            s.preTokens = tokenLimit;
            s.nextTokens = 0;
            break;
        default:
            break;
    }
    if (s.quant == Quant::Anti && s.s1 == 1) unlimited = true;
    s.preTokens = unlimited ? tokenLimit : clampToken(s.preTokens);
    s.nextTokens = unlimited ? tokenLimit : clampToken(s.nextTokens);
}

void readLongestKv(Scene &s) {
    if (s.lengthsUnknown || !s.kvLens()) {
        s.maxActualKv = s.s2;
        return;
    }
    const auto &lens = s.kvLens()->values;
    int64_t count = lens.size() == 1 && s.listSeqLens.size() == 1 ? 1 : std::min<int64_t>(s.b, lens.size());
    bool cumulative =
        s.quant == Quant::Anti ? s.qLayout == Layout::TND && s.storage != Storage::Paged : s.tokensFirst(s.qLayout);
    for (int64_t i = 0; i < count; ++i) {
        int64_t length = minus(lens[i], cumulative && i > 0 ? lens[i - 1] : 0);
        s.maxActualKv = std::max(s.maxActualKv, length);
    }
}

void readPrefix(Scene &s) {
    const Params &p = s.p;
    if (!p.keySharedPrefix || !p.valueSharedPrefix) return;
    s.prefix = true;
    s.prefixMax = s.prefixLen = axisS(p.keySharedPrefix->shape, s.kvLayout);
    if (!p.actualSharedPrefixLen || p.actualSharedPrefixLen->count == 0) return;
    require(p.actualSharedPrefixLen->count == 1, "actualSharedPrefixLenOptional has ", p.actualSharedPrefixLen->count,
            " entries; allowed: 1");
    if (p.actualSharedPrefixLen->hasValues()) s.prefixLen = p.actualSharedPrefixLen->values[0];
}

void readFullQuant(Scene &s) {
    if (s.quant != Quant::Full) return;
    int64_t q = s.p.queryQuantMode, k = s.p.keyAntiquantMode, v = s.p.valueAntiquantMode;
    require(!(q == 7 && k == 7 && v == 7),
            "queryQuantMode, keyAntiquantMode and valueAntiquantMode are 7 (per block), which is not supported");
    if (q == 6 && k == 6 && v == 8) {
        s.fullQuant = FullQuant::Mxfp8;
    } else if (q == 3 && k == 3 && v == 2) {
        s.fullQuant = FullQuant::Fp8Gqa;
    } else if (s.rope == Rope::Split && q == 3 && k == 0 && v == 0) {
        s.fullQuant = FullQuant::Mla;
    } else {
        s.fullQuant = FullQuant::PerTensor;
    }
}

void readAxes(Scene &s) {
    readHeadsAndDims(s);
    readOverridableAttributes(s);
    readBatchAndQueryLength(s);
    if (s.empty) return;
    s.t2 = axisT(s.p.key->front().shape, s.kvLayout);
    require(s.n1 % s.n2 == 0, "numHeads is ", s.n1, "; it must be a multiple of numKeyValueHeads, ", s.n2);
    s.g = s.n1 / s.n2;
    readKvLength(s);
    readRope(s);
}

void readFeatures(Scene &s) {
    const Params &p = s.p;
    s.mask = p.attenMask && elements(p.attenMask->shape) != 0;
    readPadding(s);
    readTokens(s);
    require(!(s.mask && s.sparseMode == 9 && p.ascend950), "sparseMode is 9 (tree mask); Ascend950 supports 0 to 4");
    readLongestKv(s);
    readPrefix(s);
    require(p.pseType == 0, "pseType is ", p.pseType, "; allowed: 0");
    s.pse = p.pseShift && elements(p.pseShift->shape) != 0;
    s.postQuant = !isHalf(s.outDtype);
    readFullQuant(s);
}

}  // namespace

Scene readScene(const Params &params) {
    Scene s(params);
    readStorageAndDtypes(s);
    readAntiquantLength(s);
    readLayouts(s);
    readEmptiness(s);
    readAxes(s);
    readFeatures(s);
    return s;
}

}  // namespace sim::fia
