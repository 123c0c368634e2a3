// Shared path: attenMask, sparseMode, preTokens and nextTokens.
#include <algorithm>

#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

bool fullMaskMode(const Scene &s) { return s.sparseMode == 0 || s.sparseMode == 1; }

// Columns that a full mask must have.
int64_t maskColumns(const Scene &s) { return plus(s.storage == Storage::Paged ? s.s2 : s.maxActualKv, s.prefixLen); }

void checkOperand(const Scene &s) {
    if (!s.p.attenMask) return;
    const Tensor &mask = *s.p.attenMask;
    require(oneOf(mask.dtype, {ACL_BOOL, ACL_INT8, ACL_UINT8}), "attenMaskOptional has dtype ", mask.dtype,
            "; allowed: BOOL, INT8, UINT8");
    require(oneOf(mask.format, {ACL_FORMAT_ND, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_NCDHW}),
            "attenMaskOptional has format ", mask.format, "; allowed: ND, NCHW, NHWC, NCDHW");
}

void checkTreeMode(const Scene &s) {
    if (s.sparseMode != 9 || !s.a2() || s.quant != Quant::None) return;
    require(s.rope == Rope::Split, "sparseMode is 9 (tree mask); it needs queryRope and keyRope");
    require(!s.qPadding && !s.kvPadding && !s.pse && !s.prefix && s.outDtype != ACL_INT8,
            "sparseMode is 9 (tree mask); it excludes paddings, pseShift, the shared prefix and INT8 attentionOut");
    if (s.lengthsUnknown) return;
    for (size_t i = 0; i < std::min(s.qSizes.size(), s.kvSizes.size()); ++i) {
        require(s.kvSizes[i] == 0 || s.qSizes[i] <= s.kvSizes[i], "batch ", i, " has ", s.qSizes[i], " query rows and ",
                s.kvSizes[i], " key rows; sparseMode 9 needs no more query rows than key rows");
    }
}

void checkFullQuantMode(const Scene &s) {
    bool none = s.sparseMode == 0 && !s.mask, causal = s.sparseMode == 3 && s.mask;
    if (s.mla == Mla::Split512) {
        require(none || causal, "sparseMode is ", s.sparseMode, s.mask ? " with" : " without",
                " a mask; full quantisation with rope and D 512 allows 0 without and 3 with one");
        if (s.qDtype == ACL_INT8 && !oneOf(s.layout, {"TND", "TND_NTD"})) {
            require(s.s1 == 1 ? none : causal, "sparseMode is ", s.sparseMode, " with S of query ", s.s1,
                    "; INT8 full quantisation wants 0 without mask for S 1, and 3 with mask for S > 1");
        }
    }
    bool mxfp8 = s.p.queryQuantMode == 6 && s.p.keyAntiquantMode == 6 && s.p.valueAntiquantMode == 8;
    bool fp8 = s.p.queryQuantMode == 3 && s.p.keyAntiquantMode == 3 && s.p.valueAntiquantMode == 2;
    require(none || causal || !(mxfp8 || fp8), "sparseMode is ", s.sparseMode, s.mask ? " with" : " without",
            " a mask; this full quantisation allows 0 without and 3 with one");
}

void checkMode(const Scene &s) {
    require(oneOf(s.sparseMode, {0, 1, 2, 3, 4, 9}), "sparseMode is ", s.sparseMode,
            "; allowed: 0, 1, 2, 3, 4, and 9 on Atlas A2/A3");
    require(s.mask || s.sparseMode == 0, "sparseMode is ", s.sparseMode, " without attenMaskOptional; it needs one");
    if (s.quant == Quant::None) {
        require(s.mla != Mla::Split512 || oneOf(s.sparseMode, {0, 3, 4, 9}), "sparseMode is ", s.sparseMode,
                "; with rope and D 512 allowed: 0, 3, 4, 9");
        require(!s.dDiffers || oneOf(s.sparseMode, {0, 2, 3}), "sparseMode is ", s.sparseMode,
                "; with unequal D of query and value allowed: 0, 2, 3");
    } else if (s.quant == Quant::Anti) {
        require(s.s1 != 1 || s.sparseMode == 0, "sparseMode is ", s.sparseMode, "; antiquantisation with S 1 allows 0");
    } else {
        checkFullQuantMode(s);
    }
    checkTreeMode(s);
}

void checkTokens(const Scene &s) {
    if (s.quant == Quant::Anti && s.s1 == 1) return;
    require(-s.nextTokens <= s.preTokens, "preTokens is ", s.preTokens, " and nextTokens ", s.nextTokens,
            "; their sum must not be negative");
    require(!(s.quant == Quant::Anti && s.sparseMode == 4 && s.outDtype == ACL_INT8 &&
              (s.preTokens < 0 || s.nextTokens < 0)),
            "preTokens is ", s.preTokens, " and nextTokens ", s.nextTokens,
            "; sparseMode 4 with INT8 attentionOut allows no negative one");
}

struct MaskShape {
    int64_t batch = 1, heads = 1, rows = 0, columns = 0;
};

MaskShape maskShape(const Scene &s) {
    const Shape &mask = s.p.attenMask->shape;
    require(mask.size() >= 2 && mask.size() <= 4, "attenMaskOptional has shape ", mask, "; allowed: 2 to 4 axes");
    if (mask.size() == 4) return {mask[0], mask[1], mask[2], mask[3]};
    if (mask.size() == 3) return {mask[0], 1, mask[1], mask[2]};
    if (fullMaskMode(s)) {
        require(s.a2(), "attenMaskOptional has shape ", mask,
                "; on Ascend950 sparseMode 0 and 1 want 3 or 4 axes: [B or 1, S1, S2], [B or 1, 1, S1, S2]");
        require(s.rope == Rope::None && oneOf(s.layout, {"BSH", "BSND", "BNSD", "BNSD_BSND"}),
                "attenMaskOptional has shape ", mask,
                "; a 2-D mask in sparseMode 0 and 1 goes with BSH, BSND, BNSD and BNSD_BSND without rope only");
    }
    return {1, 1, mask[0], mask[1]};
}

void checkFullMask(const Scene &s) {
    MaskShape m = maskShape(s);
    require(m.rows >= s.s1 && m.columns >= maskColumns(s) && (m.batch == 1 || m.batch == s.b) && m.heads == 1,
            "attenMaskOptional has shape ", s.p.attenMask->shape, "; allowed: [1 or ", s.b, ", (1,) at least ", s.s1,
            ", at least ", maskColumns(s), "]");
}

void checkCompressedMask(const Scene &s) {
    MaskShape m = maskShape(s);
    require(m.rows == 2048 && m.columns == 2048 && m.batch == 1 && m.heads == 1, "attenMaskOptional has shape ",
            s.p.attenMask->shape, "; sparseMode ", s.sparseMode,
            " allows [2048, 2048], [1, 2048, 2048], [1, 1, 2048, 2048]");
}

void checkShape(const Scene &s) {
    if (!s.mask || (s.lengthsUnknown && (s.p.ascend950 || fullMaskMode(s)))) return;
    size_t rank = s.p.attenMask->shape.size();
    if (s.quant == Quant::Anti && s.s1 == 1) {
        require(rank == 3 || rank == 4, "attenMaskOptional has shape ", s.p.attenMask->shape,
                "; antiquantisation with S 1 allows 3 or 4 axes");
        checkFullMask(s);
    } else if (s.sparseMode == 9) {
        require(rank == 1 || rank == 3, "attenMaskOptional has shape ", s.p.attenMask->shape,
                "; sparseMode 9 allows 1 axis (token layouts) or 3");
    } else if (fullMaskMode(s)) {
        checkFullMask(s);
    } else {
        checkCompressedMask(s);
    }
}

}  // namespace

void checkMask(const Scene &s) {
    checkOperand(s);
    checkMode(s);
    checkTokens(s);
    checkShape(s);
}

}  // namespace sim::fia
