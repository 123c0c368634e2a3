#include "ops/fused_infer_attention_plan.hpp"

#include <algorithm>

#include "core/tensor.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

constexpr int64_t unlimited = 2147483647;

// Shapes of accepted calls may be absurd as long as nobody launches them; sizes then saturate.
int64_t saturatedProduct(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

struct Axes {
    int64_t batches = 1, heads = 0, tokens = 0, d = 0;
    Steps steps;
};

// Axes of a dense operand (or, with strides, of one that is read where it lies). `heads` is for layouts that hide N.
Axes readAxes(const Tensor &t, Layout layout, int64_t heads) {
    Shape strides = t.strides;
    if (strides.empty()) {
        strides.assign(t.shape.size(), 1);
        for (size_t i = t.shape.size(); i-- > 1;) strides[i - 1] = saturatedProduct(strides[i], t.shape[i]);
    }
    auto size = [&](size_t i) { return i < t.shape.size() ? t.shape[i] : 0; };
    auto step = [&](size_t i) { return i < strides.size() ? strides[i] : 0; };
    switch (layout) {
        case Layout::BSH: {
            int64_t d = heads > 0 ? size(2) / heads : 0;
            return {size(0), heads, size(1), d, {step(0), d, step(1)}};
        }
        case Layout::BSND:
            return {size(0), size(2), size(1), size(3), {step(0), step(2), step(1)}};
        case Layout::BNSD:
            return {size(0), size(1), size(2), size(3), {step(0), step(1), step(2)}};
        case Layout::NBSD:
            return {size(1), size(0), size(2), size(3), {step(1), step(0), step(2)}};
        case Layout::TND:
            return {1, size(1), size(0), size(2), {0, step(1), step(0)}};
        case Layout::NTD:
        case Layout::NSD:
            return {1, size(0), size(1), size(2), {0, step(0), step(1)}};
        default:
            return {};
    }
}

LayoutPair layoutsOf(const std::string &layout) {
    if (layout == "NSD") return {Layout::NSD, Layout::NSD};
    return parseLayout(layout).value_or(LayoutPair{Layout::BSH, Layout::BSH});
}

bool isTokens(Layout layout) { return layout == Layout::TND || layout == Layout::NTD; }

void require(Plan &plan, bool holds, const char *reason) {
    if (!holds && plan.impossible.empty()) plan.impossible = reason;
}

void readQuery(Plan &plan, const LayoutPair &layouts) {
    const Params &p = plan.p;
    Axes q = readAxes(*p.query, layouts.query, low32(p.numHeads));
    plan.tokens = isTokens(layouts.query);
    plan.heads = q.heads;
    plan.rows = q.tokens;
    plan.d = q.d;
    plan.query = q.steps;
    plan.batches = q.batches;
    if (plan.tokens) plan.batches = p.actualSeqLengths ? p.actualSeqLengths->count : 0;
    if (p.queryRope && p.keyRope) {
        Axes rope = readAxes(*p.queryRope, layouts.query, plan.heads);
        plan.dRope = rope.d;
        plan.queryRope = rope.steps;
        require(plan, rope.batches == q.batches && rope.heads == q.heads && rope.tokens == q.tokens,
                "queryRope does not have the axes of query");
    }
    Axes out = readAxes(*p.attentionOut, layouts.out, plan.heads);
    plan.out = out.steps;
    plan.dv = out.d;
    require(plan, out.batches == q.batches && out.heads == q.heads && out.tokens == q.tokens,
            "attentionOut does not have the axes of query");
    plan.lse =
        isTokens(layouts.out) ? Steps{0, 1, plan.heads} : Steps{saturatedProduct(plan.heads, plan.rows), plan.rows, 1};
}

void readPages(Plan &plan) {
    const Params &p = plan.p;
    const Shape &key = p.key->front().shape;
    int32_t attribute = low32(p.numKeyValueHeads);
    plan.kvHeads = key.size() == 3 ? (attribute == 0 ? plan.heads : attribute) : axis(key, 1);
    require(plan, p.blockTable->shape.size() == 2 && p.blockTable->dtype == ACL_INT32,
            "blockTable is not an INT32 matrix");
    plan.columns = plan.impossible.empty() ? saturatedProduct(p.blockTable->shape[1], low32(p.blockSize)) : 0;
    require(plan, key.size() >= 3 && key.size() <= 5, "the key cache does not have 3, 4 or 5 axes");
}

void readKeys(Plan &plan, const LayoutPair &layouts) {
    const Params &p = plan.p;
    int32_t attribute = low32(p.numKeyValueHeads);
    int64_t heads = attribute == 0 ? plan.heads : attribute;
    Axes key = readAxes(p.key->front(), layouts.query, heads), value = readAxes(p.value->front(), layouts.query, heads);
    plan.kvHeads = key.heads;
    plan.key = key.steps;
    plan.value = value.steps;
    plan.columns = key.tokens;
    plan.list = p.key->size() > 1 && !plan.tokens;
    require(plan, plan.list || plan.tokens || key.batches >= plan.batches, "key has fewer batches than query");
    require(plan, plan.list || (value.heads == key.heads && value.tokens == key.tokens),
            "value does not have the axes of key");
    require(plan, key.d == plan.d && value.d >= plan.dv, "D of key or value does not fit query and attentionOut");
    if (p.keyRope && plan.dRope > 0) plan.keyRope = readAxes(*p.keyRope, layouts.query, heads).steps;
    if (!plan.list) return;
    require(plan, static_cast<int64_t>(std::min(p.key->size(), p.value->size())) >= plan.batches,
            "the lists have fewer tensors than query has batches");
    for (size_t i = 0; i < std::min(p.key->size(), p.value->size()); ++i) {
        Axes k = readAxes((*p.key)[i], layouts.query, heads), v = readAxes((*p.value)[i], layouts.query, heads);
        bool alike = k.heads == key.heads && k.d == key.d && v.heads == key.heads && v.d == value.d;
        require(plan, alike, "the tensors of the key and value lists differ in N or D");
        plan.listLengths.push_back(std::min(k.tokens, v.tokens));
        plan.columns = std::max(plan.columns, plan.listLengths.back());
    }
}

void readPrefix(Plan &plan, const LayoutPair &layouts) {
    const Params &p = plan.p;
    if (!p.keySharedPrefix || !p.valueSharedPrefix || plan.route == Route::SplitFuse) return;
    Axes prefix = readAxes(*p.keySharedPrefix, layouts.query, plan.kvHeads);
    plan.prefix = prefix.steps;
    plan.prefixLength = prefix.tokens;
    if (p.actualSharedPrefixLen && p.actualSharedPrefixLen->hasValues()) {
        plan.prefixLength = std::clamp<int64_t>(p.actualSharedPrefixLen->values[0], 0, prefix.tokens);
    }
    if (elements(p.keySharedPrefix->shape) == 0) plan.prefixLength = 0;
    Axes value = readAxes(*p.valueSharedPrefix, layouts.query, plan.kvHeads);
    require(plan,
            prefix.heads == plan.kvHeads && prefix.d == plan.d && value.tokens == prefix.tokens && value.d == plan.dv,
            "the shared prefix does not have N and D of key");
}

// One query token in a plain layout: A2 and A3 look at no query lengths, modes or tokens then.
void readMode(Plan &plan) {
    const Params &p = plan.p;
    bool plainLayout = oneOf(plan.layout, {"BSH", "BSND", "BNSD"});
    bool plainDecode = plainLayout && plan.rows == 1 && plan.d == plan.dv && !p.queryRope && !p.keyRope;
    bool older = plan.route == Route::Decode && !plan.tokens;
    plan.ignoresQueryLengths = !p.ascend950 && (plainDecode || older);
    plan.sparseMode = low32(p.sparseMode);
    bool compressed = p.attenMask && p.attenMask->shape.size() >= 2 && p.attenMask->shape.back() == 2048 &&
                      p.attenMask->shape[p.attenMask->shape.size() - 2] == 2048;
    if (plan.ignoresQueryLengths && plan.rows == 1 && !(older && compressed && plan.sparseMode == 3))
        plan.sparseMode = 0;
    bool given = p.attenMask && elements(p.attenMask->shape) != 0 && plan.route != Route::SplitFuse;
    plan.treeMask = given && plan.sparseMode == 9;
    plan.userMask = given && (plan.sparseMode == 0 || plan.sparseMode == 1);
}

void readNumerator(Plan &plan) {
    const Params &p = plan.p;
    switch (p.query->dtype) {
        case ACL_FLOAT16:
            plan.numerator = Numerator::Float16;
            break;
        case ACL_BF16:
            plan.numerator = Numerator::BFloat16;
            break;
        case ACL_INT8:
            plan.numerator = p.queryRope ? Numerator::BlockMax : Numerator::Int8;
            break;
        default:
            plan.microscaled = p.queryQuantMode == 6;
            plan.numerator = p.queryQuantMode == 3 && p.keyAntiquantMode == 0 ? Numerator::BlockMax : Numerator::Fp8;
    }
}

void checkLengths(Plan &plan) {
    const Params &p = plan.p;
    for (const MaybeArray *array : {&p.actualSeqLengths, &p.actualSeqLengthsKv, &p.actualSharedPrefixLen}) {
        bool unknown = *array && (*array)->count > 0 && !(*array)->hasValues();
        require(plan, !unknown, "the lengths are not known: phase one was ...GetMaxWorkspaceSize");
    }
    if (!plan.tokens) return;
    require(plan, p.actualSeqLengths && p.actualSeqLengths->hasValues(), "actualSeqLengths is empty");
    require(plan, p.actualSeqLengthsKv && p.actualSeqLengthsKv->hasValues(), "actualSeqLengthsKv is empty");
}

// Token axes: the lengths are sums; those of a paged cache stand one by one.
int64_t endOf(const IntArray &lens, int64_t i) { return i < 0 ? 0 : lens.values[static_cast<size_t>(i)]; }

// One value serves all batches.
int64_t lengthOf(const MaybeArray &lens, int64_t i, int64_t otherwise) {
    if (!lens || !lens->hasValues()) return otherwise;
    const auto &v = lens->values;
    return v[v.size() == 1 ? 0 : std::min<size_t>(static_cast<size_t>(i), v.size() - 1)];
}

void setTokenRows(const Plan &plan, int64_t i, Batch &batch) {
    const IntArray &lens = *plan.p.actualSeqLengths;
    int64_t begin = std::clamp<int64_t>(endOf(lens, i - 1), 0, plan.rows);
    int64_t end = std::clamp<int64_t>(endOf(lens, i), begin, plan.rows);
    batch.queryStart = begin;
    batch.rows = end - begin;
}

void setTokenColumns(const Plan &plan, int64_t i, Batch &batch) {
    const IntArray &lens = *plan.p.actualSeqLengthsKv;
    if (i >= lens.count) return;
    int64_t begin = std::clamp<int64_t>(endOf(lens, i - 1), 0, plan.columns);
    int64_t end = std::clamp<int64_t>(endOf(lens, i), begin, plan.columns);
    batch.keyStart = begin;
    batch.columns = end - begin;
}

bool allEmpty(const std::vector<Tensor> &list) {
    return std::all_of(list.begin(), list.end(), [](const Tensor &t) { return elements(t.shape) == 0; });
}

}  // namespace

Plan makePlan(const Params &params, Route route) {
    Plan plan;
    plan.p = params;
    plan.route = route;
    plan.nothingToAttend = allEmpty(*params.key) || allEmpty(*params.value) || elements(params.query->shape) == 0;
    if (plan.nothingToAttend) return plan;
    plan.layout = params.inputLayout.value_or("");
    plan.paged = params.blockTable.has_value();
    LayoutPair layouts = layoutsOf(plan.layout);
    readQuery(plan, layouts);
    if (plan.paged) {
        readPages(plan);
    } else {
        readKeys(plan, layouts);
    }
    require(plan, plan.kvHeads > 0 && plan.heads % plan.kvHeads == 0, "numHeads is not a multiple of the key's heads");
    plan.group = plan.kvHeads > 0 ? std::max<int64_t>(plan.heads / plan.kvHeads, 1) : 1;
    readPrefix(plan, layouts);
    readMode(plan);
    readNumerator(plan);
    checkLengths(plan);
    return plan;
}

std::vector<Batch> makeBatches(const Plan &plan, int64_t queryPadding, int64_t kvPadding) {
    const Params &p = plan.p;
    std::vector<Batch> batches(static_cast<size_t>(plan.batches));
    for (int64_t i = 0; i < plan.batches; ++i) {
        Batch &batch = batches[static_cast<size_t>(i)];
        if (plan.tokens) {
            setTokenRows(plan, i, batch);
        } else {
            batch.rows = plan.rows;
            if (!plan.ignoresQueryLengths) batch.rows = lengthOf(p.actualSeqLengths, i, plan.rows);
            batch.rows = std::clamp<int64_t>(batch.rows, 0, plan.rows);
            if (queryPadding >= 0) batch.queryStart = plan.rows - queryPadding - batch.rows;
        }
        if (plan.tokens && !plan.paged) {
            setTokenColumns(plan, i, batch);
            continue;
        }
        int64_t all = plan.list ? plan.listLengths[static_cast<size_t>(i)] : plan.columns;
        batch.columns = std::clamp<int64_t>(lengthOf(p.actualSeqLengthsKv, i, all), 0, all);
        if (kvPadding >= 0) batch.keyStart = all - kvPadding - batch.columns;
        bool outside = batch.queryStart < 0 || batch.keyStart < 0;
        if (outside) batch = Batch{};
    }
    return batches;
}

Window windowOf(const Plan &plan, const Batch &batch) {
    const Params &p = plan.p;
    int64_t ahead = batch.columns + plan.prefixLength - batch.rows;
    int64_t pre = std::clamp(p.preTokens, -unlimited, unlimited),
            next = std::clamp(p.nextTokens, -unlimited, unlimited);
    bool given = p.attenMask && elements(p.attenMask->shape) != 0;
    bool padded = (p.queryPaddingSize || p.kvPaddingSize) && plan.route != Route::SplitFuse;
    bool antiquantDecode = p.ascend950 && p.query->dtype != p.key->front().dtype && plan.rows == 1;
    const Window everything{unlimited, unlimited};
    switch (plan.sparseMode) {
        case 0:
            return !given || padded || plan.ignoresQueryLengths || antiquantDecode ? everything : Window{pre, next};
        case 2:
            return {unlimited, 0};
        case 3:
            return {unlimited, ahead};
        case 4:
            return {pre - ahead, next + ahead};
        default:
            return everything;
    }
}

}  // namespace sim::fia
