// Layouts TND and NTD_TND of the older prompt kernel: BF16 query with a quantised key and value.
#include <algorithm>

#include "ops/fused_infer_attention_prompt.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

int64_t headsOf(const Prompt &s, const Shape &shape, bool kv) {
    if (s.paged && kv) {
        return s.p.key->front().shape.size() == 3 ? s.p.numKeyValueHeads : axis(shape, 1);
    }
    return axis(shape, s.layout == "TND" ? 1 : 0);
}

int64_t headDimOf(const Prompt &s, const Shape &shape, bool kv) {
    if (!s.paged || !kv) return axis(shape, 2);
    switch (s.p.key->front().shape.size()) {
        case 5:
            return times(axis(shape, 4), axis(shape, 2));
        case 4:
            return axis(shape, 3);
        default:
            return over(axis(shape, 2), s.p.numKeyValueHeads);
    }
}

int64_t tokensOf(const Prompt &s, const Shape &shape) { return axis(shape, s.layout == "TND" ? 0 : 1); }

void checkLengthsPresent(const Prompt &s) {
    for (const MaybeArray *array : {&s.p.actualSeqLengths, &s.p.actualSeqLengthsKv}) {
        require(hasValues(*array), "actualSeqLengthsOptional or actualSeqLengthsKvOptional is null or empty; layout ",
                s.layout, " needs both");
    }
}

void checkTotals(const Prompt &s) {
    const Params &p = s.p;
    int64_t lastQ = p.actualSeqLengths->values.back(), lastKv = p.actualSeqLengthsKv->values.back();
    require(tokensOf(s, p.query->shape) == lastQ, "the last of actualSeqLengthsOptional is ", lastQ, "; T of query is ",
            tokensOf(s, p.query->shape));
    if (s.paged) return;
    int64_t keyT = tokensOf(s, p.key->front().shape), valueT = tokensOf(s, s.value.shape);
    require(keyT == lastKv && valueT == lastKv, "the last of actualSeqLengthsKvOptional is ", lastKv, "; T of key is ",
            keyT, " and of value ", valueT);
}

void checkHeads(const Prompt &s) {
    const Params &p = s.p;
    int64_t q = headsOf(s, p.query->shape, false), k = headsOf(s, p.key->front().shape, true),
            v = headsOf(s, s.value.shape, true);
    require(k == v && k != 0 && q == p.numHeads && q % k == 0, "N of query, key and value are ", q, ", ", k, " and ", v,
            "; the last two must be equal and divide the first, which must be numHeads, ", p.numHeads);
}

void checkRope(const Prompt &s) {
    const Params &p = s.p;
    const Shape &q = p.query->shape, &k = p.key->front().shape, &qr = p.queryRope->shape, &kr = p.keyRope->shape;
    require(qr.size() == q.size() && kr.size() == k.size(), "queryRope has shape ", qr, " and keyRope ", kr,
            "; the number of axes must be that of query and key");
    require(tokensOf(s, qr) == tokensOf(s, q) && headsOf(s, qr, false) == headsOf(s, q, false), "queryRope has shape ",
            qr, "; T and N must be those of query, ", q);
    require(s.paged || tokensOf(s, kr) == tokensOf(s, k), "keyRope has shape ", kr, "; T must be that of key, ", k);
    require(headsOf(s, kr, true) == headsOf(s, k, true), "keyRope has shape ", kr, "; N must be that of key, ", k);
    bool fits = headDimOf(s, q, false) == 128 && headDimOf(s, k, true) == 128 &&
                headDimOf(s, s.value.shape, true) == 128 && headDimOf(s, qr, false) == 64 &&
                headDimOf(s, kr, true) == 64;
    require(fits, "with queryRope D of query, key and value must be 128 and D of queryRope and keyRope 64");
}

void checkHeadDims(const Prompt &s) {
    const Params &p = s.p;
    int64_t q = headDimOf(s, p.query->shape, false), k = headDimOf(s, p.key->front().shape, true),
            v = headDimOf(s, s.value.shape, true);
    if (p.queryRope || p.keyRope) {
        checkRope(s);
    } else {
        bool fits = (q == 192 && k == 192 && (v == 192 || v == 128)) || (q == k && q == v && (v == 128 || v == 64));
        require(fits, "D of query, key and value are ", q, ", ", k, " and ", v,
                "; allowed: 192, 192, 128 or 192; or all 128 or all 64");
    }
    int64_t heads = headsOf(s, p.query->shape, false), kvHeads = headsOf(s, p.key->front().shape, true);
    require(heads / kvHeads == 1 || v != 192, "D of value is 192; then numHeads and numKeyValueHeads must be equal");
    require(!(s.layout == "NTD_TND" && v == 192), "D of value is 192; in layout NTD_TND 64 or 128 is allowed");
    if (p.learnableSink && elements(p.learnableSink->shape) != 0) {
        require(p.learnableSink->shape == Shape{heads} && (v == 128 || v == 64), "learnableSinkOptional has shape ",
                p.learnableSink->shape, "; expected [", heads, "] with D of value 64 or 128");
    }
    require(p.query->dtype == ACL_BF16, "query has dtype ", p.query->dtype, "; in layout ", s.layout,
            " with these operands BF16 is allowed");
}

void checkLengthOrder(const Prompt &s) {
    const auto &q = s.p.actualSeqLengths->values, &kv = s.p.actualSeqLengthsKv->values;
    require(q.size() == kv.size(), "actualSeqLengthsOptional has ", q.size(),
            " entries and actualSeqLengthsKvOptional ", kv.size(), "; they must be equal");
    for (size_t i = 0; i < q.size(); ++i) {
        bool rising = q[i] >= (i ? q[i - 1] : 0) && kv[i] >= (i && !s.paged ? kv[i - 1] : 0);
        require(rising, "actualSeqLengthsOptional[", i, "] is ", q[i], " and actualSeqLengthsKvOptional[", i, "] ",
                kv[i], "; they must not be negative", s.paged ? "" : " or fall");
    }
}

int64_t queryLength(const Prompt &s, size_t i) {
    const auto &ends = s.p.actualSeqLengths->values;
    return minus(ends[i], i ? ends[i - 1] : 0);
}

int64_t keyLength(const Prompt &s, size_t i) {
    const auto &ends = s.p.actualSeqLengthsKv->values;
    return minus(ends[i], i && !s.paged ? ends[i - 1] : 0);
}

void checkPagedLengths(const Prompt &s) {
    const Params &p = s.p;
    require(p.actualSeqLengthsKv->count == p.actualSeqLengths->count, "actualSeqLengthsKvOptional has ",
            p.actualSeqLengthsKv->count, " entries; expected ", p.actualSeqLengths->count);
}

void checkTableRows(const Prompt &s) {
    const Shape &table = s.p.blockTable->shape;
    require(table[0] == s.p.actualSeqLengths->count, "blockTableOptional has shape ", table, "; it needs ",
            s.p.actualSeqLengths->count, " rows, one for each sequence", emptyFirst(s.p.actualSeqLengths));
}

}  // namespace

void checkPromptTokens(Prompt &s) {
    checkLengthsPresent(s);
    checkTotals(s);
    checkHeads(s);
    checkHeadDims(s);
    checkLengthOrder(s);
    s.h = static_cast<uint64_t>(times(s.p.numHeads, s.p.query->shape[2]));
}

void checkPromptTokenPages(Prompt &s) {
    const Params &p = s.p;
    int32_t sparse = low32(p.sparseMode), block = low32(p.blockSize);
    require(oneOf(sparse, {0, 3, 4}) && !(sparse == 0 && p.attenMask), "sparseMode is ", sparse,
            "; with blockTableOptional in layout ", s.layout, " allowed: 0 without a mask, 3, 4");
    require(block % 128 == 0 && block >= 128 && block <= 1024, "blockSize is ", block,
            "; a multiple of 128 up to 1024 is allowed");
    const Shape &table = p.blockTable->shape, &k = p.key->front().shape, &v = s.value.shape;
    require(elements(table) != 0 && table.size() == 2 && p.blockTable->dtype == ACL_INT32, "blockTableOptional is ",
            p.blockTable->dtype, " ", table, "; allowed: INT32 of 2 axes, not empty");
    checkTopics(s, checkPagedLengths, checkTableRows);
    int64_t cacheBlock = k.size() == 3 ? k[1] : k.size() == 4 ? k[2] : axis(k, 3);
    int64_t most = 0, total = 0;
    for (int64_t length : p.actualSeqLengthsKv->values) {
        int64_t blocks = (static_cast<int64_t>(low32(length)) + block - 1) / block;
        most = std::max(most, blocks);
        total += blocks;
    }
    require(cacheBlock == block && total > 0, "the key cache has blocks of ", cacheBlock, " tokens; blockSize is ",
            block, ", and at least one block must be used");
    require(k.size() == v.size() && k[0] == v[0] && k[1] == v[1], "the key cache has shape ", k,
            " and the value cache ", v, "; they must agree");
    auto n = p.numHeads, d = static_cast<int64_t>(s.h) / n;
    bool fits = k.size() == 3 ? times(k[2], s.ratio) == static_cast<int64_t>(s.h) && k[2] <= 65535
                : k.size() == 4
                    ? k[2] == v[2] && times(k[1], s.ratio) == n && k[3] == d
                    : k[3] == v[3] && k[4] == v[4] && times(k[1], s.ratio) == n && k[4] != 0 && times(k[2], 16) == d;
    require(fits, "the key cache has shape ", k, "; N or D do not fit query, ", p.query->shape);
    require(table[1] >= most, "blockTableOptional has shape ", table, "; it needs ", most,
            " columns or more, for the longest of actualSeqLengthsKvOptional");
    s.longestKv = static_cast<uint32_t>(most * block);
}

void checkPromptTokenMask(const Prompt &s) {
    const Params &p = s.p;
    int32_t sparse = p.attenMask ? low32(p.sparseMode) : 0;
    require(oneOf(sparse, {0, 3, 4}) && !(sparse == 0 && p.attenMask), "sparseMode is ", sparse, "; in layout ",
            s.layout, " allowed: 0 without a mask, 3, 4");
    int64_t v = headDimOf(s, s.value.shape, true);
    require(sparse != 4 || v == 128 || v == 64, "sparseMode is 4; D of value is ", v, " and must be 64 or 128");
    constexpr int64_t most = 214748647;
    int64_t pre = std::min(p.preTokens, most), next = std::min(p.nextTokens, most);
    for (size_t i = 0; i < p.actualSeqLengths->values.size(); ++i) {
        int64_t q = queryLength(s, i), kv = keyLength(s, i);
        require(sparse != 3 || q <= kv, "batch ", i, " has ", q, " query tokens and ", kv,
                " key tokens; with sparseMode 3 the key must be at least as long");
        if (sparse != 4 || q == 0 || kv == 0) continue;
        require(plus(pre, q) >= 0 && plus(next, kv) >= 0, "preTokens is ", pre, " and nextTokens ", next, "; batch ", i,
                " has ", q, " query tokens and ", kv, " key tokens, all outside the band");
    }
}

}  // namespace sim::fia
