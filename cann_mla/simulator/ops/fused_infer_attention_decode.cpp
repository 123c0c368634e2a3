#include "ops/fused_infer_attention_decode.hpp"

#include <algorithm>

#include "ops/fused_infer_attention_routes.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

Decode::Decode(const Params &params)
    : p(params),
      value(secondOperand(params)),
      layout(params.inputLayout.value_or("")),
      qDtype(params.query->dtype),
      kvDtype(params.key->front().dtype),
      outDtype(params.attentionOut->dtype) {}

namespace {

uint32_t bits32(int64_t value) { return static_cast<uint32_t>(value); }

// ---- query ----

void readHiddenLast(Decode &s) {
    const Shape &q = s.p.query->shape;
    s.query = Decode::Axes::HiddenLast;
    require(q[2] % s.heads == 0, "query has H ", q[2], "; it must be a multiple of numHeads, ", s.heads);
    s.s = bits32(q[1]);
    s.d = bits32(q[2] / s.heads);
}

uint32_t headsOfQuery(const Decode &s) {
    const Shape &q = s.p.query->shape, &k = s.p.key->front().shape;
    if (oneOf(s.layout, {"BSND", "BSND_NBSD"})) return bits32(q[2]);
    if (!oneOf(s.layout, {"BSH", "BSH_NBSD"})) return bits32(q[1]);
    if (bits32(s.p.numKeyValueHeads) == 0 || k.size() != 3) return s.heads;
    require(k[2] != 0, "key has shape ", k, "; H must not be 0 (real CANN crashes here)");
    return bits32(static_cast<int64_t>(s.d * s.heads * s.kvHeads) / k[2]);
}

void readTokenLengths(Decode &s) {
    const Params &p = s.p;
    const Shape &q = p.query->shape;
    uint32_t largest = 1024U * 1024U / (s.qDtype == ACL_INT8 ? 1U : 2U);
    require(bits32(q[0]) <= largest, "T of query is ", q[0], "; at most ", largest, " is allowed");
    s.s = bits32(q[0]);
    if (s.lengthsUnknown) return;
    require(p.actualSeqLengths && p.actualSeqLengthsKv,
            "actualSeqLengthsOptional or actualSeqLengthsKvOptional is null; layout ", s.layout, " needs both");
    const auto &ends = p.actualSeqLengths->values, &kvEnds = p.actualSeqLengthsKv->values;
    require(ends.size() == kvEnds.size(), "actualSeqLengthsOptional has ", ends.size(),
            " entries and actualSeqLengthsKvOptional ", kvEnds.size(), "; they must be equal");
    s.batch = static_cast<uint32_t>(ends.size());
    int64_t longest = 0, previous = 0;
    for (int64_t end : ends) {
        int64_t length = minus(end, previous);
        require(length >= 0 && length <= 32, "actualSeqLengthsOptional gives a batch ", length,
                " query tokens; 0 to 32 are allowed");
        longest = std::max(longest, length);
        s.squaredQuerySum += length * length;
        previous = end;
    }
    require(q[0] == ends.back(), "the last of actualSeqLengthsOptional is ", ends.back(), "; T of query is ", q[0]);
    require(s.paged || p.key->front().shape[0] == kvEnds.back(), "the last of actualSeqLengthsKvOptional is ",
            kvEnds.back(), "; T of key is ", p.key->front().shape[0]);
    s.s = bits32(longest);
}

void readLayout(Decode &s) {
    const Shape &q = s.p.query->shape;
    if (oneOf(s.layout, {"BSH", "BSH_NBSD"})) {
        readHiddenLast(s);
    } else if (oneOf(s.layout, {"BSND", "BSND_NBSD"})) {
        s.query = Decode::Axes::HiddenLast;
        s.s = bits32(q[1]);
        s.d = bits32(q[3]);
    } else if (oneOf(s.layout, {"BNSD", "BNSD_NBSD"})) {
        s.query = Decode::Axes::HeadsFirst;
        s.s = bits32(q[2]);
        s.d = bits32(q[3]);
    } else {
        s.query = Decode::Axes::Tokens;
        s.d = bits32(q[2]);
    }
}

void checkQueryLength(Decode &s) {
    uint32_t length = s.s;
    if (s.tokens() && s.lengthsUnknown && s.paged) {
        uint32_t rows = bits32(axis(s.p.blockTable->shape, 0));
        if (rows != 0) length = (bits32(s.p.query->shape[0]) + rows - 1) / rows;
    }
    s.shortQuery = length > 1 && length <= 16 && !s.rope;
    if (!s.rope && !s.shortQuery) {
        require(length == 1, "S of query is ", length, "; without rope 1 to 16 are allowed here");
    } else if (!s.tokens()) {
        require(length <= 32, "S of query is ", length, "; with rope 1 to 32 are allowed here");
    }
    require(!(s.layout == "TND" && s.d == 512 && !s.rope), "layout TND with D 512 needs queryRope and keyRope");
}

// ---- key and value ----

void readPagedCache(Decode &s) {
    const Params &p = s.p;
    const Shape &table = p.blockTable->shape;
    require(!(s.kvDtype == ACL_INT4 && s.query != Decode::Axes::HiddenLast),
            "key has dtype INT4; with blockTableOptional it wants layout BSH or BSND");
    require(elements(table) != 0, "blockTableOptional has shape ", table, "; it must not be empty");
    if (s.tokens() && !s.lengthsUnknown) {
        require(bits32(table[0]) == p.actualSeqLengths->values.size(), "blockTableOptional has shape ", table,
                "; axis 0 must be the number of batches, ", p.actualSeqLengths->values.size());
    }
    s.cacheLength = bits32(axis(table, 1)) * s.blockSize;
    size_t rank = p.key->front().shape.size();
    Decode::Axes axes = rank == 3 ? Decode::Axes::HiddenLast : rank == 4 ? Decode::Axes::HeadsFirst : Decode::Axes::Nz;
    if (s.tokens() || s.rope || s.nzCache) {
        require(s.tokens() || (rank >= 3 && rank <= 5), "the key cache has shape ", p.key->front().shape,
                "; allowed: 3, 4 or 5 axes");
        s.cache = axes;
    } else {
        s.query = rank == 3 ? Decode::Axes::HiddenLast : Decode::Axes::HeadsFirst;
    }
    if (rank != 4) return;
    bool int8Mla = s.qDtype == ACL_INT8 && s.rope && s.d == 512;
    require(!int8Mla, "the key cache has shape ", p.key->front().shape, "; INT8 MLA wants 5 axes");
    require(oneOf(s.layout, {"BNSD", "TND", "TND_NTD", "BNSD_NBSD"}), "the key cache has shape ", p.key->front().shape,
            "; layout ", s.layout, " wants 3 or 5 axes");
}

void checkListEntry(const Decode &s, const Tensor &k, const Tensor &v) {
    size_t rank = s.layout == "BSH" || s.layout == "TND" ? 3 : 4;
    bool ranksKnown = oneOf(s.layout, {"BSH", "BNSD", "BSND", "TND"});
    require(!ranksKnown || (k.shape.size() == rank && v.shape.size() == rank), "a key of the list has shape ", k.shape,
            " and its value ", v.shape, "; layout ", s.layout, " wants ", rank, " axes");
    require(axis(k.shape, 0) == 1, "a key of the list has shape ", k.shape, "; axis 0 must be 1");
    for (const Tensor *t : {&k, &v}) {
        int64_t heads = s.layout == "BSH"    ? t->shape[2] / s.d
                        : s.layout == "BSND" ? t->shape[2]
                        : ranksKnown         ? t->shape[1]
                                             : 0;
        require(bits32(heads) == s.kvHeads, "a tensor of the list has shape ", t->shape, "; it must have ", s.kvHeads,
                " heads in layout ", s.layout);
    }
}

void checkAgainstFirst(const Decode &s, const Tensor &k) {
    const Shape &first = s.p.key->front().shape;
    for (size_t i = 0; i < k.shape.size(); ++i) {
        bool length = (s.layout == "BNSD" && i == 2) || (s.layout == "BSND" && i == 1) || (s.layout == "BSH" && i == 1);
        require(length || axis(first, i) == k.shape[i], "a key of the list has shape ", k.shape,
                "; only S may differ from the first, ", first);
    }
}

void readContiguousCache(Decode &s) {
    const Params &p = s.p;
    s.sameBatch = s.batch == bits32(p.key->front().shape.empty() ? 1 : p.key->front().shape[0]);
    int64_t batchOfQuery = p.query->shape[0];
    bool list = batchOfQuery != axis(p.key->front().shape, 0);
    int64_t entries = list ? batchOfQuery : 1;
    auto have = static_cast<int64_t>(std::min(p.key->size(), p.value->size()));
    require(have >= entries, "axis 0 of query is ", batchOfQuery, " and of key ", axis(p.key->front().shape, 0),
            "; then key and value must be lists of ", entries, " tensors");
    for (int64_t i = 0; i < entries; ++i) {
        const Tensor &k = (*p.key)[i], &v = (*p.value)[i];
        require(k.shape == v.shape, "key has shape ", k.shape, " and value ", v.shape, "; they must be equal");
        if (list) checkListEntry(s, k, v);
        checkAgainstFirst(s, k);
        uint32_t length = bits32(axis(k.shape, s.query == Decode::Axes::HiddenLast ? 1 : 2));
        if (elements(k.shape) == 0) length = 0;
        s.cacheLength = std::max(s.cacheLength, length);
        s.listLengths.push_back(length);
    }
    s.cache = s.query;
}

void checkHeadDims(const Decode &s) {
    if (s.paged) return;
    const Shape &q = s.p.query->shape, &k = s.p.key->front().shape;
    if (oneOf(s.layout, {"BSH", "BSH_NBSD"})) {
        require(k.size() == 3 && q[2] / s.heads == k[2] / s.kvHeads, "query has shape ", q, " and key ", k,
                "; D must be equal");
    } else if (s.tokens()) {
        require(k.size() == 3 && q[1] / s.heads == k[1] / s.kvHeads, "query has shape ", q, " and key ", k,
                "; the number of heads must fit");
    } else {
        require(k.size() == 4 && q[3] == k[3], "query has shape ", q, " and key ", k, "; D must be equal");
    }
}

void checkFormats(const Params &p) {
    const std::pair<const char *, const MaybeTensor *> operands[] = {
        {"attenMaskOptional", &p.attenMask},
        {"keySharedPrefixOptional", &p.keySharedPrefix},
        {"valueSharedPrefixOptional", &p.valueSharedPrefix},
        {"antiquantScaleOptional", &p.antiquantScale},
        {"antiquantOffsetOptional", &p.antiquantOffset},
        {"keyAntiquantScaleOptional", &p.keyAntiquantScale},
        {"keyAntiquantOffsetOptional", &p.keyAntiquantOffset},
        {"valueAntiquantScaleOptional", &p.valueAntiquantScale},
        {"valueAntiquantOffsetOptional", &p.valueAntiquantOffset},
    };
    for (const auto &[name, operand] : operands) {
        require(
            !*operand || oneOf((*operand)->format, {ACL_FORMAT_ND, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_NCDHW}),
            name, " has format ", *operand ? (*operand)->format : ACL_FORMAT_ND, "; allowed: ND");
    }
}

void checkLimits(const Decode &s) {
    require(s.rope || s.group <= 64, "numHeads is ", s.heads, " and numKeyValueHeads ", s.kvHeads,
            "; at most 64 query heads may share one");
    require(s.rope || s.qDtype != ACL_INT8,
            "query, key and value have dtype INT8; for one query token they need "
            "queryRope and keyRope");
    if (s.paged) {
        require(!isHalf(s.kvDtype) || s.blockSize % 16 == 0, "blockSize is ", s.blockSize,
                "; a multiple of 16 is needed");
        require(s.kvDtype != ACL_INT8 || s.blockSize % 32 == 0, "blockSize is ", s.blockSize,
                "; with an INT8 cache a multiple of 32 is needed");
    }
    require(s.batch <= 65536, "B is ", s.batch, "; at most 65536 is allowed");
    require(s.rope || s.d <= 512, "D is ", s.d, "; at most 512 is allowed");
    require(s.rope || s.kvHeads <= 256, "numKeyValueHeads is ", s.kvHeads, "; at most 256 is allowed");
}

// A kernel taken over from another library judges INT8 caches with innerPrecise 2 and query lengths; it checks little.
bool checkByBorrowedKernel(const Params &p, const std::string &layout) {
    if (bits32(p.innerPrecise) != 2 || !p.blockTable || p.key->front().dtype != ACL_INT8) return false;
    if (!p.actualSeqLengths || !p.actualSeqLengths->hasValues()) return false;
    const Shape &q = p.query->shape;
    require(elements(q) != 0, "query is empty");
    require(oneOf(layout, {"BSH", "BSND", "BNSD", "TND"}), "inputLayout is \"", layout,
            "\"; with innerPrecise 2 and an INT8 cache allowed: BSH, BSND, BNSD, TND");
    int64_t headSize = q.size() == 3 ? q[2] : axis(q, 3);
    require(headSize > 0 && headSize <= 1024, "the last axis of query is ", headSize,
            "; with innerPrecise 2 and an INT8 cache 1 to 1024 are allowed (real CANN crashes here)");
    return true;
}

}  // namespace

void readDecodeHeads(Decode &s) {
    const Params &p = s.p;
    require(elements(p.query->shape) != 0, "query has shape ", p.query->shape, "; it must not be empty");
    require(s.kvDtype == s.value.dtype, "key and value have dtypes ", s.kvDtype, " and ", s.value.dtype,
            "; they must be equal");
    s.batch = bits32(p.query->shape[0]);
    s.heads = bits32(p.numHeads);
    s.kvHeads = bits32(p.numKeyValueHeads);
    s.blockSize = bits32(p.blockSize);
    s.paged = p.blockTable.has_value();
    s.lengthsUnknown = (p.actualSeqLengths && !p.actualSeqLengths->hasValues()) ||
                       (p.actualSeqLengthsKv && !p.actualSeqLengthsKv->hasValues());
    require(s.heads != 0, "numHeads is 0 in 32 bits");
    if (s.kvHeads == 0) s.kvHeads = s.heads;
    require(s.kvHeads <= s.heads && s.heads % s.kvHeads == 0, "numHeads is ", s.heads,
            "; it must be a multiple of numKeyValueHeads, ", s.kvHeads);
    s.group = s.heads / s.kvHeads;
    readLayout(s);
    uint32_t found = headsOfQuery(s);
    if (s.tokens()) readTokenLengths(s);
    bool anyPrefix = p.keySharedPrefix || p.valueSharedPrefix;
    require(s.heads == found || anyPrefix, "query has shape ", p.query->shape, " and key ", p.key->front().shape,
            ", which makes ", found, " heads; numHeads is ", s.heads);
    require(s.kvDtype != ACL_INT4 || s.d % 64 == 0, "D is ", s.d, "; with INT4 a multiple of 64 is needed");
    s.rope = p.queryRope && p.keyRope;
    s.nzCache = p.key->front().shape.size() == 5 && !s.rope;
    checkQueryLength(s);
}

void readDecodeCache(Decode &s) {
    require(oneOf<uint32_t>(bits32(s.p.innerPrecise), {0, 1}), "innerPrecise is ", s.p.innerPrecise, "; allowed: 0, 1");
    if (s.paged) {
        readPagedCache(s);
    } else {
        readContiguousCache(s);
    }
    checkHeadDims(s);
    checkFormats(s.p);
    checkLimits(s);
    s.anti = s.qDtype != s.kvDtype && oneOf(s.kvDtype, {ACL_INT8, ACL_INT4});
    require(s.qDtype != ACL_INT8 || (s.paged && s.cache == Decode::Axes::Nz),
            "query has dtype INT8; it needs a paged cache of 5 axes (NZ)");
}

void checkDecode(const Params &p) {
    Decode s(p);
    if (checkByBorrowedKernel(p, s.layout)) return;
    readDecodeHeads(s);
    readDecodeCache(s);
    checkTopics(s, checkDecodeLengths, checkDecodePse, checkDecodePostQuant, checkDecodeFullQuant, checkDecodeAntiquant,
                checkDecodeMask, checkDecodePages, checkDecodePadding, checkDecodeMla, checkDecodeNz,
                checkDecodePrefix);
}

}  // namespace sim::fia
