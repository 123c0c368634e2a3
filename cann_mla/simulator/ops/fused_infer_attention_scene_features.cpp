// Shared path: pseShift, left padding, shared prefix, softmaxLse and the learnable sink.
#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

bool transposedOrTokens(const Scene &s) {
    return oneOf(s.layout, {"BSH_BNSD", "BSND_BNSD", "TND", "NTD", "NTD_TND", "TND_NTD"});
}

void checkPseShape(const Scene &s) {
    const Shape &pse = s.p.pseShift->shape;
    int64_t prefix =
        s.p.actualSharedPrefixLen && s.p.actualSharedPrefixLen->hasValues() ? s.p.actualSharedPrefixLen->values[0] : 0;
    require(pse.size() == 4 && (pse[0] == 1 || pse[0] == s.b) && pse[1] == s.n1 &&
                (pse[2] == 1 || (pse[2] > 1 && pse[2] >= s.s1)) && pse[3] >= s.s2 + prefix,
            "pseShiftOptional has shape ", pse, "; allowed: [1 or ", s.b, ", ", s.n1, ", 1 or at least ", s.s1,
            ", at least ", s.s2 + prefix, "]");
}

void checkPaddingOperand(const char *name, const MaybeTensor &operand) {
    require(operand && operand->shape.size() == 1 && operand->shape[0] == 1, name, " has shape ",
            operand ? operand->shape : Shape{}, "; allowed: [1]");
}

struct PrefixAxes {
    int64_t heads, seq, dim;
};

PrefixAxes prefixAxes(const Scene &s, const Shape &shape) {
    switch (s.kvLayout) {
        case Layout::BNSD:
            return {axis(shape, 1), axis(shape, 2), axis(shape, 3)};
        case Layout::BSND:
            return {axis(shape, 2), axis(shape, 1), axis(shape, 3)};
        case Layout::BSH:
            return {0, axis(shape, 1), axis(shape, 2)};
        default:
            return {0, 0, 0};
    }
}

void checkPrefixShape(const Scene &s) {
    const Shape &key = s.p.keySharedPrefix->shape, &value = s.p.valueSharedPrefix->shape;
    const Shape &base = s.p.key->front().shape;
    require(key.size() == base.size() && value.size() == base.size(), "keySharedPrefix has shape ", key,
            " and valueSharedPrefix ", value, "; both must have as many axes as key, ", base);
    require(axis(key, 0) == 1 && axis(value, 0) == 1, "keySharedPrefix has shape ", key, " and valueSharedPrefix ",
            value, "; axis 0 must be 1");
    PrefixAxes k = prefixAxes(s, key), v = prefixAxes(s, value), b = prefixAxes(s, base);
    require(k.heads == b.heads && k.heads == v.heads && k.dim == b.dim && k.dim == v.dim && k.seq == v.seq,
            "keySharedPrefix has shape ", key, " and valueSharedPrefix ", value,
            "; both must be equal, with the heads and D of key, ", base);
}

void checkPrefixLength(const Scene &s) {
    if (!s.p.actualSharedPrefixLen || !s.p.actualSharedPrefixLen->hasValues()) return;
    int64_t length = s.p.actualSharedPrefixLen->values[0];
    require(length >= 0 && length <= s.prefixMax, "actualSharedPrefixLenOptional is ", length, "; allowed: 0 to ",
            s.prefixMax);
}

void checkPrefixExcluded(const Scene &s) {
    require(s.storage != Storage::Paged && !s.qPadding && !s.kvPadding && !transposedOrTokens(s) && s.mla == Mla::None,
            "a shared prefix is given; it excludes paged attention, paddings, layout ", s.layout,
            ", rope and D 192 with 128");
    require(s.storage != Storage::List || (s.a2() && s.s1 <= 1),
            "a shared prefix is given with lists of key tensors; Atlas A2/A3 allow that for S 1, Ascend950 never");
    require(!(s.qDtype == s.kvDtype && oneOf(s.qDtype, {ACL_INT8, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8})),
            "a shared prefix is given; full quantisation of ", s.qDtype, " does not take it");
    require(!s.postQuant || s.outDtype == ACL_INT8, "attentionOut has dtype ", s.outDtype,
            "; with a shared prefix a quantised one must be INT8");
}

// Antiquantisation modes that a prefix allows.
void checkPrefixAntiquant(const Scene &s) {
    int64_t k = s.p.keyAntiquantMode, v = s.p.valueAntiquantMode;
    bool equal = k == v, int8 = s.kvDtype == ACL_INT8, int4 = s.kvDtype == ACL_INT4;
    if (s.s1 > 1) {
        require(equal && (k == 0 || k == 1) && int8, "keyAntiquantMode is ", k, ", valueAntiquantMode ", v,
                " with key ", s.kvDtype, "; a shared prefix with S > 1 allows 0/0 and 1/1 with INT8");
    } else if (s.s1 == 1 && s.p.keyAntiquantScale && s.p.valueAntiquantScale) {
        bool perTensor = k == 0 && s.p.keyAntiquantScale->shape.size() == 1;
        bool fourBits = (equal && oneOf(k, {0, 1, 3}) && !perTensor) || (k == 0 && v == 1);
        bool allowed = (equal && k >= 0 && k <= 5) || (k == 0 && v == 1);
        require(allowed && (int8 || (int4 && fourBits)), "keyAntiquantMode is ", k, ", valueAntiquantMode ", v,
                " with key ", s.kvDtype,
                "; a shared prefix with S 1 allows INT8 with modes 0 to 5 and 0/1, INT4 with 0 (per channel), 1, 3 "
                "and 0/1");
    }
}

}  // namespace

void checkPse(const Scene &s) {
    const Params &p = s.p;
    if (s.pse) {
        aclDataType wanted = s.qDtype == ACL_BF16 ? ACL_BF16 : ACL_FLOAT16;
        require(!oneOf(s.qDtype, {ACL_FLOAT16, ACL_BF16, ACL_INT8}) || p.pseShift->dtype == wanted,
                "pseShiftOptional has dtype ", p.pseShift->dtype, "; with query ", s.qDtype, " allowed: ", wanted);
        require(!s.dDiffers, "pseShiftOptional is given; D of query ", s.d, " and of value ", s.dv,
                " must then be equal");
        require(s.lengthsUnknown || (s.mla == Mla::None && !transposedOrTokens(s)),
                "pseShiftOptional is given; it excludes rope, D 192 with 128, and layout ", s.layout);
    }
    if (p.pseShift) checkPseShape(s);
}

void checkPadding(const Scene &s) {
    if (s.quant == Quant::None) {
        if (s.qPadding) checkPaddingOperand("queryPaddingSizeOptional", s.p.queryPaddingSize);
        if (s.kvPadding) checkPaddingOperand("kvPaddingSizeOptional", s.p.kvPaddingSize);
    }
    if (!s.qPadding && !s.kvPadding) return;
    if (!s.lengthsUnknown) {
        require(!s.qPadding || s.qLens, "queryPaddingSizeOptional is given without actualSeqLengthsOptional");
        require(!s.kvPadding || s.kvLens(), "kvPaddingSizeOptional is given without actualSeqLengthsKvOptional");
    }
    require(!transposedOrTokens(s), "a padding size is given; layout ", s.layout, " does not take it");
    require(s.storage != Storage::Paged, "a padding size is given; paged attention does not take it");
    require(!(s.quant == Quant::Anti && s.s1 > 1 && s.kvDtype == ACL_INT8 && oneOf(s.p.keyAntiquantMode, {0, 1})),
            "a padding size is given; INT8 key with S > 1 does not take it");
    require(!(s.dDiffers && s.rope == Rope::None), "a padding size is given; D of query ", s.d, " and of value ", s.dv,
            " must then be equal");
}

void checkPrefix(const Scene &s) {
    const Params &p = s.p;
    require(p.keySharedPrefix.has_value() == p.valueSharedPrefix.has_value(),
            p.keySharedPrefix ? "valueSharedPrefixOptional is null and keySharedPrefixOptional given"
                              : "keySharedPrefixOptional is null and valueSharedPrefixOptional given",
            "; both or neither are allowed");
    if (!s.prefix) return;
    checkPrefixExcluded(s);
    if (s.quant == Quant::Anti) checkPrefixAntiquant(s);
    require(p.keySharedPrefix->dtype == s.kvDtype && p.valueSharedPrefix->dtype == s.kvDtype,
            "keySharedPrefix has dtype ", p.keySharedPrefix->dtype, " and valueSharedPrefix ",
            p.valueSharedPrefix->dtype, "; both must be that of key, ", s.kvDtype);
    checkPrefixShape(s);
    checkPrefixLength(s);
}

void checkLse(const Scene &s) {
    if (!s.p.softmaxLseFlag) return;
    const Shape &lse = s.p.softmaxLse->shape;
    Shape wanted = s.tokensFirst(s.outLayout) ? Shape{s.t1, s.n1, 1} : Shape{s.b, s.n1, s.s1, 1};
    require(lse == wanted, "softmaxLse has shape ", lse, "; allowed: ", wanted);
    require(!(s.dDiffers && s.rope == Rope::None), "softmaxLseFlag is true; D of query ", s.d, " and of value ", s.dv,
            " must then be equal");
}

void checkSink(const Scene &s) {
    if (!s.p.learnableSink) return;
    const Tensor &sink = *s.p.learnableSink;
    if (s.a2()) {
        require(sink.dtype == ACL_BF16, "learnableSinkOptional has dtype ", sink.dtype, "; allowed here: BF16");
    } else {
        require(isHalf(sink.dtype) && sink.dtype == s.qDtype, "learnableSinkOptional has dtype ", sink.dtype,
                "; allowed: that of query, ", s.qDtype);
    }
    require(sink.shape == Shape{s.n1}, "learnableSinkOptional has shape ", sink.shape, "; allowed: [", s.n1, "]");
    if (s.a2()) return;  // the rest is only logged there
    require(!s.qPadding && !s.kvPadding && !s.prefix && !s.pse && !s.postQuant && low32(s.p.innerPrecise) == 0 &&
                s.quant == Quant::None && s.mla != Mla::Split512,
            "learnableSinkOptional is given; it excludes paddings, the shared prefix, pseShift, quantisation, rope "
            "with D 512 and innerPrecise other than 0");
    require(oneOf(s.d, {64, 128, 192}) && oneOf(s.dv, {64, 128}), "D of query is ", s.d, " and of value ", s.dv,
            "; with learnableSinkOptional allowed: 64, 128, 192 and 64, 128");
}

}  // namespace sim::fia
