// Axes of the older prompt kernel's operands: lists, padding, prefix, heads and lengths.
#include <algorithm>

#include "ops/fused_infer_attention_prompt.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

uint32_t bits32(int64_t value) { return static_cast<uint32_t>(value); }

struct ListAxes {
    size_t length, last;
    std::optional<size_t> heads;
};

ListAxes listAxes(const std::string &layout) {
    if (layout == "BSH") return {1, 2, std::nullopt};
    if (layout == "BNSD" || layout == "BNSD_BSND") return {2, 3, 1};
    return {1, 3, 2};
}

void checkListEntry(Prompt &s, size_t i, const ListAxes &axes, int64_t &totalLength) {
    const Shape &k = (*s.p.key)[i].shape, &v = (*s.p.value)[i].shape, &first = s.p.key->front().shape;
    auto alike = [&](size_t a) { return axis(k, a) == axis(first, a) && axis(v, a) == axis(first, a); };
    require(alike(axes.last) && (!axes.heads || alike(*axes.heads)), "key[", i, "] has shape ", k, " and value[", i,
            "] ", v, "; N and D must be those of key[0], ", first);
    int64_t length = axis(k, axes.length);
    require(length == axis(v, axes.length), "key[", i, "] has shape ", k, " and value[", i, "] ", v,
            "; S must be equal");
    if (length == 0) s.emptyList = true;
    totalLength += length;
    s.listLengths.push_back(length);
}

}  // namespace

void checkPromptList(Prompt &s) {
    const Params &p = s.p;
    int64_t qBatch = s.layout == "NSD" ? 1 : p.query->shape[0];
    int64_t kBatch = s.layout == "NSD" ? 1 : axis(p.key->front().shape, 0);
    if (qBatch == kBatch || p.key->size() <= 1 || s.paged) return;
    s.list = true;
    for (const auto *list : {&*p.key, &*p.value}) {
        for (const Tensor &t : *list) {
            require(axis(t.shape, 0) == 1, "a tensor of the key or value list has shape ", t.shape,
                    "; axis 0 must be 1");
        }
    }
    require(static_cast<int64_t>(p.key->size()) == qBatch && p.key->size() == p.value->size(), "key has ",
            p.key->size(), " tensors and value ", p.value->size(), "; B of query is ", qBatch,
            ", and they must be equal");
    ListAxes axes = listAxes(s.layout);
    if (axes.heads) {
        int64_t heads = p.numKeyValueHeads != 0 ? p.numKeyValueHeads : p.numHeads;
        require(axis(p.key->front().shape, *axes.heads) == heads, "key[0] has shape ", p.key->front().shape,
                "; N must be ", heads);
    }
    int64_t total = 0;
    for (size_t i = 0; i < p.key->size(); ++i) checkListEntry(s, i, axes, total);
    require(!s.emptyList || total == 0, "some tensors of the key list have S 0 and others not; all or none");
    require(s.layout != "TND", "key is a list of tensors; layout TND takes one");
}

void checkPromptPadding(const Prompt &s) {
    const Params &p = s.p;
    if (!p.queryPaddingSize && !p.kvPaddingSize) return;
    require(s.layout != "TND",
            "queryPaddingSizeOptional or kvPaddingSizeOptional is given; in layout TND they must "
            "be null");
    require(!s.list, "queryPaddingSizeOptional or kvPaddingSizeOptional is given; with key lists they must be null");
    for (const MaybeTensor *t : {&p.queryPaddingSize, &p.kvPaddingSize}) {
        require(!*t || (*t)->shape == Shape{1}, "a padding size has shape ", *t ? (*t)->shape : Shape{},
                "; allowed: [1]");
    }
    require(!s.paged,
            "queryPaddingSizeOptional or kvPaddingSizeOptional is given; with blockTableOptional they must "
            "be null");
    require(!p.queryPaddingSize || p.actualSeqLengths,
            "actualSeqLengthsOptional is null; queryPaddingSizeOptional needs it");
    require(!p.kvPaddingSize || p.actualSeqLengthsKv,
            "actualSeqLengthsKvOptional is null; kvPaddingSizeOptional needs it");
}

void checkPromptRanks(const Prompt &s) {
    const Params &p = s.p;
    const Shape &q = p.query->shape, &k = p.key->front().shape, &v = s.value.shape;
    require(k.size() <= 5 && k.size() == v.size(), "key has shape ", k, " and value ", v,
            "; the number of axes must be equal and at most 5");
    bool pagedTokens = s.paged && s.tokens() && k.size() >= 3;
    if (!pagedTokens && (s.tokens() || s.layout == "BSH")) {
        require(q.size() == 3 && k.size() == 3, "query has shape ", q, " and key ", k, "; layout ", s.layout,
                " wants 3 axes");
    }
    bool four = oneOf(s.layout, {"BNSD", "BSND", "BNSD_BSND"});
    if (four) {
        require(q.size() == 4 && (k.size() == 4 || (s.paged && k.size() == 3)), "query has shape ", q, " and key ", k,
                "; layout ", s.layout, " wants 4 axes", s.paged ? ", or 3 in the cache" : "");
    }
    if (!four && s.layout != "BSH") return;
    bool hidden = k.size() == 3;
    int64_t heads = hidden ? p.numHeads : 1;
    int64_t kvHeads = hidden ? (p.numKeyValueHeads != 0 ? p.numKeyValueHeads : p.numHeads) : 1;
    int64_t queryDim = four ? q[3] : q[2] / heads;
    int64_t keyDim = k.back() / kvHeads, valueDim = v.back() / kvHeads;
    require(queryDim == keyDim && queryDim == valueDim, "D of query, key and value are ", queryDim, ", ", keyDim,
            " and ", valueDim, "; they must be equal");
}

void checkPromptPrefix(Prompt &s) {
    const Params &p = s.p;
    require(p.keySharedPrefix.has_value() == p.valueSharedPrefix.has_value(),
            "one of keySharedPrefixOptional and valueSharedPrefixOptional is null; both or neither");
    s.prefix = p.keySharedPrefix.has_value();
    if (!s.prefix) return;
    require(!s.list && !s.paged && !p.queryPaddingSize && !p.kvPaddingSize,
            "keySharedPrefixOptional is given; with key lists, blockTableOptional or padding it must be null");
    require(!(s.int8Query() && p.key->front().dtype == ACL_INT8),
            "keySharedPrefixOptional is given; with INT8 query and key it must be null");
    const Shape &k = p.keySharedPrefix->shape, &v = p.valueSharedPrefix->shape;
    bool whole = std::none_of(k.begin(), k.end(), [](int64_t d) { return bits32(d) == 0; });
    require(k.size() == p.key->front().shape.size() && k == v && whole, "the shared prefixes have shapes ", k, " and ",
            v, "; they must be equal, not empty, and have the axes of key");
}

void checkPromptHeads(Prompt &s) {
    const Params &p = s.p;
    int64_t nQ = p.numHeads, nKv = p.numKeyValueHeads;
    require(nQ >= 0 && nKv >= 0, "numHeads is ", nQ, " and numKeyValueHeads ", nKv, "; they must not be negative");
    uint32_t heads = bits32(nQ), kvHeads = bits32(nKv) == 0 ? heads : bits32(nKv);
    require(heads <= 256, "numHeads is ", heads, "; at most 256 is allowed");
    bool three = s.layout == "NSD", four = oneOf(s.layout, {"BNSD", "BNSD_BSND", "BSND"});
    if (!s.paged && (three || four)) {
        size_t rank = three ? 3 : 4, at = three ? 0 : s.headsFirst() ? 1 : 2;
        const Shape &q = p.query->shape, &k = p.key->front().shape, &v = s.value.shape;
        require(q.size() == rank && k.size() == rank && v.size() == rank, "query has shape ", q, ", key ", k,
                " and value ", v, "; layout ", s.layout, " wants ", rank, " axes");
        require(bits32(q[at]) == heads && bits32(k[at]) == kvHeads && bits32(v[at]) == kvHeads, "query has shape ", q,
                ", key ", k, " and value ", v, "; N must be numHeads ", heads, " and numKeyValueHeads ", kvHeads);
    }
    if (nKv == 0) return;
    require(nQ % nKv == 0 && nQ / nKv <= 64, "numHeads is ", nQ, " and numKeyValueHeads ", nKv,
            "; the first must be a multiple of the second, up to 64 times");
    s.ratio = std::max<int64_t>(nQ / nKv, 1);
}

void readPromptAxes(Prompt &s) {
    const Shape &q = s.p.query->shape, &k = s.p.key->front().shape;
    if (s.layout == "NSD") {
        s.b = s.bKv = 1;
        s.s = bits32(q[1]);
        s.s2 = bits32(axis(k, 1));
        s.h = static_cast<uint64_t>(times(s.p.numHeads, q[2]));
    } else {
        size_t length = s.headsFirst() ? 2 : 1;
        s.b = bits32(q[0]);
        s.bKv = bits32(axis(k, 0));
        s.s = bits32(q[length]);
        s.s2 = bits32(axis(k, length));
        s.h = static_cast<uint64_t>(q.size() == 3 ? q[2] : times(times(q[1], q[2]), q[3]) / q[length]);
    }
    if (s.list) s.s2 = bits32(*std::max_element(s.listLengths.begin(), s.listLengths.end()));
}

void checkPromptPrefixFits(Prompt &s) {
    const Params &p = s.p;
    if (s.prefix) {
        const Shape &k = p.keySharedPrefix->shape;
        bool hasBatch = !s.tokens() && s.layout != "NSD";
        require(hasBatch && k[0] == 1, "keySharedPrefixOptional has shape ", k, " in layout ", s.layout,
                "; B must be 1");
        auto heads = static_cast<uint64_t>(p.numHeads / s.ratio);
        bool fits = s.layout == "BSH" ? static_cast<uint64_t>(k[2]) == s.h / s.ratio
                                      : static_cast<uint64_t>(k[s.headsFirst() ? 1 : 2]) == heads &&
                                            static_cast<uint64_t>(k[3]) == s.h / p.numHeads;
        require(fits, "keySharedPrefixOptional has shape ", k, "; N and D must be those of key");
        s.prefixLength = bits32(k[s.headsFirst() ? 2 : 1]);
        if (hasValues(p.actualSharedPrefixLen)) {
            require(p.actualSharedPrefixLen->count == 1, "actualSharedPrefixLenOptional has ",
                    p.actualSharedPrefixLen->count, " entries; allowed: 1");
            uint32_t length = bits32(p.actualSharedPrefixLen->values[0]);
            require(length <= s.prefixLength, "actualSharedPrefixLenOptional is ", length, "; S of the prefix is ",
                    s.prefixLength);
            s.prefixLength = length;
        }
    }
    require(s.b == s.bKv || s.list || s.paged, "B of query is ", s.b, " and of key ", s.bKv, "; they must be equal");
    require(s.b <= 65536, "B is ", s.b, "; at most 65536 is allowed");
}

void checkPromptLengths(const Prompt &s) {
    const std::pair<const char *, const MaybeArray *> arrays[] = {
        {"actualSeqLengthsOptional", &s.p.actualSeqLengths}, {"actualSeqLengthsKvOptional", &s.p.actualSeqLengthsKv}};
    for (const auto &[name, array] : arrays) {
        if (!hasValues(*array)) continue;
        bool kv = array == &s.p.actualSeqLengthsKv;
        const auto &values = (*array)->values;
        require(values.size() == 1 || values.size() >= s.b, name, " has ", values.size(),
                " entries; allowed: 1, or at least B, ", s.b);
        for (size_t i = 0; i < std::min<size_t>(values.size(), s.b); ++i) {
            int64_t limit = !kv ? s.s : s.list ? s.listLengths[i] : s.paged ? INT64_MAX : s.s2;
            require(values[i] >= 0 && values[i] <= limit, name, "[", i, "] is ", values[i], "; allowed: 0 to ", limit);
        }
    }
}

}  // namespace sim::fia
