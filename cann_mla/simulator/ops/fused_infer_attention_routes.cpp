#include "ops/fused_infer_attention_routes.hpp"

#include <algorithm>

#include "ops/fused_infer_attention_check.hpp"
#include "ops/fused_infer_attention_rules.hpp"
#include "ops/fused_infer_attention_scene.hpp"

namespace sim::fia {

namespace {

constexpr int64_t largestHeadDim = 512;

bool isOneOf(const std::string &layout, std::initializer_list<const char *> names) { return oneOf(layout, names); }

bool fourAxes(const std::string &l) {
    return isOneOf(l, {"BNSD_BSND", "BSND_BNSD", "BNSD_NBSD", "BSND_NBSD", "BNSD", "BSND"});
}
bool hiddenLast(const std::string &l) { return isOneOf(l, {"BSH", "BSH_NBSD", "BSH_BNSD"}); }
bool tokens(const std::string &l) { return isOneOf(l, {"TND", "NTD", "TND_NTD", "NTD_TND"}); }
bool decodeLayout(const std::string &l) {
    return isOneOf(l, {"BSH", "BNSD", "BSND", "BNSD_NBSD", "BSND_NBSD", "BSH_NBSD"});
}

int64_t kvHeadsOf(const Params &p) { return p.numKeyValueHeads == 0 ? p.numHeads : p.numKeyValueHeads; }

// D of a paged value cache of 3, 4 or 5 axes.
std::optional<int64_t> pagedHeadDim(const Shape &value, int64_t kvHeads) {
    switch (value.size()) {
        case 3:
            return over(value[2], kvHeads);
        case 4:
            return value[3];
        case 5:
            return times(value[2], value[4]);
        default:
            return std::nullopt;
    }
}

struct HeadDims {
    int64_t query = 0, rope = 0, value = 0;
};

std::optional<HeadDims> sharedHeadDims(const Params &p, const std::string &layout) {
    size_t rank = fourAxes(layout) ? 4 : hiddenLast(layout) || tokens(layout) ? 3 : 0;
    const Shape &query = p.query->shape, &value = secondOperand(p).shape;
    if (rank == 0 || query.size() != rank) return std::nullopt;
    int64_t heads = hiddenLast(layout) ? p.numHeads : 1;
    HeadDims dims;
    dims.query = over(query[rank - 1], heads);
    if (p.queryRope) dims.rope = over(axis(p.queryRope->shape, rank - 1), heads);
    if (p.blockTable) {
        auto paged = pagedHeadDim(value, kvHeadsOf(p));
        if (!paged) return std::nullopt;
        dims.value = *paged;
        return dims;
    }
    if (value.size() != rank) return std::nullopt;
    dims.value = over(value[rank - 1], hiddenLast(layout) ? kvHeadsOf(p) : 1);
    return dims;
}

bool olderDecodePreferred(const Params &p, const std::string &layout, const HeadDims &dims) {
    bool multiHead = p.numKeyValueHeads == 0 || p.numKeyValueHeads == p.numHeads;
    bool prefix = p.keySharedPrefix || p.valueSharedPrefix;
    if (!multiHead || p.blockTable || dims.query != dims.value || dims.rope != 0) return false;
    if (!isOneOf(layout, {"BNSD", "BSND", "BSH"})) return false;
    int64_t queryLength = axis(p.query->shape, layout == "BNSD" ? 2 : 1);
    return queryLength == 1 && ((dims.query == 256 && !prefix) || (dims.query == 80 && prefix));
}

bool splitFuseHeadDim(const Params &p, int64_t d) {
    const Shape &key = p.key->front().shape, &value = secondOperand(p).shape;
    auto fits = [d](int64_t k, int64_t v, int64_t blockSize) {
        return d == k && d == v && d <= 256 && blockSize % 16 == 0 && blockSize <= 512;
    };
    if (!p.blockTable) return fits(axis(key, 2), axis(value, 2), 0);
    if (key.size() == 3) {
        require(p.numKeyValueHeads != 0,
                "numKeyValueHeads is 0; in layout TND with a paged cache of 3 axes it must be given (real CANN "
                "crashes here)");
        return fits(over(key[2], p.numKeyValueHeads), over(axis(value, 2), p.numKeyValueHeads), key[1]);
    }
    return key.size() == 5 && d != 64 && d != 128 && fits(times(key[2], 16), times(axis(value, 2), 16), key[3]);
}

// Independent of post quantisation, which the two places that ask see differently.
bool splitFuseFits(const Params &p, const std::string &layout) {
    if (layout != "TND" || (p.queryRope && p.keyRope)) return false;
    int64_t d = axis(p.query->shape, 2);
    if (p.learnableSink && d == 64 && p.learnableSink->dtype == ACL_BF16) return false;
    int32_t sparse = low32(p.sparseMode), precise = low32(p.innerPrecise);
    if (!oneOf(sparse, {0, 3, 4})) return false;
    bool multiHead = p.numKeyValueHeads == 0 || p.numHeads == p.numKeyValueHeads;
    bool heads =
        multiHead ? !(p.query->dtype == ACL_BF16 && precise == 1) && !(sparse == 0 && p.attenMask) : precise == 0;
    return heads && splitFuseHeadDim(p, d);
}

bool isShared(const Params &p, const std::string &layout) {
    if (!isHalf(p.query->dtype) || p.key->front().dtype != p.query->dtype) return false;
    auto dims = sharedHeadDims(p, layout);
    if (!dims || olderDecodePreferred(p, layout, *dims)) return false;
    return !(splitFuseFits(p, layout) && !p.quantScale2);
}

// ---- the common part of the older paths ----

void checkSizes(const Params &p) {
    int64_t query = elements(p.query->shape);
    require(query != 0 || elements(p.attentionOut->shape) == 0, "query has shape ", p.query->shape,
            " and attentionOut ", p.attentionOut->shape, "; an empty query needs an empty output");
    for (const Shape *shape : {&p.query->shape, &p.key->front().shape, &secondOperand(p).shape}) {
        require(elements(*shape) != noAxis, "query, key or value has shape ", *shape,
                "; the number of elements overflows 64 bits");
    }
}

int64_t queryHeads(const Params &p, const std::string &l) {
    const Shape &q = p.query->shape;
    if (isOneOf(l, {"NSD", "NTD_TND"})) return axis(q, 0);
    if (isOneOf(l, {"BSND_NBSD", "BSND"})) return axis(q, 2);
    if (isOneOf(l, {"BSH", "BSH_NBSD"})) return p.numHeads;
    return axis(q, 1);
}

int64_t queryLength(const Params &p, const std::string &l) {
    const Shape &q = p.query->shape;
    if (isOneOf(l, {"NSD", "BSH", "BSH_NBSD", "BSND_NBSD", "BSND", "NTD_TND"})) return axis(q, 1);
    if (isOneOf(l, {"BNSD_BSND", "BNSD_NBSD", "BNSD"})) return axis(q, 2);
    return axis(q, 0);
}

int64_t queryHeadDim(const Params &p, const std::string &l) {
    const Shape &q = p.query->shape;
    if (isOneOf(l, {"NSD", "TND", "TND_NTD", "NTD_TND"})) return axis(q, 2);
    if (isOneOf(l, {"BNSD_BSND", "BNSD_NBSD", "BNSD", "BSND_NBSD", "BSND"})) return axis(q, 3);
    return over(axis(q, 2), p.numHeads);
}

int64_t valueHeadDim(const Params &p, const Legacy &legacy) {
    const Shape &value = legacy.value->shape;
    if (legacy.paged) {
        auto paged = pagedHeadDim(value, kvHeadsOf(p));
        require(paged.has_value(), "the paged value cache has shape ", value, "; allowed: 3, 4 or 5 axes");
        return *paged;
    }
    bool tokenLike = isOneOf(legacy.layout, {"NSD", "TND", "TND_NTD", "NTD_TND"});
    bool four = isOneOf(legacy.layout, {"BNSD_BSND", "BNSD_NBSD", "BNSD", "BSND_NBSD", "BSND"});
    if (!tokenLike && !four) return over(axis(value, 2), kvHeadsOf(p));
    size_t rank = four ? 4 : 3;
    require(value.size() == rank, "value has shape ", value, "; layout ", legacy.layout, " wants ", rank, " axes");
    return value[rank - 1];
}

void checkRopeLayout(const Params &p, const Legacy &legacy) {
    require(p.queryRope.has_value() == p.keyRope.has_value(), p.queryRope ? "keyRope" : "queryRope",
            " is null although the other one is given; both or neither");
    if (!p.queryRope) return;
    const std::string &l = legacy.layout;
    require(decodeLayout(l) || isOneOf(l, {"TND_NTD", "TND", "NTD_TND"}), "inputLayout is \"", l,
            "\"; with queryRope allowed: BSH, BSND, BNSD, TND, BSH_NBSD, BSND_NBSD, BNSD_NBSD, TND_NTD, NTD_TND");
    require(!(l == "TND" && legacy.d == 512 && !legacy.paged), "layout TND with D 512 needs blockTableOptional");
}

void checkRanks(const Params &p, const Legacy &legacy) {
    const std::string &l = legacy.layout;
    require(!(l == "BNSD_BSND" && legacy.s == 1), "S of query is 1; layout BNSD_BSND needs more");
    size_t rank = isOneOf(l, {"BSH", "BSH_NBSD", "TND", "TND_NTD", "NTD_TND", "NSD"}) ? 3 : 4;
    require(p.query->shape.size() == rank, "query has shape ", p.query->shape, "; layout ", l, " wants ", rank,
            " axes");
    if (legacy.paged || !isOneOf(l, {"TND", "NTD_TND"})) return;
    for (const Tensor *t : {&p.key->front(), legacy.value}) {
        require(t->shape.size() == 3, "key or value has shape ", t->shape, "; layout ", l, " wants 3 axes");
    }
}

void checkOutputShape(const Params &p, const Legacy &g) {
    size_t underscore = g.layout.rfind('_');
    std::string out = underscore == std::string::npos ? g.layout : g.layout.substr(underscore + 1);
    Shape wanted;
    if (out == "NSD")
        wanted = {g.n, g.s, g.dv};
    else if (out == "BSH")
        wanted = {g.b, g.s, times(g.dv, g.n)};
    else if (out == "NBSD")
        wanted = {g.n, g.b, g.s, g.dv};
    else if (out == "BSND")
        wanted = {g.b, g.s, g.n, g.dv};
    else if (out == "BNSD")
        wanted = {g.b, g.n, g.s, g.dv};
    else if (out == "NTD")
        wanted = {g.n, g.t, g.dv};
    else if (out == "TND")
        wanted = {g.t, g.n, g.dv};
    require(!wanted.empty(), "inputLayout is \"", g.layout, "\", which no kernel knows for these operands");
    require(p.attentionOut->shape == wanted, "attentionOut has shape ", p.attentionOut->shape, "; expected ", wanted,
            " in layout ", g.layout);
}

Legacy readLegacy(const Params &p, const std::string &layout) {
    Legacy g;
    g.layout = layout;
    g.paged = p.blockTable.has_value();
    g.value = &secondOperand(p);
    checkSizes(p);
    g.b = layout == "NSD" ? 1 : axis(p.query->shape, 0);
    g.n = queryHeads(p, layout);
    require(g.n != 0, "query has no heads: N is 0");
    g.s = queryLength(p, layout);
    g.t = isOneOf(layout, {"TND", "TND_NTD"}) ? axis(p.query->shape, 0)
          : layout == "NTD_TND"               ? axis(p.query->shape, 1)
                                              : 0;
    g.dv = valueHeadDim(p, g);
    g.d = queryHeadDim(p, layout);
    require(g.d <= largestHeadDim, "D of query is ", g.d, "; at most 512 is allowed");
    checkRopeLayout(p, g);
    checkRanks(p, g);
    checkOutputShape(p, g);
    return g;
}

// ---- decode or prompt ----

int64_t longestQueryOfTokens(const Params &p) {
    require(p.blockTable.has_value() && p.actualSeqLengths && p.actualSeqLengthsKv,
            "layout TND with a cache of 5 axes needs blockTableOptional, actualSeqLengthsOptional and "
            "actualSeqLengthsKvOptional (real CANN crashes here)");
    int64_t batches = axis(p.blockTable->shape, 0);
    if (batches == 0) return 0;
    const auto &lens = p.actualSeqLengths->values;
    if (lens.empty() || !p.actualSeqLengthsKv->hasValues()) {
        return plus(axis(p.query->shape, 0), batches - 1) / batches;
    }
    require(static_cast<int64_t>(lens.size()) >= batches, "actualSeqLengthsOptional has ", lens.size(),
            " entries; blockTableOptional has ", batches, " rows (real CANN reads past the end here)");
    int64_t longest = lens[0];
    for (int64_t i = 1; i < batches; ++i) longest = std::max(longest, minus(lens[i], lens[i - 1]));
    return longest;
}

bool shortQueryOnNzCache(const Params &p, const Legacy &g) {
    if (p.queryRope || p.key->front().shape.size() != 5) return false;
    bool isTokens = g.layout == "TND";
    if (!decodeLayout(g.layout) && !isTokens) return false;
    int64_t length = isTokens ? longestQueryOfTokens(p) : g.s;
    if (length < 1 || length > 16) return false;
    return !isTokens ||
           (g.d == 128 && p.query->dtype == ACL_BF16 && p.key->front().dtype == ACL_INT8 && g.value->dtype == ACL_INT8);
}

bool pagedTokensWithFloatAntiquant(const Params &p, const Legacy &g) {
    if (!isOneOf(g.layout, {"TND_NTD", "TND"}) || !g.paged || g.d == 512) return false;
    if (p.key->front().dtype != ACL_INT8 || p.query->dtype == ACL_INT8) return false;
    return p.antiquantScale && p.antiquantOffset && p.antiquantScale->dtype == ACL_FLOAT &&
           p.antiquantOffset->dtype == ACL_FLOAT;
}

bool isDecode(const Params &p, const Legacy &g) {
    bool tokens512 = isOneOf(g.layout, {"TND_NTD", "TND"}) && g.d == 512;
    bool decode = decodeLayout(g.layout);
    if (!p.queryRope) {
        return tokens512 || (decode && g.s == 1) || shortQueryOnNzCache(p, g) || pagedTokensWithFloatAntiquant(p, g);
    }
    return tokens512 || pagedTokensWithFloatAntiquant(p, g) || (decode && g.s == 1) ||
           (decode && g.d == 512 && ((g.s > 1 && g.s <= 32) || p.sparseMode == 4));
}

}  // namespace

Route chooseRoute(const Params &p, Legacy &legacy) {
    require(p.numHeads != 0, "numHeads is 0; it must be greater than 0 (real CANN crashes here)");
    std::string layout = p.inputLayout.value_or("");
    if (isShared(p, layout)) return Route::Shared;
    legacy = readLegacy(p, layout);
    if (splitFuseFits(p, layout)) return Route::SplitFuse;
    return isDecode(p, legacy) ? Route::Decode : Route::Prompt;
}

Route checkTiling(const Params &p) {
    if (p.ascend950) {
        checkScene(p);
        return Route::Shared;
    }
    Legacy legacy;
    Route route = chooseRoute(p, legacy);
    switch (route) {
        case Route::Shared:
            checkScene(p);
            break;
        case Route::SplitFuse:
            checkSplitFuse(p);
            break;
        case Route::Decode:
            checkDecode(p);
            break;
        case Route::Prompt:
            checkPrompt(p, legacy);
            break;
    }
    return route;
}

}  // namespace sim::fia
