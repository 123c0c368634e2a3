#include "ops/fused_infer_attention_operands.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "numeric/convert.hpp"

namespace sim::fia {

namespace {

constexpr int32_t deviceFault = 507015;

[[noreturn]] void fault(const std::string &text) { throw KernelFault(deviceFault, text); }

// Elements from the first to the last. Ascend950 hands over some operands as they lie: then the last axis must be
// dense.
__int128 extentOf(const char *name, const Tensor &t) {
    if (t.strides.empty()) return elements(t.shape);
    __int128 extent = 1;
    for (size_t i = 0; i < t.shape.size(); ++i) {
        bool last = i + 1 == t.shape.size();
        if (t.strides[i] < 0 || (last && t.shape[i] > 1 && t.strides[i] != 1)) {
            fault(std::string(name) + " has strides that the kernel cannot read");
        }
        extent += static_cast<__int128>(t.shape[i] - 1) * t.strides[i];
    }
    return extent;
}

// The last element that the axes reach lies inside the tensor.
void requireCover(const char *name, const Tensor &t, int64_t batches, int64_t heads, int64_t tokens, const Steps &steps,
                  int64_t width) {
    if (batches <= 0 || heads <= 0 || tokens <= 0) return;
    auto last = [](int64_t count, int64_t step) { return static_cast<__int128>(count - 1) * step; };
    __int128 reach = last(batches, steps.batch) + last(heads, steps.head) + last(tokens, steps.token) + width;
    if (reach > extentOf(name, t)) fault(std::string(name) + " is smaller than the other operands demand");
}

ScaleOperand operand(const Launch &launch, const char *name, const MaybeTensor &tensor) {
    if (!tensor) return {};
    return {&*tensor, launch.in(name)};
}

float scalar(const Launch &launch, const char *name, const MaybeTensor &tensor, float otherwise) {
    const void *data = tensor ? launch.in(name) : nullptr;
    if (!data) return otherwise;
    if (tensor->dtype != ACL_UINT64) return decodeElement(tensor->dtype, data, 0);
    return numeric::floatFromBits(static_cast<uint32_t>(*static_cast<const uint64_t *>(data)));
}

// The unit that multiplies INT32 products keeps 19 bits of its factor.
float inNineteenBits(float value) { return numeric::floatFromBits(numeric::floatBits(value) & 0xFFFFE000U); }

int64_t paddingOf(const Launch &launch, const char *name, const MaybeTensor &tensor) {
    if (!tensor || elements(tensor->shape) == 0) return -1;
    if (tensor->dtype != ACL_INT64)
        fault(std::string(name) + " has dtype " + dtypeName(tensor->dtype) + "; the kernel reads INT64");
    return std::max<int64_t>(*launch.in<int64_t>(name), 0);
}

// ---- query ----

void bindQuery(const Plan &plan, const Launch &launch, Operands &o) {
    const Params &p = plan.p;
    int64_t batches = plan.tokens ? 1 : plan.batches;
    o.query = launch.in("query");
    requireCover("query", *p.query, batches, plan.heads, plan.rows, plan.query, plan.d);
    if (plan.dRope > 0) {
        o.queryRope = launch.in("queryRope");
        requireCover("queryRope", *p.queryRope, batches, plan.heads, plan.rows, plan.queryRope, plan.dRope);
    }
    requireCover("attentionOut", *p.attentionOut, batches, plan.heads, plan.rows, plan.out, plan.dv);
    bindOutputs(plan, launch, o);
    if (o.lse) requireCover("softmaxLse", *p.softmaxLse, batches, plan.heads, plan.rows, plan.lse, 1);
}

// ---- key and value ----

std::unique_ptr<Rows> listed(const Plan &plan, const Launch &launch, const char *name, const std::vector<Tensor> &list,
                             const Steps &steps, int64_t width) {
    std::vector<const void *> tensors = launch.inList(name);
    std::vector<StridedRows> entries;
    for (size_t i = 0; i < static_cast<size_t>(plan.batches); ++i) {
        Steps own = steps;
        if (own.token == width) own.head = plan.listLengths[i] * width;  // BNSD: heads are S of this tensor apart
        own.batch = 0;
        requireCover(name, list[i], 1, plan.kvHeads, plan.listLengths[i], own, width);
        entries.emplace_back(tensors[i], list[i].dtype, own, width);
    }
    return std::make_unique<ListedRows>(std::move(entries));
}

std::unique_ptr<Rows> strided(const Plan &plan, const Launch &launch, const char *name, const std::vector<Tensor> &list,
                              const Steps &steps, int64_t width) {
    if (plan.list) return listed(plan, launch, name, list, steps, width);
    requireCover(name, list.front(), plan.tokens ? 1 : plan.batches, plan.kvHeads, plan.columns, steps, width);
    return std::make_unique<StridedRows>(launch.inList(name)[0], list.front().dtype, steps, width);
}

std::unique_ptr<Rows> paged(const Plan &plan, const void *data, const char *name, const Tensor &cache,
                            const PageTable &pages, int64_t width) {
    const Shape &shape = cache.shape;
    int64_t n = plan.kvHeads, size = pages.blockSize();
    bool fits = shape.size() == 3   ? shape[1] == size && shape[2] >= n * width
                : shape.size() == 4 ? shape[1] == n && shape[2] == size && shape[3] >= width
                : shape.size() == 5 ? shape[1] == n && shape[3] == size && shape[2] * shape[4] >= width && shape[4] > 0
                                    : false;
    if (!fits) fault(std::string(name) + " does not have the axes that blockSize, N and D demand");
    extentOf(name, cache);  // faults for strides that cannot be read
    return std::make_unique<PagedRows>(data, cache, pages, width);
}

void bindPages(const Plan &plan, const Launch &launch, Operands &o) {
    const Shape &table = plan.p.blockTable->shape;
    int64_t blocks = plan.p.key->front().shape[0];
    for (const Tensor *t : {&plan.p.value->front(), plan.p.keyRope ? &*plan.p.keyRope : nullptr}) {
        if (t) blocks = std::min(blocks, axis(t->shape, 0));
    }
    o.pages = PageTable(launch.in<int32_t>("blockTable"), table[0], table[1], low32(plan.p.blockSize), blocks);
}

void bindCaches(const Plan &plan, const Launch &launch, Operands &o) {
    const Params &p = plan.p;
    const void *key = launch.inList("key")[0], *value = launch.inList("value")[0];
    o.keys.own = paged(plan, key, "key", p.key->front(), o.pages, plan.d);
    o.values.own = paged(plan, value, "value", p.value->front(), o.pages, plan.dv);
    if (plan.dRope > 0) o.keys.rope = paged(plan, launch.in("keyRope"), "keyRope", *p.keyRope, o.pages, plan.dRope);
    o.valuesAreKeys = key == value && p.key->front().shape == p.value->front().shape && plan.dv <= plan.d &&
                      p.key->front().strides == p.value->front().strides;
}

void bindTensors(const Plan &plan, const Launch &launch, Operands &o) {
    const Params &p = plan.p;
    o.keys.own = strided(plan, launch, "key", *p.key, plan.key, plan.d);
    o.values.own = strided(plan, launch, "value", *p.value, plan.value, plan.dv);
    if (plan.dRope > 0) {
        requireCover("keyRope", *p.keyRope, plan.tokens ? 1 : plan.batches, plan.kvHeads, plan.columns, plan.keyRope,
                     plan.dRope);
        o.keys.rope = std::make_unique<StridedRows>(launch.in("keyRope"), p.keyRope->dtype, plan.keyRope, plan.dRope);
    }
}

void bindPrefix(const Plan &plan, const Launch &launch, Operands &o) {
    if (plan.prefixLength == 0) return;
    Steps steps = plan.prefix;
    steps.batch = 0;
    auto one = [&](const char *name, const Tensor &t, int64_t width) {
        requireCover(name, t, 1, plan.kvHeads, plan.prefixLength, steps, width);
        return std::make_unique<StridedRows>(launch.in(name), t.dtype, steps, width);
    };
    o.keys.prefix = one("keySharedPrefix", *plan.p.keySharedPrefix, plan.d);
    o.values.prefix = one("valueSharedPrefix", *plan.p.valueSharedPrefix, plan.dv);
}

// ---- quantisation ----

void bindAntiquant(const Plan &plan, const Launch &launch, Operands &o) {
    const Params &p = plan.p;
    ScaleOperand keyScale = operand(launch, "keyAntiquantScale", p.keyAntiquantScale),
                 valueScale = operand(launch, "valueAntiquantScale", p.valueAntiquantScale);
    bool longFp16 = plan.route == Route::Prompt && !plan.paged && p.query->dtype == ACL_FLOAT16 && plan.rows > 16;
    if (keyScale.data && valueScale.data && !(longFp16 && p.antiquantScale)) {
        o.keys.scales = Scales(plan, p.keyAntiquantMode, Half::Whole, keyScale,
                               operand(launch, "keyAntiquantOffset", p.keyAntiquantOffset), o.pages, plan.d);
        o.values.scales = Scales(plan, p.valueAntiquantMode, Half::Whole, valueScale,
                                 operand(launch, "valueAntiquantOffset", p.valueAntiquantOffset), o.pages, plan.dv);
        return;
    }
    ScaleOperand both = operand(launch, "antiquantScale", p.antiquantScale),
                 offsets = operand(launch, "antiquantOffset", p.antiquantOffset);
    int64_t mode = p.antiquantMode == 1 ? 1 : 0;
    o.keys.scales = Scales(plan, mode, Half::Key, both, offsets, o.pages, plan.d);
    o.values.scales = Scales(plan, mode, Half::Value, both, offsets, o.pages, plan.dv);
}

void bindMicroscales(const Plan &plan, const Launch &launch, Operands &o) {
    const Params &p = plan.p;
    std::vector<int64_t> firstTokens, firstRows;
    int64_t row = 0;
    for (const Batch &batch : o.batches) {
        firstTokens.push_back(batch.keyStart);
        firstRows.push_back(row);
        row += (batch.columns + 63) / 64;
    }
    o.keys.scales = Scales::microKeys(plan, operand(launch, "keyAntiquantScale", p.keyAntiquantScale), o.pages, plan.d,
                                      firstTokens);
    o.values.scales = Scales::microValues(plan, operand(launch, "valueAntiquantScale", p.valueAntiquantScale), o.pages,
                                          plan.dv, firstRows);
    o.queryGroups = launch.in("dequantScaleQuery");
    o.groupedByKeyHead = p.dequantScaleQuery->shape.size() == 5;
    o.numeratorScale = scalar(launch, "quantScale1", p.quantScale1, 1.0F);
}

// The distances of a query without its last axis.
Steps withoutLastAxis(const Plan &plan) {
    if (plan.layout.rfind("BSH", 0) == 0) return {plan.rows * plan.heads, 1, plan.heads};
    auto divided = [&](int64_t step) { return plan.d > 0 ? step / plan.d : 0; };
    return {divided(plan.query.batch), divided(plan.query.head), divided(plan.query.token)};
}

void bindFullQuant(const Plan &plan, const Launch &launch, Operands &o) {
    const Params &p = plan.p;
    if (plan.numerator == Numerator::Int8) {
        o.scoreScale = inNineteenBits(scalar(launch, "deqScale1", p.deqScale1, 1.0F));
        o.numeratorScale = scalar(launch, "quantScale1", p.quantScale1, 1.0F);
        o.valueScale = scalar(launch, "deqScale2", p.deqScale2, 1.0F);
        if (p.deqScale2 && p.deqScale2->dtype == ACL_UINT64) o.valueScale = inNineteenBits(o.valueScale);
        return;
    }
    if (plan.microscaled) return bindMicroscales(plan, launch, o);
    o.queryScale = launch.in<float>("dequantScaleQuery");
    o.queryScaleSteps = withoutLastAxis(plan);
    requireCover("dequantScaleQuery", *p.dequantScaleQuery, plan.tokens ? 1 : plan.batches, plan.heads, plan.rows,
                 o.queryScaleSteps, 1);
    if (plan.numerator == Numerator::BlockMax) {
        o.scoreScale = scalar(launch, "keyAntiquantScale", p.keyAntiquantScale, 1.0F);
        o.valueScale = scalar(launch, "valueAntiquantScale", p.valueAntiquantScale, 1.0F);
        return;
    }
    o.numeratorScale = scalar(launch, "quantScale1", p.quantScale1, 1.0F);
    o.keys.scales =
        Scales(plan, 5, Half::Whole, operand(launch, "keyAntiquantScale", p.keyAntiquantScale), {}, o.pages, plan.d);
    o.values.scales = Scales(plan, 2, Half::Whole, operand(launch, "valueAntiquantScale", p.valueAntiquantScale), {},
                             o.pages, plan.dv);
}

void bindScales(const Plan &plan, const Launch &launch, Operands &o) {
    aclDataType q = plan.p.query->dtype, k = plan.p.key->front().dtype;
    if (q != k) {
        bindAntiquant(plan, launch, o);
        // INT8 is multiplied as it is, scales apart; the narrower formats become FP16 first when the query is FP16.
        bool inFp16 = q == ACL_FLOAT16 && k != ACL_INT8;
        o.keys.scales.roundEachStep(inFp16);
        o.values.scales.roundEachStep(inFp16);
    } else if (!isHalf(q)) {
        bindFullQuant(plan, launch, o);
    }
}

// ---- mask, pse, sink, post quantisation ----

void bindTreeMask(const Plan &plan, Operands &o) {
    int64_t start = 0;
    for (const Batch &batch : o.batches) {
        o.treeStarts.push_back(start);
        int64_t rows = plan.tokens ? batch.rows : plan.rows;
        start += rows * rows;
    }
    if (start > elements(plan.p.attenMask->shape)) fault("attenMask is smaller than the tree masks of all batches");
}

void bindMask(const Plan &plan, const Launch &launch, Operands &o) {
    if (!plan.treeMask && !plan.userMask) return;
    o.mask = launch.in<uint8_t>("attenMask");
    if (plan.treeMask) return bindTreeMask(plan, o);
    const Shape &mask = plan.p.attenMask->shape;
    size_t rank = mask.size();
    bool rowsAreBatches = rank == 2 && plan.rows == 1 && !plan.tokens && mask[0] == plan.batches;
    o.maskColumns = rank > 0 ? mask[rank - 1] : 0;
    o.maskRows = rank < 2 ? 1 : rowsAreBatches ? 1 : mask[rank - 2];
    o.maskRow = o.maskColumns;
    int64_t first = rank > 2 ? mask[0] : rowsAreBatches ? mask[0] : 1;
    o.maskBatch = first > 1 ? elements(mask) / first : 0;
    if (first > 1 && first < plan.batches) fault("attenMask has fewer batches than query");
}

void bindPse(const Plan &plan, const Launch &launch, Operands &o) {
    if (!plan.p.pseShift || plan.route == Route::SplitFuse || elements(plan.p.pseShift->shape) == 0) return;
    const Shape &pse = plan.p.pseShift->shape;
    if (pse.size() != 4 || pse[1] != plan.heads || (pse[0] != 1 && pse[0] < plan.batches)) {
        fault("pseShift is not [B or 1, N, S, S]");
    }
    o.pse = launch.in("pseShift");
    o.pseRows = pse[2];
    o.pseColumns = pse[3];
    o.pseRow = pse[2] > 1 ? pse[3] : 0;
    o.pseHead = pse[2] * pse[3];
    o.pseBatch = pse[0] > 1 ? pse[1] * o.pseHead : 0;
}

void bindSink(const Plan &plan, const Launch &launch, Operands &o) {
    const MaybeTensor &sink = plan.p.learnableSink;
    if (!sink || elements(sink->shape) == 0) return;
    if (elements(sink->shape) < plan.heads) fault("learnableSink has fewer elements than query has heads");
    o.sink.resize(static_cast<size_t>(plan.heads));
    decodeElements(sink->dtype, launch.in("learnableSink"), 0, plan.heads, o.sink.data());
}

void bindPostQuant(const Plan &plan, const Launch &launch, Operands &o) {
    const Params &p = plan.p;
    if (isHalf(p.attentionOut->dtype)) return;
    if (!p.quantScale2 || elements(p.quantScale2->shape) == 0)
        fault("quantScale2 is null or empty; the output is quantised");
    for (const MaybeTensor *t : {&p.quantScale2, &p.quantOffset2}) {
        if (!*t) continue;
        int64_t count = elements((*t)->shape);
        if (count != 1 && count < plan.heads * plan.dv)
            fault("quantScale2 or quantOffset2 has neither 1 nor N * D elements");
    }
    o.postScale = launch.in("quantScale2");
    if (p.quantOffset2) o.postOffset = launch.in("quantOffset2");
}

}  // namespace

void bindOutputs(const Plan &plan, const Launch &launch, Operands &o) {
    o.out = launch.out("attentionOut");
    if (plan.p.softmaxLseFlag) o.lse = launch.out<float>("softmaxLse");
}

Operands bindOperands(const Plan &plan, const Launch &launch) {
    if (!plan.impossible.empty()) fault(plan.impossible);
    const Params &p = plan.p;
    Operands o;
    bool padded = plan.route != Route::SplitFuse && !plan.tokens;
    bool queryPadded = padded && p.actualSeqLengths && !plan.ignoresQueryLengths;
    bool kvPadded = padded && p.actualSeqLengthsKv && !plan.paged;
    int64_t queryPadding = queryPadded ? paddingOf(launch, "queryPaddingSize", p.queryPaddingSize) : -1;
    int64_t kvPadding = kvPadded ? paddingOf(launch, "kvPaddingSize", p.kvPaddingSize) : -1;
    o.batches = makeBatches(plan, queryPadding, kvPadding);
    bindQuery(plan, launch, o);
    o.keys.width = plan.d;
    o.keys.ropeWidth = plan.dRope;
    o.values.width = plan.dv;
    if (plan.paged) bindPages(plan, launch, o);
    if (plan.paged) {
        bindCaches(plan, launch, o);
    } else {
        bindTensors(plan, launch, o);
    }
    bindScales(plan, launch, o);
    bindPrefix(plan, launch, o);
    bindMask(plan, launch, o);
    bindPse(plan, launch, o);
    bindSink(plan, launch, o);
    bindPostQuant(plan, launch, o);
    if (launch.suffers(NumericFault::MaskPast512)) o.unmaskedFrom = 512;
    o.uniform = launch.suffers(NumericFault::UniformWithoutMask) && !p.attenMask;
    return o;
}

}  // namespace sim::fia
