// Shared path: queryRope and keyRope.
#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

void checkFeatures(const Scene &s) {
    require(!s.prefix && !s.pse, "queryRope is given; it excludes the shared prefix and pseShift");
    if (s.a2()) {
        require(!s.qPadding && !s.kvPadding && s.storage != Storage::List && !s.postQuant,
                "queryRope is given; it excludes paddings, lists of key tensors and quantised attentionOut");
    }
    if (s.quant == Quant::Anti) refuse(tilingError, "queryRope is given; antiquantisation does not take it");
    if (s.mla != Mla::Split512) return;
    require(!s.qPadding && !s.kvPadding && s.storage != Storage::List,
            "queryRope is given with D 512; it excludes paddings and lists of key tensors");
    require(low32(s.p.numKeyValueHeads) == 1, "numKeyValueHeads is ", s.p.numKeyValueHeads,
            "; with rope and D 512 it must be given as 1");
    require(s.lengthsUnknown || s.quant != Quant::Full || s.s1 <= 16, "S of query is ", s.s1,
            "; full quantisation with rope and D 512 allows up to 16");
}

void checkDims(const Scene &s) {
    require(s.dRope == 64, "D of queryRope is ", s.dRope, "; allowed: 64");
    if (s.fullQuant == FullQuant::Mxfp8) {
        require(s.d == 64 || s.d == 128, "D of query is ", s.d, "; MXFP8 with rope allows 64 and 128");
    } else {
        require(s.d == 128 || s.d == 512, "D of query is ", s.d, "; with queryRope allowed: 128 and 512");
    }
}

void checkDtypes(const Scene &s) {
    aclDataType q = s.p.queryRope->dtype, k = s.p.keyRope->dtype;
    require(isHalf(q) && isHalf(k), "queryRope has dtype ", q, " and keyRope ", k, "; allowed: FLOAT16, BF16");
    if (s.quant == Quant::None) {
        require(q == s.qDtype && k == s.kvDtype, "queryRope has dtype ", q, " and keyRope ", k,
                "; they must be those of query and key, ", s.qDtype);
    }
}

// All axes but the last are equal; in BSH the last holds the same number of heads.
void checkAgainst(const Scene &s, const char *name, const Shape &base, const Shape &rope) {
    require(base.size() == rope.size(), name, "Rope has shape ", rope, " and ", name, " ", base,
            "; the number of axes must be equal");
    for (size_t i = 0; i + 1 < base.size(); ++i) {
        require(base[i] == rope[i], name, "Rope has shape ", rope, " and ", name, " ", base, "; axis ", i,
                " must be equal");
    }
    if (s.qLayout == Layout::BSH && !base.empty()) {
        require(base.back() / s.d == rope.back() / s.dRope, name, "Rope has shape ", rope, " and ", name, " ", base,
                "; the number of heads must be equal");
    }
}

void checkPagedRope(const Scene &s) {
    const Shape &key = s.p.key->front().shape, &rope = s.p.keyRope->shape;
    require(key.size() == rope.size(), "keyRope has shape ", rope, " and key ", key,
            "; the number of axes must be equal");
    size_t blockAxis = key.size() == 3 ? 1 : key.size() == 4 ? 2 : 3;
    bool heads = key.size() == 3 ? key[2] / s.d == rope[2] / s.dRope : key[1] == rope[1];
    require(key[0] == rope[0] && key[blockAxis] == rope[blockAxis] && heads, "keyRope has shape ", rope, " and key ",
            key, "; blocks, block size and heads must be equal");
}

void checkListRope(const Scene &s) {
    const Shape &rope = s.p.keyRope->shape;
    require(rope[0] == static_cast<int64_t>(s.p.key->size()), "keyRope has shape ", rope,
            "; axis 0 must be the number of key tensors, ", s.p.key->size());
    bool flat = s.layout == "BSH", headsFirst = oneOf(s.layout, {"BNSD", "BNSD_BSND"});
    if (!flat && !headsFirst && s.layout != "BSND") return;
    size_t seq = headsFirst ? 2 : 1, heads = headsFirst ? 1 : 2;
    for (const Tensor &entry : *s.p.key) {
        const Shape &key = entry.shape;
        bool equal = flat ? axis(key, 2) / s.d == axis(rope, 2) / s.dRope : axis(key, heads) == axis(rope, heads);
        require(equal && axis(key, seq) == axis(rope, seq), "a key entry has shape ", key, " and keyRope ", rope,
                "; S and N must be equal");
    }
}

}  // namespace

void checkRope(const Scene &s) {
    require(s.p.queryRope.has_value() == s.p.keyRope.has_value(),
            s.p.queryRope ? "keyRope is null and queryRope given" : "queryRope is null and keyRope given",
            "; both or neither are allowed");
    if (s.rope != Rope::Split) return;
    checkDims(s);
    checkDtypes(s);
    checkFeatures(s);
    checkAgainst(s, "query", s.p.query->shape, s.p.queryRope->shape);
    if (s.storage == Storage::Contiguous) checkAgainst(s, "key", s.p.key->front().shape, s.p.keyRope->shape);
    if (s.storage == Storage::Paged) checkPagedRope(s);
    if (s.storage == Storage::List) checkListRope(s);
    if (s.fullQuant == FullQuant::Mxfp8) {
        int axesFree = s.storage == Storage::Paged ? 2 : 0;
        require(firstStridedAxis(*s.p.keyRope) < axesFree, "keyRope has shape ", s.p.keyRope->shape, " with strides ",
                s.p.keyRope->strides, "; MXFP8 reads it where it lies, and allows strides on ", axesFree,
                " leading axes");
    }
}

}  // namespace sim::fia
