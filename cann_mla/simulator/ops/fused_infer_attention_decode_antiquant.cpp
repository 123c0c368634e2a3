// Full and key/value-only quantisation in the older decode kernel.
#include "ops/fused_infer_attention_decode.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

uint32_t bits32(int64_t value) { return static_cast<uint32_t>(value); }

// ---- INT8 query ----

void checkQueryScaleShape(const Decode &s, const Shape &scale) {
    Shape wanted = s.p.query->shape;
    if (oneOf(s.layout, {"BSH", "BSH_NBSD"})) {
        wanted[2] = s.heads;
    } else {
        wanted.pop_back();
    }
    require(scale == wanted, "dequantScaleQueryOptional has shape ", scale, "; expected ", wanted);
}

void checkFullScales(const Decode &s) {
    const Params &p = s.p;
    require(p.dequantScaleQuery && p.keyAntiquantScale && p.valueAntiquantScale,
            "dequantScaleQueryOptional, keyAntiquantScaleOptional or valueAntiquantScaleOptional is null; an INT8 "
            "query needs all three");
    checkQueryScaleShape(s, p.dequantScaleQuery->shape);
    require(p.keyAntiquantScale->shape == Shape{1} && p.valueAntiquantScale->shape == Shape{1},
            "keyAntiquantScaleOptional has shape ", p.keyAntiquantScale->shape, " and valueAntiquantScaleOptional ",
            p.valueAntiquantScale->shape, "; with an INT8 query [1] is allowed");
    require(p.queryQuantMode == 3 && p.keyAntiquantMode == 0 && p.valueAntiquantMode == 0,
            "queryQuantMode, keyAntiquantMode and valueAntiquantMode are ", p.queryQuantMode, ", ", p.keyAntiquantMode,
            " and ", p.valueAntiquantMode, "; with an INT8 query 3, 0 and 0 are allowed");
    for (const Tensor *t : {&*p.dequantScaleQuery, &*p.keyAntiquantScale, &*p.valueAntiquantScale}) {
        require(t->dtype == ACL_FLOAT, "a dequantisation scale has dtype ", t->dtype, "; allowed: FLOAT");
    }
}

// ---- antiquantisation: presence and modes ----

bool pairOfModes(const Params &p) { return bits32(p.keyAntiquantMode) == 0 && bits32(p.valueAntiquantMode) == 1; }

void checkSplitPresence(Decode &s) {
    const Params &p = s.p;
    require(p.keyAntiquantScale.has_value() == p.valueAntiquantScale.has_value(),
            "one of keyAntiquantScaleOptional and valueAntiquantScaleOptional is null; both or neither");
    require(p.keyAntiquantOffset.has_value() == p.valueAntiquantOffset.has_value(),
            "one of keyAntiquantOffsetOptional and valueAntiquantOffsetOptional is null; both or neither");
    require(p.keyAntiquantScale || !p.keyAntiquantOffset,
            "keyAntiquantOffsetOptional is given without keyAntiquantScaleOptional");
    require(!s.rope || !p.keyAntiquantScale || p.keyRopeAntiquantScale,
            "keyRopeAntiquantScaleOptional is null; with queryRope and keyAntiquantScaleOptional it is required");
    s.split = p.keyAntiquantScale.has_value();
    if (pairOfModes(p)) return;
    if (p.keyAntiquantOffset) {
        require(p.keyAntiquantOffset->dtype == p.valueAntiquantOffset->dtype &&
                    p.keyAntiquantOffset->shape == p.valueAntiquantOffset->shape,
                "keyAntiquantOffsetOptional is ", p.keyAntiquantOffset->dtype, " ", p.keyAntiquantOffset->shape,
                " and valueAntiquantOffsetOptional ", p.valueAntiquantOffset->dtype, " ", p.valueAntiquantOffset->shape,
                "; they must be alike");
    }
    if (s.split) {
        require(p.keyAntiquantScale->shape == p.valueAntiquantScale->shape, "keyAntiquantScaleOptional has shape ",
                p.keyAntiquantScale->shape, " and valueAntiquantScaleOptional ", p.valueAntiquantScale->shape,
                "; they must be equal");
    }
}

void readSplitMode(Decode &s) {
    uint32_t mode = bits32(s.p.keyAntiquantMode);
    require(!s.nzCache || mode == 0 || mode == 1, "keyAntiquantMode is ", mode,
            "; with a cache of 5 axes allowed: 0, 1");
    require(!(s.nzCache && s.tokens() && mode == 1), "keyAntiquantMode is 1; with a cache of 5 axes and layout ",
            s.layout, " allowed: 0");
    require(mode <= 5, "keyAntiquantMode is ", mode, "; allowed: 0 to 5");
    s.perHead = oneOf<uint32_t>(mode, {2, 3, 5});
    s.inPages = oneOf<uint32_t>(mode, {4, 5});
    s.antiquantMode = mode == 0 || mode == 2 ? 0 : 1;
    require(!s.inPages || s.paged, "keyAntiquantMode is ", mode, " (scales in pages); it needs blockTableOptional");
}

// ---- antiquantisation: shapes ----

void checkPerToken(const Decode &s, const char *name, const Shape &shape, int64_t parts) {
    bool twoAxes = shape.size() == 2 && (s.nzCache || s.split);
    bool threeAxes = shape.size() == 3 && !s.nzCache && shape[0] == parts;
    require(twoAxes || threeAxes, name, " has shape ", shape, "; a per-token scale is [", parts, ", B, S]",
            s.split ? " or [B, S]" : "");
    int64_t b = shape[shape.size() - 2], length = shape.back();
    require(b == s.batch && length >= s.cacheLength, name, " has shape ", shape, "; B must be ", s.batch,
            " and S at least ", s.cacheLength);
}

void checkPerHead(const Decode &s, const char *name, const Shape &shape) {
    bool fits = s.antiquantMode == 1
                    ? shape.size() == 3 && shape[0] == s.batch && shape[1] == s.kvHeads && shape[2] >= s.cacheLength
                    : shape == Shape{s.kvHeads};
    require(fits, name, " has shape ", shape, "; a scale per head is [N] with N ", s.kvHeads,
            ", a scale per token and head [B, N, S] with B ", s.batch, " and S at least ", s.cacheLength);
}

void checkPerChannel(const Decode &s, const char *name, const Shape &shape, int64_t parts) {
    int64_t n = s.kvHeads, d = s.d;
    if (s.nzCache) {
        Shape wanted = s.layout == "BNSD"                 ? Shape{n, 1, d}
                       : oneOf(s.layout, {"BSND", "TND"}) ? Shape{n, d}
                       : s.layout == "BSH"                ? Shape{times(n, d)}
                                                          : shape;
        require(shape == wanted, name, " has shape ", shape, "; expected ", wanted, " with a cache of 5 axes");
        return;
    }
    bool fits = shape == Shape{parts, n, 1, d} || shape == Shape{parts, 1, n, d} || shape == Shape{parts, n, d} ||
                shape == Shape{parts, times(n, d)};
    require(fits, name, " has shape ", shape, "; a per-channel scale is [", parts, ", ", n, ", 1, ", d, "], [", parts,
            ", ", n, ", ", d, "] or [", parts, ", ", times(n, d), "]");
}

void checkScaleShape(Decode &s, const char *name, const Shape &shape) {
    int64_t parts = s.split ? 1 : 2;
    bool nzChannel = s.antiquantMode == 0 && s.nzCache && shape.size() >= 1 && shape.size() <= 3;
    if (nzChannel) return checkPerChannel(s, name, shape, parts);
    if (s.perHead && !s.inPages) return checkPerHead(s, name, shape);
    if (s.antiquantMode == 1) {
        if (!s.inPages) checkPerToken(s, name, shape, parts);
        return;
    }
    if (shape.size() == 1) {
        s.antiquantMode = 0;
        require(shape == Shape{parts}, name, " has shape ", shape, "; a per-tensor scale is [", parts, "]");
        return;
    }
    require(shape.size() >= 2 && shape.size() <= 4, name, " has shape ", shape, "; 1 to 4 axes are allowed");
    checkPerChannel(s, name, shape, parts);
}

void checkOffsetDtype(const Tensor &scale, const MaybeTensor &offset) {
    require(!offset || offset->dtype == scale.dtype, "an antiquant offset has dtype ",
            offset ? offset->dtype : scale.dtype, "; that of its scale is ", scale.dtype);
}

void checkParameters(Decode &s, const MaybeTensor &scale, const MaybeTensor &offset) {
    const char *name = s.split ? "keyAntiquantScaleOptional" : "antiquantScaleOptional";
    require(s.antiquantMode <= 2, "antiquantMode is ", s.antiquantMode, "; allowed: 0, 1, 2");
    require(scale.has_value(), name, " is null; an ", s.kvDtype, " key needs it");
    require(!offset || offset->shape.size() == scale->shape.size(), name, " has shape ", scale->shape,
            " and its offset ", offset ? offset->shape : Shape{}, "; the number of axes must be equal");
    checkScaleShape(s, name, scale->shape);
    if (offset) checkScaleShape(s, s.split ? "keyAntiquantOffsetOptional" : "antiquantOffsetOptional", offset->shape);
    require(s.antiquantMode != 0 || scale->dtype == s.qDtype, name, " has dtype ", scale->dtype,
            "; per channel or tensor it must be that of query, ", s.qDtype);
    require(s.antiquantMode != 1 || scale->dtype == ACL_FLOAT, name, " has dtype ", scale->dtype,
            "; per token FLOAT is allowed");
    checkOffsetDtype(*scale, offset);
}

void checkSplit(Decode &s) {
    const Params &p = s.p;
    uint32_t k = bits32(p.keyAntiquantMode), v = bits32(p.valueAntiquantMode);
    require(k == v || pairOfModes(p), "keyAntiquantMode is ", k, " and valueAntiquantMode ", v,
            "; they must be equal, or 0 and 1");
    if (pairOfModes(p)) {
        s.antiquantMode = 2;
        require(p.keyAntiquantScale->dtype == s.qDtype, "keyAntiquantScaleOptional has dtype ",
                p.keyAntiquantScale->dtype, "; per channel it must be that of query, ", s.qDtype);
        checkOffsetDtype(*p.keyAntiquantScale, p.keyAntiquantOffset);
        require(p.valueAntiquantScale->dtype == ACL_FLOAT, "valueAntiquantScaleOptional has dtype ",
                p.valueAntiquantScale->dtype, "; per token FLOAT is allowed");
        checkOffsetDtype(*p.valueAntiquantScale, p.valueAntiquantOffset);
    } else {
        readSplitMode(s);
    }
    checkParameters(s, p.keyAntiquantScale, p.keyAntiquantOffset);
}

}  // namespace

void checkDecodeFullQuant(Decode &s) {
    const Params &p = s.p;
    if (s.qDtype != ACL_INT8) {
        require(!p.dequantScaleQuery, "dequantScaleQueryOptional is given; it belongs to an INT8 query");
        return;
    }
    require(s.rope, "query has dtype INT8; it needs queryRope and keyRope");
    require(s.query != Decode::Axes::HeadsFirst, "inputLayout is \"", s.layout,
            "\"; with an INT8 query BSH, BSND or TND is allowed");
    require(!p.quantScale1 && !p.deqScale1 && !p.deqScale2,
            "deqScale1Optional, quantScale1Optional or deqScale2Optional is given; with MLA they must be null");
    require(!p.antiquantScale && !p.antiquantOffset,
            "antiquantScaleOptional or antiquantOffsetOptional is given; with an INT8 query they must be null");
    require(
        !p.keyAntiquantOffset && !p.valueAntiquantOffset,
        "keyAntiquantOffsetOptional or valueAntiquantOffsetOptional is given; with an INT8 query they must be null");
    checkFullScales(s);
    require(p.queryRope->dtype == ACL_BF16 && p.keyRope->dtype == ACL_BF16, "queryRope and keyRope have dtypes ",
            p.queryRope->dtype, " and ", p.keyRope->dtype, "; with an INT8 query BF16 is allowed");
    s.full = true;
}

void checkDecodeAntiquant(Decode &s) {
    const Params &p = s.p;
    if (!s.anti) {
        bool any = p.antiquantScale || p.antiquantOffset || p.keyAntiquantScale || p.keyAntiquantOffset ||
                   p.valueAntiquantScale || p.valueAntiquantOffset || p.keyRopeAntiquantScale;
        require(!any || s.full, "an antiquant scale or offset is given; query and key have the same dtype");
        return;
    }
    checkSplitPresence(s);
    if (s.split) return checkSplit(s);
    s.antiquantMode = bits32(p.antiquantMode);
    checkParameters(s, p.antiquantScale, p.antiquantOffset);
}

void checkDecodeAntiquantPages(const Decode &s) {
    if (!s.inPages) return;
    int64_t blocks = bits32(axis(s.p.key->front().shape, 0));
    for (const MaybeTensor *t : {&s.p.keyAntiquantScale, &s.p.keyAntiquantOffset}) {
        if (!*t) continue;
        const Shape &shape = (*t)->shape;
        bool fits =
            axis(shape, 0) == blocks &&
            (s.perHead ? axis(shape, 1) == s.kvHeads && axis(shape, 2) == s.blockSize : axis(shape, 1) == s.blockSize);
        require(fits, "an antiquant scale or offset has shape ", shape, "; in pages it is [", blocks,
                s.perHead ? ", N, " : ", ", s.blockSize, "]");
    }
}

uint32_t antiquantLength(const Decode &s) {
    if (s.inPages) return s.cacheLength;
    const Shape &shape = s.split ? s.p.valueAntiquantScale->shape : s.p.antiquantScale->shape;
    return bits32(axis(shape, s.nzCache || (s.split && shape.size() == 2) ? 1 : 2));
}

}  // namespace sim::fia
