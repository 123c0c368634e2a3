// Shared path: a quantised attentionOut, quantScale2 and quantOffset2.
#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

void checkDtypes(const Scene &s) {
    const Params &p = s.p;
    for (const MaybeTensor *operand : {&p.quantScale2, &p.quantOffset2}) {
        require(!*operand || oneOf((*operand)->dtype, {ACL_FLOAT, ACL_BF16}),
                operand == &p.quantScale2 ? "quantScale2Optional" : "quantOffset2Optional", " has dtype ",
                *operand ? (*operand)->dtype : ACL_FLOAT, "; allowed: FLOAT, BF16");
    }
    if (!s.postQuant) return;
    require(oneOf(s.outDtype, {ACL_INT8, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8}), "attentionOut has dtype ", s.outDtype,
            "; quantised it may be INT8, FLOAT8_E4M3FN, HIFLOAT8");
    require(p.quantScale2 && elements(p.quantScale2->shape) > 0,
            "quantScale2Optional is null or empty; attentionOut of dtype ", s.outDtype, " needs it");
    require(s.qDtype == ACL_BF16 || p.quantScale2->dtype == ACL_FLOAT, "quantScale2Optional has dtype ",
            p.quantScale2->dtype, "; BF16 goes with BF16 query only");
}

void checkShape(const Scene &s) {
    const Shape &scale = s.p.quantScale2->shape;
    int64_t perChannel = times(s.n1, s.dv), size = elements(scale);
    bool flat = oneOf(s.layout, {"BSH", "BSND", "BNSD", "BNSD_BSND"});
    bool fits = scale.size() == 1 ? size == 1 || (flat && size == perChannel)
                : flat            ? size == perChannel
                                  : scale == Shape{s.n1, s.dv};
    require(fits, "quantScale2Optional has shape ", scale, "; allowed: [1], or ",
            flat ? "as many elements as heads times D: " : "[heads, D]: ", s.n1, " and ", s.dv);
    if (!s.p.quantOffset2) return;
    const Tensor &offset = *s.p.quantOffset2;
    require(
        offset.dtype == s.p.quantScale2->dtype && offset.shape.size() == scale.size() && elements(offset.shape) == size,
        "quantOffset2Optional is ", offset.dtype, " ", offset.shape, " and quantScale2Optional ",
        s.p.quantScale2->dtype, " ", scale, "; dtype, number of axes and size must be equal");
}

int64_t lengthOf(const MaybeArray &array, int64_t batch, int64_t otherwise) {
    if (!array || !array->hasValues()) return otherwise;
    return array->count > 1 ? array->values[batch] : array->values[0];
}

// With an offset, a row that attends to nothing would not be zero in the quantised output.
void checkNoEmptyRows(const Scene &s) {
    if (!s.a2() || s.quant != Quant::None || s.s1 <= 1 || s.lengthsUnknown) return;
    if (s.outDtype != ACL_INT8 || !s.p.quantOffset2 || elements(s.p.quantOffset2->shape) == 0) return;
    for (int64_t i = 0; i < s.b; ++i) {
        int64_t kvShape = s.storage == Storage::List ? s.listSeqLens[i] : s.s2;
        int64_t q = lengthOf(s.qLens, i, s.s1), kv = plus(lengthOf(s.kvLens(), i, kvShape), s.prefixLen);
        int64_t ahead = minus(kv, q), pre = s.preTokens, next = s.nextTokens;
        if (s.sparseMode == 3) {
            pre = 2147483647;
            next = ahead;
        } else if (s.sparseMode == 4) {
            pre = minus(pre, ahead);
            next = plus(next, ahead);
        }
        require(plus(pre, ahead) >= 0 && next >= 0, "batch ", i, " has ", q, " query rows, ", kv,
                " key rows, preTokens ", s.preTokens, " and nextTokens ", s.nextTokens, " in sparseMode ", s.sparseMode,
                "; with quantOffset2Optional every row must attend to something");
    }
}

void checkAntiquantOutput(const Scene &s) {
    require(s.outDtype == s.kvDtype, "attentionOut has dtype ", s.outDtype, " and key ", s.kvDtype,
            "; with antiquantisation a quantised attentionOut must have the dtype of key");
}

}  // namespace

void checkPostQuant(const Scene &s) {
    checkDtypes(s);
    if (s.quant == Quant::Anti && oneOf(s.p.keyAntiquantMode, {1, 4}) &&
        s.p.keyAntiquantMode == s.p.valueAntiquantMode) {
        require(s.kvDtype != ACL_FLOAT8_E4M3FN || isHalf(s.outDtype), "attentionOut has dtype ", s.outDtype,
                "; FLOAT8_E4M3FN key with per-token scales allows FLOAT16 and BF16");
    }
    if (!s.postQuant) return;
    checkShape(s);
    if (s.quant == Quant::Anti) checkAntiquantOutput(s);
    require(s.quant != Quant::None || !s.prefix || s.outDtype == ACL_INT8, "attentionOut has dtype ", s.outDtype,
            "; with a shared prefix a quantised one must be INT8");
    checkNoEmptyRows(s);
}

}  // namespace sim::fia
