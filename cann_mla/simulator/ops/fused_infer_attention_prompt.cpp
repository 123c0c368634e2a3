#include "ops/fused_infer_attention_prompt.hpp"

#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

void checkAttributes(const Prompt &s) {
    const Params &p = s.p;
    require(p.antiquantMode == 0, "antiquantMode is ", p.antiquantMode, "; with several query tokens 0 is allowed");
    require(!p.dequantScaleQuery && p.queryQuantMode == 0, "dequantScaleQueryOptional is given or queryQuantMode is ",
            p.queryQuantMode, "; with several query tokens they must be null and 0");
    int32_t sparse = low32(p.sparseMode);
    require(sparse != 9, "sparseMode is 9 (tree mask); with several query tokens 0 to 4 are allowed");
    require(!oneOf(sparse, {20, 21, 22}), "sparseMode is ", sparse, "; allowed: 0 to 4");
    require(!p.attenMask || oneOf(p.attenMask->dtype, {ACL_BOOL, ACL_INT8, ACL_UINT8}), "attenMaskOptional has dtype ",
            p.attenMask ? p.attenMask->dtype : ACL_BOOL, "; allowed: BOOL, INT8, UINT8");
}

void checkLse(const Prompt &s) {
    if (!s.p.softmaxLseFlag) return;
    const Legacy &g = s.legacy;
    Shape wanted = s.tokens() ? Shape{g.s, g.n, 1} : Shape{g.b, s.p.numHeads, g.s, 1};
    require(s.p.softmaxLse->shape == wanted, "softmaxLse has shape ", s.p.softmaxLse->shape, "; expected ", wanted);
}

void checkHeadDim(const Prompt &s) {
    auto d = static_cast<uint32_t>(s.legacy.d);
    bool int8 = s.int8Query() || s.p.key->front().dtype == ACL_INT8 || s.int8Out();
    require(!int8 || d % 32 == 0, "D is ", d, "; with INT8 operands a multiple of 32 is needed");
    require(d % 16 == 0, "D is ", d, "; a multiple of 16 is needed");
}

void checkPrecise(const Prompt &s) {
    const Params &p = s.p;
    require(p.innerPrecise != 4, "innerPrecise is 4; allowed: 0 to 3");
    require(!(s.layout == "TND" && p.pseShift), "pseShiftOptional is given; in layout TND it must be null");
    require(!(s.paged && s.int8Query()), "query has dtype INT8; with blockTableOptional FP16 or BF16 is allowed");
    require(!(s.paged && s.list), "key is a list of tensors; with blockTableOptional one tensor is allowed");
    bool int8ToHalf = s.int8Query() && p.attentionOut->dtype == ACL_FLOAT16;
    require(!(int8ToHalf && (p.quantScale2 || p.quantOffset2)),
            "quantScale2Optional or quantOffset2Optional is given; attentionOut has dtype FLOAT16");
}

void checkRopes(const Prompt &s) {
    const Params &p = s.p;
    if (!p.queryRope && !p.keyRope) return;
    require(s.tokens(), "queryRope or keyRope is given; in layout ", s.layout, " they must be null");
    for (const MaybeTensor *rope : {&p.queryRope, &p.keyRope}) {
        require(!*rope || elements((*rope)->shape) != 0, "queryRope or keyRope is empty");
    }
}

// True: there is nothing to attend to, and CANN only fills the output.
bool isEmpty(const Prompt &s) {
    const Params &p = s.p;
    bool empty = elements(p.key->front().shape) == 0 || elements(s.value.shape) == 0 ||
                 elements(p.attentionOut->shape) == 0 || s.emptyList;
    if (!empty) return false;
    const Shape &q = p.query->shape;
    size_t rank = q.size();
    int64_t b = s.tokens() || s.layout == "NSD" ? 1 : q[0];
    require(static_cast<uint32_t>(b) <= 65536, "B is ", b, "; at most 65536 is allowed");
    if (s.layout == "BSH") {
        require(static_cast<uint32_t>(q[2]) <= 512 * 256, "H is ", q[2], "; at most 131072 is allowed");
    } else {
        int64_t n = s.layout == "BSND" ? q[2] : s.layout == "TND" ? q[1] : rank == 4 ? q[1] : q[0];
        require(static_cast<uint32_t>(n) <= 256 && static_cast<uint32_t>(q[rank - 1]) <= 512, "N is ", n, " and D ",
                q[rank - 1], "; at most 256 and 512 are allowed");
    }
    require(!s.int8Query() && p.key->front().dtype != ACL_INT8 && s.value.dtype != ACL_INT8,
            "key or value is empty; with INT8 operands it must not be");
    return true;
}

void checkFullQuantScales(const Prompt &s) {
    if (!s.int8Query()) return;
    const std::pair<const char *, const MaybeTensor *> scales[] = {{"deqScale1Optional", &s.p.deqScale1},
                                                                   {"quantScale1Optional", &s.p.quantScale1},
                                                                   {"deqScale2Optional", &s.p.deqScale2}};
    for (const auto &[name, scale] : scales) {
        require(*scale && elements((*scale)->shape) != 0, name, " is null or empty; an INT8 query needs it");
    }
}

void checkKeyAgainstValue(const Prompt &s) {
    if (s.list) return;
    const Tensor &key = s.p.key->front();
    require(key.dtype == s.value.dtype && key.shape.size() == s.value.shape.size(), "key is ", key.dtype, " ",
            key.shape, " and value ", s.value.dtype, " ", s.value.shape, "; dtype and number of axes must be equal");
    require(key.shape.size() >= 2 && key.shape.size() <= 5, "key has shape ", key.shape, "; 2 to 5 axes are allowed");
}

void checkLengthArrays(const Prompt &s) {
    const MaybeArray &q = s.p.actualSeqLengths, &kv = s.p.actualSeqLengthsKv;
    if (s.tokens()) {
        require((!q || q->hasValues()) && (!kv || kv->hasValues()),
                "actualSeqLengthsOptional or actualSeqLengthsKvOptional has no values; layout ", s.layout,
                " needs them");
        require((!q || q->count <= 4096) && (!kv || kv->count <= 4096),
                "actualSeqLengthsOptional or actualSeqLengthsKvOptional has more than 4096 entries");
    }
    require(!s.paged || (kv && kv->count > 0),
            "actualSeqLengthsKvOptional is null or empty; with blockTableOptional it is required");
    require(
        !s.paged || kv->hasValues(),
        "actualSeqLengthsKvOptional has no values; with blockTableOptional they are needed (real CANN crashes here)");
}

}  // namespace

uint32_t promptLength(const MaybeArray &lens, size_t batch) {
    const auto &values = lens->values;
    return static_cast<uint32_t>(values[values.size() > 1 ? batch : 0]);
}

void checkPrompt(const Params &p, const Legacy &legacy) {
    Prompt s(p, legacy);
    s.paged = p.blockTable.has_value();
    checkAttributes(s);
    checkPromptList(s);
    checkPromptPadding(s);
    checkLse(s);
    checkHeadDim(s);
    checkPromptDtypes(s);
    checkPromptRanks(s);
    checkPrecise(s);
    checkPromptPrefix(s);
    require(oneOf(s.layout, {"BSH", "NSD", "BSND", "BNSD", "BNSD_BSND", "TND", "NTD_TND"}), "inputLayout is \"",
            s.layout,
            "\"; with several query tokens and these dtypes allowed: BSH, NSD, BSND, BNSD, BNSD_BSND, TND, "
            "NTD_TND");
    checkRopes(s);
    if (isEmpty(s)) return;
    checkFullQuantScales(s);
    checkKeyAgainstValue(s);
    checkPromptHeads(s);
    checkLengthArrays(s);
    if (s.tokens()) {
        checkPromptTokens(s);
    } else {
        readPromptAxes(s);
    }
    checkPromptPrefixFits(s);
    checkPromptLengths(s);
    s.longestKv = s.tokens() ? 0 : s.s2;
    if (s.paged && s.tokens()) checkPromptTokenPages(s);
    if (s.paged && !s.tokens()) checkPromptPages(s);
    checkTopics(s, checkPromptMask, checkPromptPse, checkPromptBand, checkPromptPostQuant, checkPromptAntiquant);
    if (s.tokens()) checkPromptTokenMask(s);
}

}  // namespace sim::fia
