// Quantisation operands of the older prompt kernel.
#include "ops/fused_infer_attention_prompt.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

constexpr uint32_t splitScaleTokens = 16;  // up to here split scales have their own computation

bool isScale(aclDataType t) { return oneOf(t, {ACL_BF16, ACL_FLOAT, ACL_FLOAT16}); }

// ---- whole scales for key and value together, [2, ...], or in pages split ones, [1, ...] ----

Shape perChannelShape(const Prompt &s, int64_t first) {
    int64_t heads = s.p.numHeads / s.ratio, d = static_cast<int64_t>(s.h) / s.p.numHeads;
    if (s.headsFirst()) return {first, heads, 1, d};
    if (s.layout == "BSH") return {first, static_cast<int64_t>(s.h) / s.ratio};
    return {first, heads, d};
}

void checkPerChannel(const Prompt &s, const MaybeTensor &scale, const MaybeTensor &offset, int64_t first) {
    require(scale.has_value(), "an antiquant scale is null; a FP16 query with an INT8 key needs it");
    if (s.tokens()) return;
    Shape wanted = perChannelShape(s, first);
    require(scale->shape == wanted && (!offset || offset->shape == wanted), "an antiquant scale has shape ",
            scale->shape, "; expected ", wanted, ", and the offset alike");
}

void checkPagedAntiquant(const Prompt &s, bool perChannel) {
    const Params &p = s.p;
    require(perChannel, "antiquantScaleOptional is per tensor; with blockTableOptional per channel is allowed");
    require(s.layout == "BSH" || s.layout == "BSND", "inputLayout is \"", s.layout,
            "\"; with blockTableOptional and an INT8 key BSH or BSND is allowed");
    require(p.innerPrecise == 1, "innerPrecise is ", p.innerPrecise,
            "; with blockTableOptional and an INT8 key 1 is allowed");
    require(low32(p.sparseMode) == 3 && s.hasMask(), "sparseMode is ", p.sparseMode,
            "; with blockTableOptional and an INT8 key 3 with a mask is allowed");
    require(!p.pseShift, "pseShiftOptional is given; with blockTableOptional and an INT8 key it must be null");
}

void checkWholeScales(const Prompt &s) {
    const Params &p = s.p;
    bool perTensor = p.antiquantScale && p.antiquantScale->shape.size() == 1;
    if (perTensor) {
        require(p.antiquantScale->shape[0] == 2 && (!p.antiquantOffset || axis(p.antiquantOffset->shape, 0) == 2),
                "antiquantScaleOptional has shape ", p.antiquantScale->shape,
                "; per tensor [2] is allowed, and the offset alike");
    } else if (s.paged) {
        require(p.keyAntiquantMode == 0 && p.valueAntiquantMode == 0, "keyAntiquantMode is ", p.keyAntiquantMode,
                " and valueAntiquantMode ", p.valueAntiquantMode, "; with blockTableOptional 0 is allowed");
        checkPerChannel(s, p.keyAntiquantScale, p.keyAntiquantOffset, 1);
        checkPerChannel(s, p.valueAntiquantScale, p.valueAntiquantOffset, 1);
    } else {
        checkPerChannel(s, p.antiquantScale, p.antiquantOffset, 2);
    }
    if (s.paged) checkPagedAntiquant(s, !perTensor);
}

// ---- split scales, up to 16 query tokens ----

void checkSplitShape(const Prompt &s, const MaybeTensor &t, size_t rank) {
    if (!t) return;
    int64_t heads = s.p.numHeads / s.ratio, hidden = static_cast<int64_t>(s.h) / s.ratio;
    Shape wanted = s.p.keyAntiquantMode == 1 ? Shape{s.bKv, s.s2}
                   : rank == 1               ? Shape{hidden}
                   : rank == 2               ? Shape{heads, hidden / heads}
                                             : Shape{heads, 1, hidden / heads};
    require(t->shape == wanted, "a key or value antiquant operand has shape ", t->shape, "; expected ", wanted);
    aclDataType dtype = s.p.keyAntiquantMode == 1 ? ACL_FLOAT : ACL_BF16;
    require(t->dtype == dtype, "a key or value antiquant operand has dtype ", t->dtype, "; allowed: ", dtype);
}

void checkSplitScales(const Prompt &s) {
    const Params &p = s.p;
    require(s.s <= splitScaleTokens, "S of query is ", s.s,
            "; with key or value antiquant scales at most 16 is allowed");
    if (s.tokens()) return;
    require(p.keyAntiquantMode == p.valueAntiquantMode && (p.keyAntiquantMode == 0 || p.keyAntiquantMode == 1),
            "keyAntiquantMode is ", p.keyAntiquantMode, " and valueAntiquantMode ", p.valueAntiquantMode,
            "; with several query tokens 0, 0 or 1, 1 is allowed");
    require(!s.list, "key is a list of tensors; with antiquant scales one tensor is allowed");
    require(!p.queryPaddingSize && !p.kvPaddingSize, "a padding size is given; with antiquant scales it must be null");
    require(isHalf(p.query->dtype), "query has dtype ", p.query->dtype,
            "; with antiquant scales FP16 or BF16 is allowed");
    require(p.key->front().dtype == ACL_INT8 && s.value.dtype == ACL_INT8, "key has dtype ", p.key->front().dtype,
            "; with antiquant scales and several query tokens INT8 is allowed");
    require(p.keyAntiquantScale && p.valueAntiquantScale,
            "one of keyAntiquantScaleOptional and valueAntiquantScaleOptional is null; both are needed");
    require(p.keyAntiquantOffset.has_value() == p.valueAntiquantOffset.has_value(),
            "one of keyAntiquantOffsetOptional and valueAntiquantOffsetOptional is null; both or neither");
    size_t rank = p.keyAntiquantScale->shape.size();
    require(p.keyAntiquantMode == 1 || (rank >= 1 && rank <= 3 && p.valueAntiquantScale->shape.size() == rank),
            "keyAntiquantScaleOptional has shape ", p.keyAntiquantScale->shape, " and valueAntiquantScaleOptional ",
            p.valueAntiquantScale->shape, "; 1 to 3 axes, the same number, are allowed (real CANN crashes here)");
    for (const MaybeTensor *t :
         {&p.keyAntiquantScale, &p.valueAntiquantScale, &p.keyAntiquantOffset, &p.valueAntiquantOffset}) {
        checkSplitShape(s, *t, rank);
    }
}

}  // namespace

void checkPromptDtypes(Prompt &s) {
    const Params &p = s.p;
    aclDataType q = p.query->dtype, k = p.key->front().dtype, v = s.value.dtype;
    if (s.layout == "TND") {
        require(!(k == ACL_INT8 && v == ACL_INT8) && !s.int8Out(), "key has dtype ", k, " and attentionOut ",
                p.attentionOut->dtype, "; in layout TND INT8 is not supported here");
    }
    s.splitScales = p.keyAntiquantScale || p.valueAntiquantScale;
    s.fp16Antiquant = q == ACL_FLOAT16 && k == ACL_INT8 && !s.splitScales;
    require(s.splitScales || !(q == ACL_BF16 && k == ACL_INT8),
            "keyAntiquantScaleOptional and valueAntiquantScaleOptional are null; a BF16 query with an INT8 key needs "
            "them");
}

void checkPromptPostQuant(const Prompt &s) {
    const Params &p = s.p;
    aclDataType q = p.query->dtype;
    require(static_cast<int64_t>(s.h) / p.numHeads <= 512, "D is above 512");
    if (!s.int8Out()) return;
    require(q != ACL_FLOAT16 || (!p.deqScale1 && !p.quantScale1 && !p.deqScale2),
            "deqScale1Optional, quantScale1Optional or deqScale2Optional is given; they belong to an INT8 query");
    require(p.quantScale2 && elements(p.quantScale2->shape) != 0,
            "quantScale2Optional is null or empty; attentionOut has dtype INT8 and needs it");
    const Tensor &scale = *p.quantScale2;
    int64_t count = elements(scale.shape);
    if (count != 1) {
        require(!p.queryPaddingSize && !p.kvPaddingSize && !p.softmaxLseFlag,
                "quantScale2Optional is per channel; with padding or softmaxLse one element is allowed");
        require(static_cast<uint32_t>(count / p.numHeads) % 32 == 0 && static_cast<uint64_t>(count) == s.h,
                "quantScale2Optional has ", count, " elements; allowed: 1, or N * D, ", s.h,
                ", with D a multiple of 32");
    }
    require(isScale(scale.dtype) && (q == ACL_BF16 || scale.dtype != ACL_BF16) &&
                (q == ACL_FLOAT16 || scale.dtype != ACL_FLOAT16),
            "quantScale2Optional has dtype ", scale.dtype, "; allowed: FLOAT, or that of query, ", q);
    if (!p.quantOffset2) return;
    require(p.quantOffset2->dtype == scale.dtype && elements(p.quantOffset2->shape) == count,
            "quantOffset2Optional is ", p.quantOffset2->dtype, " ", p.quantOffset2->shape,
            "; dtype and number of elements must be those of quantScale2Optional");
}

void checkPromptAntiquant(const Prompt &s) {
    const Params &p = s.p;
    bool longFp16 =
        p.query->dtype == ACL_FLOAT16 && p.key->front().dtype == ACL_INT8 && s.splitScales && s.s > splitScaleTokens;
    if (s.fp16Antiquant || longFp16) {
        checkWholeScales(s);
    } else if (s.splitScales) {
        checkSplitScales(s);
    }
}

}  // namespace sim::fia
