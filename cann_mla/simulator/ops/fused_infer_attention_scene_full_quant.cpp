// Shared path (950): query, key and value all quantised. Four families, by the modes of query, key and value.
#include <initializer_list>
#include <utility>

#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

using Named = std::pair<const char *, const MaybeTensor *>;

const char *family(const Scene &s) {
    switch (s.fullQuant) {
        case FullQuant::Mla:
            return "full quantisation with rope (modes 3, 0, 0)";
        case FullQuant::Mxfp8:
            return "MXFP8 (modes 6, 6, 8)";
        case FullQuant::Fp8Gqa:
            return "FP8 (modes 3, 3, 2)";
        default:
            return "per-tensor full quantisation";
    }
}

void requireGiven(const Scene &s, std::initializer_list<Named> operands) {
    for (auto [name, operand] : operands) {
        require(operand->has_value(), name, " is null; ", family(s), " needs it");
    }
}

void requireNull(const Scene &s, std::initializer_list<Named> operands) {
    for (auto [name, operand] : operands) {
        require(!operand->has_value(), name, " is given; ", family(s), " does not take it");
    }
}

void requireDtype(const Scene &s, const char *name, const Tensor &t, aclDataType wanted) {
    require(t.dtype == wanted, name, " has dtype ", t.dtype, "; ", family(s), " allows ", wanted);
}

void requireOneElement(const Scene &s, const char *name, const MaybeTensor &t) {
    require(!t || t->shape == Shape{1}, name, " has shape ", t ? t->shape : Shape{}, "; ", family(s), " allows [1]");
}

void checkDtypes(const Scene &s) {
    aclDataType q = s.qDtype, out = s.outDtype;
    bool fp8 = q == ACL_FLOAT8_E4M3FN, hif8 = q == ACL_HIFLOAT8;
    require(q == ACL_INT8 ? out == ACL_BF16 : (fp8 || hif8) && isHalf(out), "query has dtype ", q, " and attentionOut ",
            out, "; allowed: INT8 with BF16, FLOAT8_E4M3FN or HIFLOAT8 with FLOAT16 or BF16");
    require(s.valueDesc->dtype == s.kvDtype, "key has dtype ", s.kvDtype, " and value ", s.valueDesc->dtype,
            "; they must be equal");
    if (s.fullQuant == FullQuant::PerTensor) {
        require(q == ACL_INT8, "query has dtype ", q, "; ", family(s), " allows INT8");
    } else if (s.fullQuant != FullQuant::Mla) {
        require(fp8, "query has dtype ", q, "; ", family(s), " allows FLOAT8_E4M3FN");
    }
    if (s.fullQuant == FullQuant::Mla || (s.fullQuant == FullQuant::Mxfp8 && s.rope == Rope::Split)) {
        require(out == ACL_BF16, "attentionOut has dtype ", out, "; ", family(s), " with rope allows BF16");
        requireDtype(s, "queryRope", *s.p.queryRope, ACL_BF16);
        requireDtype(s, "keyRope", *s.p.keyRope, ACL_BF16);
    }
}

void checkHeadsAndDims(const Scene &s) {
    bool mla = s.fullQuant == FullQuant::Mla;
    if (mla) {
        require(powerOfTwoTo128(s.n1) && s.n2 == 1, "numHeads is ", s.n1, " and numKeyValueHeads ", s.n2, "; ",
                family(s), " allows 1, 2, 4, 8, 16, 32, 64, 128 and 1");
        require(s.d == 512, "D of query is ", s.d, "; ", family(s), " allows 512");
        return;
    }
    require(s.n1 <= 256 && s.n2 <= 256 && s.g <= 64, "numHeads is ", s.n1, " and numKeyValueHeads ", s.n2, "; ",
            family(s), " allows up to 256 each and a ratio up to 64");
    bool dims = s.fullQuant == FullQuant::Mxfp8    ? s.d == s.dv && (s.d == 64 || s.d == 128)
                : s.fullQuant == FullQuant::Fp8Gqa ? s.d == 128 && s.dv == 128
                                                   : s.d == s.dv && s.d >= 1 && s.d <= 512;
    require(dims, "D of query is ", s.d, " and of value ", s.dv, "; ", family(s), " allows ",
            s.fullQuant == FullQuant::Mxfp8    ? "64 and 128, equal"
            : s.fullQuant == FullQuant::Fp8Gqa ? "128"
                                               : "1 to 512, equal");
}

void checkLayout(const Scene &s) {
    bool allowed = false;
    switch (s.fullQuant) {
        case FullQuant::PerTensor:
            allowed = oneOf(s.layout, {"BSH", "BSND", "BNSD", "BNSD_BSND"});
            break;
        case FullQuant::Mxfp8:
            allowed = s.layout == "TND";
            break;
        case FullQuant::Fp8Gqa:
            allowed = s.layout == "NTD_TND" && s.kvLayout == Layout::BnNBsD;
            break;
        default:
            allowed = oneOf(s.layout, {"BSH", "BSND", "TND", "BSH_NBSD", "BSND_NBSD", "TND_NTD"}) ||
                      (s.qDtype != ACL_INT8 && oneOf(s.layout, {"BNSD", "BNSD_NBSD"}));
    }
    require(allowed, "inputLayout is ", s.layout, " with query ", s.qDtype, "; ", family(s), " does not take it");
}

void checkFeatures(const Scene &s) {
    if (s.fullQuant == FullQuant::PerTensor) {
        require(!s.postQuant && s.mla == Mla::None && s.p.key->front().shape.size() != 5 && s.s1 != 1, family(s),
                " excludes a quantised attentionOut, rope, D 192 with 128, an NZ cache and S 1");
        return;
    }
    require(!s.pse && !s.qPadding && !s.kvPadding && !s.prefix && s.storage != Storage::List, family(s),
            " excludes pseShift, paddings, the shared prefix and lists of key tensors");
    if (s.fullQuant == FullQuant::Mla && s.qDtype == ACL_INT8) {
        require(s.kvLayout == Layout::NZ, "key has shape ", s.p.key->front().shape,
                "; INT8 full quantisation with rope wants a paged NZ cache");
    }
    if (s.fullQuant == FullQuant::Mxfp8) {
        require(oneOf(low32(s.p.innerPrecise), {0, 1}), "innerPrecise is ", s.p.innerPrecise, "; ", family(s),
                " allows 0 and 1");
    }
    if (s.fullQuant == FullQuant::Fp8Gqa) require(s.rope == Rope::None, family(s), " excludes rope");
}

void checkPerTensor(const Scene &s) {
    const Params &p = s.p;
    require(p.queryQuantMode == 0 && p.keyAntiquantMode == 0 && p.valueAntiquantMode == 0, "queryQuantMode is ",
            p.queryQuantMode, ", keyAntiquantMode ", p.keyAntiquantMode, ", valueAntiquantMode ", p.valueAntiquantMode,
            "; allowed: 0, 0, 0; 3, 0, 0 with rope; 6, 6, 8; 3, 3, 2");
    requireGiven(s, {{"quantScale1", &p.quantScale1}, {"deqScale1", &p.deqScale1}, {"deqScale2", &p.deqScale2}});
    requireNull(s, {{"antiquantScale", &p.antiquantScale},
                    {"antiquantOffset", &p.antiquantOffset},
                    {"keyAntiquantScale", &p.keyAntiquantScale},
                    {"keyAntiquantOffset", &p.keyAntiquantOffset},
                    {"valueAntiquantScale", &p.valueAntiquantScale},
                    {"valueAntiquantOffset", &p.valueAntiquantOffset},
                    {"dequantScaleQuery", &p.dequantScaleQuery},
                    {"keyRopeAntiquantScale", &p.keyRopeAntiquantScale}});
    requireOneElement(s, "quantScale1", p.quantScale1);
    requireOneElement(s, "deqScale1", p.deqScale1);
    requireOneElement(s, "deqScale2", p.deqScale2);
    requireDtype(s, "quantScale1", *p.quantScale1, ACL_FLOAT);
    for (const MaybeTensor *t : {&p.deqScale1, &p.deqScale2}) {
        require(oneOf((*t)->dtype, {ACL_FLOAT, ACL_UINT64}), t == &p.deqScale1 ? "deqScale1" : "deqScale2",
                " has dtype ", (*t)->dtype, "; allowed: FLOAT, UINT64");
    }
}

// The scales of query, key and value: presence and dtype, alike in the three families that have them.
void checkScales(const Scene &s) {
    const Params &p = s.p;
    aclDataType wanted = s.fullQuant == FullQuant::Mxfp8 ? ACL_FLOAT8_E8M0 : ACL_FLOAT;
    requireGiven(s, {{"dequantScaleQuery", &p.dequantScaleQuery},
                     {"keyAntiquantScale", &p.keyAntiquantScale},
                     {"valueAntiquantScale", &p.valueAntiquantScale}});
    requireNull(s, {{"antiquantScale", &p.antiquantScale},
                    {"antiquantOffset", &p.antiquantOffset},
                    {"keyAntiquantOffset", &p.keyAntiquantOffset},
                    {"valueAntiquantOffset", &p.valueAntiquantOffset},
                    {"deqScale1", &p.deqScale1},
                    {"deqScale2", &p.deqScale2},
                    {"keyRopeAntiquantScale", &p.keyRopeAntiquantScale}});
    requireDtype(s, "dequantScaleQuery", *p.dequantScaleQuery, wanted);
    requireDtype(s, "keyAntiquantScale", *p.keyAntiquantScale, wanted);
    requireDtype(s, "valueAntiquantScale", *p.valueAntiquantScale, wanted);
    if (s.fullQuant == FullQuant::Mla) return requireNull(s, {{"quantScale1", &p.quantScale1}});
    requireNull(s, {{"quantScale2", &p.quantScale2}, {"quantOffset2", &p.quantOffset2}});
    requireOneElement(s, "quantScale1", p.quantScale1);
    if (p.quantScale1) requireDtype(s, "quantScale1", *p.quantScale1, ACL_FLOAT);
}

void requireShape(const char *name, const Tensor &t, const Shape &wanted) {
    require(t.shape == wanted, name, " has shape ", t.shape, "; allowed: ", wanted);
}

void checkMlaScales(const Scene &s) {
    Shape wanted = s.p.query->shape;
    if (s.qLayout == Layout::BSH) {
        wanted[2] = s.n1;
    } else {
        wanted.pop_back();
    }
    requireShape("dequantScaleQuery", *s.p.dequantScaleQuery, wanted);
    requireOneElement(s, "keyAntiquantScale", s.p.keyAntiquantScale);
    requireOneElement(s, "valueAntiquantScale", s.p.valueAntiquantScale);
}

int64_t blocksOf(int64_t n, int64_t size) { return plus(n, size - 1) / size; }

void checkMxPagedScales(const Scene &s) {
    int64_t bn = s.p.key->front().shape[0], n = s.n2, bs = s.blockSize, d = blocksOf(s.d, 64);
    require(s.kvLayout != Layout::BnBsH, "the key cache has 3 axes; ", family(s), " allows 4 and 5");
    if (s.kvLayout == Layout::BnNBsD) {
        requireShape("keyAntiquantScale", *s.p.keyAntiquantScale, {bn, n, bs, d, 2});
        requireShape("valueAntiquantScale", *s.p.valueAntiquantScale, {bn, n, blocksOf(bs, 64), s.dv, 2});
    } else {
        requireShape("keyAntiquantScale", *s.p.keyAntiquantScale, {bn, n, blocksOf(bs, 16), d, 16, 2});
        requireShape("valueAntiquantScale", *s.p.valueAntiquantScale,
                     {bn, n, blocksOf(s.dv, 16), blocksOf(bs, 64), 16, 2});
    }
}

int64_t valueScaleRows(const Scene &s) {
    if (!s.kvLens() || !s.kvLens()->hasValues()) return 0;
    int64_t rows = 0, previous = 0;
    for (int64_t end : s.kvLens()->values) {
        rows = plus(rows, blocksOf(minus(end, previous), 64));
        previous = end;
    }
    return rows;
}

void requireStrides(const char *name, const Tensor &t, int axesFree) {
    require(firstStridedAxis(t) < axesFree, name, " has shape ", t.shape, " with strides ", t.strides, "; at most its ",
            axesFree, " leading axes may be strided");
}

void checkMxScales(const Scene &s) {
    const Params &p = s.p;
    const Shape &query = p.query->shape, &scale = p.dequantScaleQuery->shape, &key = p.key->front().shape;
    int64_t d = blocksOf(s.d, 64);
    require(scale == Shape{query[0], s.n1, d, 2} || scale == Shape{s.n2, query[0], s.g, d, 2},
            "dequantScaleQuery has shape ", scale, "; allowed: [T, N, D / 64, 2] = ", Shape{query[0], s.n1, d, 2},
            " and ", Shape{s.n2, query[0], s.g, d, 2});
    int axesFree = s.storage == Storage::Paged ? 2 : 0;
    requireStrides("key", p.key->front(), axesFree);
    requireStrides("value", p.value->front(), axesFree);
    requireStrides("keyAntiquantScale", *p.keyAntiquantScale, axesFree);
    requireStrides("valueAntiquantScale", *p.valueAntiquantScale, axesFree);
    if (s.storage == Storage::Paged) return checkMxPagedScales(s);
    requireShape("keyAntiquantScale", *p.keyAntiquantScale, {key[0], s.n2, d, 2});
    if (s.lengthsUnknown) return;
    requireShape("valueAntiquantScale", *p.valueAntiquantScale,
                 {valueScaleRows(s), s.n2, p.value->front().shape[2], 2});
}

void checkFp8Scales(const Scene &s) {
    const Params &p = s.p;
    require(p.blockTable.has_value(), "blockTableOptional is null; ", family(s), " needs a paged cache");
    requireShape("dequantScaleQuery", *p.dequantScaleQuery, {s.n1, p.query->shape[1]});
    requireShape("keyAntiquantScale", *p.keyAntiquantScale, {p.key->front().shape[0], s.n2, s.blockSize});
    requireShape("valueAntiquantScale", *p.valueAntiquantScale, {s.n2});
    requireStrides("key", p.key->front(), 2);
    requireStrides("value", p.value->front(), 2);
    requireStrides("keyAntiquantScale", *p.keyAntiquantScale, 2);
}

}  // namespace

void checkFullQuant(const Scene &s) {
    if (s.quant != Quant::Full) return;
    if (s.fullQuant == FullQuant::PerTensor) {
        checkPerTensor(s);
    } else {
        checkScales(s);
    }
    checkDtypes(s);
    checkLayout(s);
    checkHeadsAndDims(s);
    checkFeatures(s);
    if (s.fullQuant == FullQuant::Mla) checkMlaScales(s);
    if (s.fullQuant == FullQuant::Mxfp8) checkMxScales(s);
    if (s.fullQuant == FullQuant::Fp8Gqa) checkFp8Scales(s);
}

}  // namespace sim::fia
