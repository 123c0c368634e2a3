// Shared path: operand dtypes and formats, heads, which inputLayout goes with which head dimension.
#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

void checkDtypes(const Scene &s) {
    if (s.quant == Quant::None) {
        require(isHalf(s.valueDesc->dtype), "value has dtype ", s.valueDesc->dtype,
                "; with FLOAT16 or BF16 query it must be FLOAT16 or BF16");
    }
    if (s.dDiffers) {
        require(isHalf(s.qDtype) && isHalf(s.kvDtype) && isHalf(s.valueDesc->dtype) && isHalf(s.outDtype),
                "D of query is ", s.d, " and D of value ", s.dv,
                "; such a call needs FLOAT16 or BF16 in query, key, value and attentionOut");
    }
    if (!s.postQuant && s.quant != Quant::Full) {
        require(s.qDtype == s.outDtype, "attentionOut has dtype ", s.outDtype, " and query ", s.qDtype,
                "; without quantScale2 they must be equal");
    }
}

void checkFormat(const char *name, aclFormat format) {
    require(oneOf(format, {ACL_FORMAT_ND, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_NCDHW}), name, " has format ",
            format, "; allowed: ND, NCHW, NHWC, NCDHW");
}

void checkHeads(const Scene &s) {
    if (s.mla != Mla::Split512) return;
    require(powerOfTwoTo128(s.n1), "numHeads is ", s.n1, "; with rope and D 512 allowed: 1, 2, 4, 8, 16, 32, 64, 128");
    require(s.n2 == 1, "numKeyValueHeads is ", s.n2, "; with rope and D 512 allowed: 1");
}

// A2/A3 without rope: the head dimensions that a layout takes.
void checkPlainHeadDim(const Scene &s) {
    bool batched = oneOf(s.layout, {"BSH", "BSND", "BNSD", "BNSD_BSND"});
    require(s.plainDecode || s.dv % 16 == 0 || !batched, "D is ", s.dv, "; layout ", s.layout,
            " with S > 1 needs a multiple of 16");
    if (oneOf(s.layout, {"NTD", "NTD_TND", "BSH_BNSD", "BSND_BNSD"})) {
        require(s.dv == 64 || s.dv == 128, "D of value is ", s.dv, "; layout ", s.layout, " allows 64 and 128");
    }
    if (s.layout == "TND") {
        require(oneOf(s.dv, {64, 128, 192}), "D of value is ", s.dv, "; layout TND allows 64, 128, 192 here");
    }
}

void checkLayout(const Scene &s) {
    bool prefill =
        oneOf(s.layout, {"BSH", "BSND", "BNSD", "TND", "NTD", "NTD_TND", "BSH_BNSD", "BSND_BNSD", "BNSD_BSND"});
    if (s.mla == Mla::Split512) {
        require(oneOf(s.layout, {"BSH", "BSND", "BNSD", "TND", "BNSD_NBSD", "BSND_NBSD", "BSH_NBSD", "TND_NTD"}),
                "inputLayout is ", s.layout,
                "; with rope and D 512 allowed: BSH, BSND, BNSD, TND, BNSD_NBSD, BSND_NBSD, BSH_NBSD, TND_NTD");
        return;
    }
    require(prefill, "inputLayout is ", s.layout,
            "; allowed here: BSH, BSND, BNSD, TND, NTD, NTD_TND, BSH_BNSD, BSND_BNSD, BNSD_BSND");
    if (s.rope == Rope::None && s.a2()) checkPlainHeadDim(s);
    if (s.rope == Rope::Combined) {
        require(s.d == 192 && s.dv == 128, "D of query is ", s.d, " and D of value ", s.dv,
                "; unequal ones must be 192 and 128");
    }
}

bool groupedQuery(const Scene &s) { return s.quant == Quant::None && s.mla == Mla::None; }

// Layouts whose output is transposed, and the token layouts, each with the features that they exclude.
void checkLayoutFeatures(const Scene &s) {
    if (s.quant != Quant::None) return;
    bool ntd = s.qLayout == Layout::NTD, tnd = s.qLayout == Layout::TND;
    bool toBnsd = oneOf(s.layout, {"BSH_BNSD", "BSND_BNSD"}), toBsnd = s.layout == "BNSD_BSND";
    if (tnd || ntd || toBnsd) {
        require(s.storage != Storage::List, "key and value are lists of ", s.p.key->size(), " tensors; layout ",
                s.layout, " takes one tensor each");
        require(!s.pse, "pseShiftOptional is given; layout ", s.layout, " does not take it");
    }
    require(!(s.mla == Mla::Split512 && s.layout == "TND_NTD" && s.postQuant),
            "attentionOut is quantised; layout TND_NTD does not allow it");
    if (!groupedQuery(s)) return;
    if (ntd || toBnsd) {
        require(s.d == 64 || s.d == 128, "D of query is ", s.d, "; layout ", s.layout, " allows 64 and 128");
    }
    if (ntd || toBnsd || toBsnd) {
        require(!s.dDiffers, "D of query is ", s.d, " and D of value ", s.dv, "; layout ", s.layout,
                " needs them equal");
    }
    if (toBsnd) {
        int64_t unit = s.outDtype == ACL_INT8 ? 32 : 16;
        require(s.d % unit == 0, "D is ", s.d, "; layout BNSD_BSND with ", s.outDtype,
                " attentionOut needs a multiple of ", unit);
    }
}

}  // namespace

void checkHeadsAndLayout(const Scene &s) {
    checkDtypes(s);
    checkFormat("query", s.p.query->format);
    checkFormat("key", s.p.key->front().format);
    checkFormat("value", s.valueDesc->format);
    checkFormat("attentionOut", s.p.attentionOut->format);
    checkHeads(s);
    checkLayout(s);
    checkLayoutFeatures(s);
    int32_t precise = low32(s.p.innerPrecise);
    require(precise >= 0 && precise <= 4, "innerPrecise is ", precise, "; allowed: 0 to 4");
}

}  // namespace sim::fia
