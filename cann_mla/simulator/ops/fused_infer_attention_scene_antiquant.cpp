// Shared path (950): key and value quantised, query not. Split scales and offsets, by the two antiquant modes.
#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

struct Modes {
    int64_t key, value;
    bool both(int64_t mode) const { return key == mode && value == mode; }
    bool mixed() const { return key == 0 && value == 1; }
};

Modes modes(const Scene &s) { return {s.p.keyAntiquantMode, s.p.valueAntiquantMode}; }

void checkModes(const Scene &s) {
    Modes m = modes(s);
    require(m.key >= 0 && m.key <= 6 && m.value >= 0 && m.value <= 6 && (m.key == m.value || m.mixed()),
            "keyAntiquantMode is ", m.key, " and valueAntiquantMode ", m.value,
            "; allowed: equal ones from 0 to 6, or 0 and 1");
}

// Which key dtypes a mode takes.
void checkKeyDtype(const Scene &s) {
    Modes m = modes(s);
    aclDataType t = s.kvDtype;
    const Shape &scale = s.p.keyAntiquantScale->shape;
    bool allowed = true;
    if (m.both(0)) {
        bool perTensor = scale == Shape{1};
        allowed = perTensor ? t == ACL_INT8 : oneOf(t, {ACL_INT8, ACL_INT4, ACL_HIFLOAT8, ACL_FLOAT8_E4M3FN});
    } else if (m.both(1)) {
        allowed = oneOf(t, {ACL_INT8, ACL_INT4, ACL_FLOAT8_E4M3FN});
    } else if (m.both(2) || m.both(5)) {
        allowed = t == ACL_INT8;
    } else if (m.both(3)) {
        allowed = oneOf(t, {ACL_INT8, ACL_INT4});
    } else if (m.both(4)) {
        allowed = oneOf(t, {ACL_INT8, ACL_FLOAT8_E4M3FN});
    } else if (m.both(6)) {
        allowed = t == ACL_FLOAT4_E2M1;
    } else if (m.mixed()) {
        allowed = t == ACL_INT4 || (t == ACL_INT8 && s.qDtype == ACL_FLOAT16 && s.outDtype == ACL_FLOAT16);
    }
    require(allowed, "key has dtype ", t, " with keyAntiquantMode ", m.key, ", valueAntiquantMode ", m.value,
            " and keyAntiquantScale ", scale, "; this combination is not supported");
}

void checkPresence(const Scene &s) {
    const Params &p = s.p;
    require(p.keyAntiquantScale && p.valueAntiquantScale,
            "keyAntiquantScaleOptional or valueAntiquantScaleOptional is null; key of dtype ", s.kvDtype,
            " needs both");
    require(p.antiquantMode == 0 && !p.antiquantScale && !p.antiquantOffset,
            "antiquantScaleOptional, antiquantOffsetOptional or antiquantMode ", p.antiquantMode,
            " is given; Ascend950 takes split scales only");
    require(p.keyAntiquantOffset.has_value() == p.valueAntiquantOffset.has_value(),
            "one of keyAntiquantOffsetOptional and valueAntiquantOffsetOptional is null; both or neither are allowed");
    require(!oneOf(s.kvDtype, {ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8, ACL_FLOAT4_E2M1}) || !p.keyAntiquantOffset,
            "keyAntiquantOffsetOptional is given; key of dtype ", s.kvDtype, " takes no offset");
}

void checkFeatures(const Scene &s) {
    int64_t mode = s.p.keyAntiquantMode;
    require(oneOf(s.layout, {"BSH", "BSND", "BNSD", "BNSD_BSND", "TND"}), "inputLayout is ", s.layout,
            "; antiquantisation allows BSH, BSND, BNSD, BNSD_BSND, TND");
    require(s.kvDtype != ACL_INT8 || s.layout != "TND", "inputLayout is TND; INT8 key does not take it");
    require(s.s1 != 1 || s.layout != "BNSD_BSND", "inputLayout is BNSD_BSND; antiquantisation takes it for S > 1");
    require(s.rope != Rope::Combined, "D of query is 192 and of value 128; antiquantisation does not take them");
    if (s.s1 <= 1) return;
    require(s.kvDtype != ACL_INT4, "key has dtype INT4 with S of query ", s.s1, "; it is supported for S 1");
    if (s.kvDtype != ACL_INT8) return;
    require(!oneOf(mode, {2, 3, 4, 5}), "keyAntiquantMode is ", mode, "; INT8 key with S > 1 allows 0 and 1");
    if (mode != 0 && mode != 1) return;
    require(s.qDtype == ACL_BF16 && s.outDtype == ACL_BF16, "query has dtype ", s.qDtype, " and attentionOut ",
            s.outDtype, "; INT8 key with S > 1 wants BF16");
    require(s.s1 <= 16, "S of query is ", s.s1, "; INT8 key allows up to 16");
    require(s.storage == Storage::Contiguous,
            "key is paged or a list of tensors; INT8 key with S > 1 takes one dense tensor");
}

void checkScaleDtypes(const Scene &s) {
    Modes m = modes(s);
    aclDataType key = ACL_FLOAT, value = ACL_FLOAT;
    if (m.both(0) || m.both(2)) key = value = s.qDtype;
    if (m.mixed()) key = s.qDtype;
    if (m.both(6)) key = value = ACL_FLOAT8_E8M0;
    require(s.p.keyAntiquantScale->dtype == key, "keyAntiquantScale has dtype ", s.p.keyAntiquantScale->dtype,
            " in mode ", m.key, "; allowed: ", key);
    require(s.p.valueAntiquantScale->dtype == value, "valueAntiquantScale has dtype ", s.p.valueAntiquantScale->dtype,
            " in mode ", m.value, "; allowed: ", value);
}

bool perChannel(const Scene &s, const Shape &shape) {
    int64_t n = s.n2, d = s.d;
    return shape == Shape{times(n, d)} || shape == Shape{1} || shape == Shape{1, times(n, d)} || shape == Shape{n, d} ||
           shape == Shape{1, n, d} || shape == Shape{n, 1, d} || shape == Shape{1, n, 1, d} ||
           shape == Shape{1, 1, n, d};
}

bool perToken(const Scene &s, const Shape &shape) {
    if (shape.size() == 2) return shape[0] == s.b && shape[1] >= s.s2;
    return shape.size() == 3 && shape[0] == 1 && shape[1] == s.b && shape[2] >= s.s2;
}

bool scaleShapeFits(const Scene &s, int64_t mode, const Shape &shape) {
    bool skip = s.lengthsUnknown && s.tokensFirst(s.qLayout);
    int64_t blocks = axis(s.p.key->front().shape, 0);
    switch (mode) {
        case 0:
            return perChannel(s, shape);
        case 1:
            return skip || perToken(s, shape);
        case 2:
            return shape == Shape{s.n2};
        case 3:
            return skip || (shape.size() == 3 && shape[0] == s.b && shape[1] == s.n2 && shape[2] >= s.s2);
        case 4:
            return shape == Shape{blocks, s.blockSize};
        case 5:
            return shape == Shape{blocks, s.n2, s.blockSize};
        case 6:
            return skip || (shape.size() == 5 && shape[0] == 1 && shape[1] == s.b && shape[2] == s.n2 &&
                            shape[3] >= s.s2 && shape[4] == s.d / 32);
        default:
            return false;
    }
}

const char *wantedShape(int64_t mode) {
    switch (mode) {
        case 0:
            return "per channel [H], [1, H], [N, D], [1, N, D], [N, 1, D], [1, N, 1, D], [1, 1, N, D], or [1]";
        case 1:
            return "per token [B, S2 or more], [1, B, S2 or more]";
        case 2:
            return "per head [N]";
        case 3:
            return "per token and head [B, N, S2 or more]";
        case 4:
            return "per cache token [blocks, blockSize]";
        case 5:
            return "per cache token and head [blocks, N, blockSize]";
        default:
            return "per group [1, B, N, S2 or more, D / 32]";
    }
}

void checkScaleShapes(const Scene &s) {
    Modes m = modes(s);
    const Shape &key = s.p.keyAntiquantScale->shape, &value = s.p.valueAntiquantScale->shape;
    require(scaleShapeFits(s, m.key, key), "keyAntiquantScale has shape ", key, " in mode ", m.key,
            "; allowed: ", wantedShape(m.key));
    if (m.mixed()) {
        require(scaleShapeFits(s, 1, value), "valueAntiquantScale has shape ", value,
                " in mode 1; allowed: ", wantedShape(1));
    } else {
        require(key == value, "keyAntiquantScale has shape ", key, " and valueAntiquantScale ", value,
                "; they must be equal");
    }
}

// Paged: per-token scales that are addressed by position must cover the whole block table.
void checkPagedScales(const Scene &s) {
    if (s.storage != Storage::Paged) return;
    Modes m = modes(s);
    int64_t tokens = times(s.maxBlocksPerBatch, s.blockSize);
    const Shape &key = s.p.keyAntiquantScale->shape, &value = s.p.valueAntiquantScale->shape;
    if (m.both(1) || m.both(3)) {
        require(!key.empty() && key.back() >= tokens && axis(value, key.size() - 1) >= tokens,
                "keyAntiquantScale has shape ", key, " and valueAntiquantScale ", value,
                "; with paged attention the last axis must be at least ", tokens);
    }
    if (m.both(6)) {
        require(key.size() >= 2 && key[key.size() - 2] >= tokens, "keyAntiquantScale has shape ", key,
                "; with paged attention its last axis but one must be at least ", tokens);
    }
}

void checkOffsets(const Scene &s) {
    const Params &p = s.p;
    if (!p.keyAntiquantOffset) return;
    require(p.keyAntiquantOffset->dtype == p.keyAntiquantScale->dtype &&
                p.keyAntiquantOffset->shape == p.keyAntiquantScale->shape,
            "keyAntiquantOffset is ", p.keyAntiquantOffset->dtype, " ", p.keyAntiquantOffset->shape,
            "; it must be as keyAntiquantScale, ", p.keyAntiquantScale->dtype, " ", p.keyAntiquantScale->shape);
    require(p.valueAntiquantOffset->dtype == p.valueAntiquantScale->dtype &&
                p.valueAntiquantOffset->shape == p.valueAntiquantScale->shape,
            "valueAntiquantOffset is ", p.valueAntiquantOffset->dtype, " ", p.valueAntiquantOffset->shape,
            "; it must be as valueAntiquantScale, ", p.valueAntiquantScale->dtype, " ", p.valueAntiquantScale->shape);
}

}  // namespace

void checkAntiquant(const Scene &s) {
    if (s.quant != Quant::Anti) return;
    checkModes(s);
    checkPresence(s);
    checkKeyDtype(s);
    checkFeatures(s);
    checkPagedScales(s);
    checkScaleDtypes(s);
    checkScaleShapes(s);
    checkOffsets(s);
}

}  // namespace sim::fia
