// Shared path: the shapes of query, key, value and attentionOut against one another and against the heads.
#include <utility>
#include <vector>

#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

void checkLimits(const Scene &s) {
    require(s.b > 0 && s.b <= 65536, "B is ", s.b, "; allowed: 1 to 65536");
    require(s.d <= 512 && s.dv <= 512, "D of query is ", s.d, " and D of value ", s.dv, "; allowed: up to 512");
    require(!s.dDiffers || (s.d <= 128 && s.dv <= 128), "D of query is ", s.d, " and D of value ", s.dv,
            "; unequal ones must be 192 and 128, or both at most 128");
    if (s.mla == Mla::Split512) {
        require(s.s1 >= 1, "S of query is ", s.s1, "; with rope and D 512 it must be at least 1");
        require(powerOfTwoTo128(s.g), "numHeads / numKeyValueHeads is ", s.g,
                "; with rope and D 512 allowed: 1, 2, 4, 8, 16, 32, 64, 128");
    }
}

// Pairs (axis of query, axis of attentionOut) that CANN compares. Axes that a transposed layout leaves out, B
// among them, are not compared by the library.
std::vector<std::pair<size_t, size_t>> comparedAxes(const Scene &s) {
    if (oneOf(s.layout, {"BNSD_BSND", "BSND_BNSD"})) return {{1, 2}, {2, 1}};
    if (s.layout == "BSND_NBSD") return {{1, 2}, {2, 0}};
    if (s.layout == "BNSD_NBSD") return {{1, 0}, {2, 2}};
    if (oneOf(s.layout, {"NTD_TND", "TND_NTD"})) return {{0, 1}, {1, 0}};
    std::vector<std::pair<size_t, size_t>> all;
    for (size_t i = 0; i < s.p.query->shape.size(); ++i) all.emplace_back(i, i);
    return all;
}

void checkOutput(const Scene &s) {
    const Shape &query = s.p.query->shape, &out = s.p.attentionOut->shape;
    bool lastFree = s.mla == Mla::Combined128 || s.dDiffers;
    if (oneOf(s.layout, {"BSH_BNSD", "BSH_NBSD"})) {
        size_t headsAxis = s.layout == "BSH_BNSD" ? 1 : 0;
        bool equal = out.size() == 4 && times(out[headsAxis], out[3]) == query[2];
        require(lastFree || equal, "attentionOut has shape ", out, " for query ", query, "; layout ", s.layout,
                " wants N * D of the output equal to H of query");
        return;
    }
    require(query.size() == out.size(), "attentionOut has shape ", out, " for query ", query,
            "; the number of axes must be equal in layout ", s.layout);
    for (auto [from, to] : comparedAxes(s)) {
        if (lastFree && from + 1 == query.size()) continue;
        require(query[from] == out[to], "attentionOut has shape ", out, " for query ", query, "; axis ", to,
                " must be ", query[from], " in layout ", s.layout);
    }
}

void checkValueAgainstKey(const Scene &s) {
    const Shape &key = s.p.key->front().shape, &value = s.p.value->front().shape;
    require(s.kvDtype == s.valueDesc->dtype, "key has dtype ", s.kvDtype, " and value ", s.valueDesc->dtype,
            "; they must be equal");
    require(key.size() == value.size(), "key has shape ", key, " and value ", value,
            "; the number of axes must be equal");
    bool lastFree = s.mla == Mla::Combined128 || s.dDiffers;
    for (size_t i = 0; i + (lastFree ? 1 : 0) < key.size(); ++i) {
        require(key[i] == value[i], "key has shape ", key, " and value ", value, "; axis ", i, " must be equal");
    }
}

void checkValueDimOfOutput(const Scene &s) {
    const Shape &out = s.p.attentionOut->shape;
    int64_t outDim = s.outLayout == Layout::BSH ? out.back() / s.n1 : out.back();
    require(s.dv == outDim, "D of attentionOut is ", outDim, "; it must be D of value, ", s.dv);
}

void checkQueryHeads(const Scene &s) {
    const Shape &query = s.p.query->shape;
    int64_t heads = s.n1;
    if (s.qLayout == Layout::BNSD || s.qLayout == Layout::TND) heads = query[1];
    if (s.qLayout == Layout::BSND) heads = query[2];
    if (s.qLayout == Layout::NTD) heads = query[0];
    require(heads == s.n1, "query has shape ", query, " in layout ", s.layout, "; its axis N must be numHeads, ", s.n1);
}

void checkKeyEntry(const Scene &s, const Shape &key) {
    int64_t heads = s.n2;
    if (s.kvLayout == Layout::BNSD || s.kvLayout == Layout::TND) heads = axis(key, 1);
    if (s.kvLayout == Layout::BSND) heads = axis(key, 2);
    if (s.kvLayout == Layout::NTD) heads = axis(key, 0);
    require(heads == s.n2, "key has shape ", key, " in layout ", s.layout, "; its axis N must be numKeyValueHeads, ",
            s.n2);
    bool flat = s.kvLayout == Layout::BSH;
    require(!flat || axis(key, 2) % s.n2 == 0, "key has H ", axis(key, 2), "; it must be a multiple of ", s.n2);
    int64_t d = flat ? axis(key, 2) / s.n2 : key.back();
    require(d == s.d, "key has shape ", key, "; its D must be that of query, ", s.d);
}

}  // namespace

void checkShapes(const Scene &s) {
    const Shape &key = s.p.key->front().shape;
    checkLimits(s);
    checkOutput(s);
    checkQueryHeads(s);
    require(!(s.p.ascend950 && s.storage == Storage::Paged && s.dDiffers), "D of query is ", s.d, " and D of value ",
            s.dv, "; with blockTableOptional they must be equal, or 192 and 128");
    if (s.storage == Storage::Paged) return;
    for (const Tensor &entry : *s.p.key) checkKeyEntry(s, entry.shape);
    if (s.storage == Storage::List) return;
    checkValueAgainstKey(s);
    checkValueDimOfOutput(s);
    require(s.tokensFirst(s.qLayout) || key[0] == s.b, "key has shape ", key, "; its B must be that of query, ", s.b);
}

}  // namespace sim::fia
