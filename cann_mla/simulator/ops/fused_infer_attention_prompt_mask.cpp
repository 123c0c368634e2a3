// Masks, bands and the pse shift of the older prompt kernel.
#include "ops/fused_infer_attention_prompt.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

constexpr int64_t unlimited = 214748647;  // CANN's constant, a digit short of 2^31

uint32_t bits32(int64_t value) { return static_cast<uint32_t>(value); }

int64_t negated(int64_t value) { return minus(0, value); }

struct Band {
    int64_t pre, next;
    int32_t mode;  // 0 without a mask
};

Band effectiveBand(const Prompt &s) {
    const Params &p = s.p;
    int32_t sparse = low32(p.sparseMode);
    Band band{p.preTokens, p.nextTokens, p.attenMask ? sparse : 0};
    if (p.attenMask && sparse >= 1 && sparse <= 3) band.pre = unlimited;
    if (p.attenMask && sparse == 2) band.next = 0;
    if (p.attenMask && sparse == 1) band.next = unlimited;
    bool plain = sparse == 0 && (!s.hasMask() || p.queryPaddingSize || p.kvPaddingSize);
    if (plain) band.pre = band.next = unlimited;
    return band;
}

struct Lengths {
    int64_t q, kv;
};

Lengths lengthsOf(const Prompt &s, size_t i) {
    int64_t q = hasValues(s.p.actualSeqLengths) ? promptLength(s.p.actualSeqLengths, i) : s.s;
    int64_t kv = hasValues(s.p.actualSeqLengthsKv) ? promptLength(s.p.actualSeqLengthsKv, i)
                 : s.list                          ? s.listLengths[i]
                                                   : s.longestKv;
    return {q, plus(kv, s.prefixLength)};
}

void checkPlainBatch(const Prompt &s, const Band &band, const Lengths &lens) {
    bool next = band.next < 0 && lens.q != s.s && negated(band.next) >= lens.q;
    bool pre = band.pre < 0 && negated(band.pre) >= lens.kv;
    require(!next && !pre, "preTokens is ", band.pre, " and nextTokens ", band.next, "; a batch of ", lens.q,
            " query and ", lens.kv, " key tokens is all outside the band");
}

// Post quantisation with an offset must not meet rows that attend to nothing.
void checkRowsForOffset(const Prompt &s, const Band &band, const Lengths &lens) {
    const MaybeTensor &offset = s.p.quantOffset2;
    if (!s.int8Out() || !offset || elements(offset->shape) == 0) return;
    int64_t pre = band.pre, next = band.next, ahead = minus(lens.kv, lens.q);
    if (band.mode == 3) {
        pre = unlimited;
        next = ahead;
    } else if (band.mode == 4) {
        pre = minus(pre, ahead);
        next = plus(next, ahead);
    }
    require(plus(pre, ahead) >= 0 && next >= 0, "quantOffset2Optional is given, and a batch of ", lens.q, " query and ",
            lens.kv, " key tokens has rows that attend to nothing");
}

void checkBandBatch(const Prompt &s, const Lengths &lens) {
    int64_t pre = s.p.preTokens, next = s.p.nextTokens;
    require(!(next < 0 && negated(next) >= lens.kv) && !(pre < 0 && negated(pre) >= lens.q), "preTokens is ", pre,
            " and nextTokens ", next, "; a batch of ", lens.q, " query and ", lens.kv,
            " key tokens is all outside the band");
}

}  // namespace

void checkPromptMask(const Prompt &s) {
    int32_t sparse = low32(s.p.sparseMode);
    if (s.hasMask()) {
        const Shape &mask = s.p.attenMask->shape;
        require(mask.size() >= 2 && mask.size() <= 4, "attenMaskOptional has shape ", mask,
                "; 2 to 4 axes are allowed");
        uint32_t b = mask.size() == 2 ? 1 : bits32(mask[0]), n = mask.size() == 4 ? bits32(mask[1]) : 1;
        uint32_t rows = bits32(mask[mask.size() - 2]), columns = bits32(mask.back());
        uint64_t wanted = static_cast<uint32_t>(s.longestKv + s.prefixLength);
        if (sparse == 0 || sparse == 1) {
            require(rows >= s.s && columns >= wanted && (b == 1 || b == s.b), "attenMaskOptional has shape ", mask,
                    "; expected at least ", s.s, " rows and ", wanted, " columns, with B 1 or ", s.b);
        }
        if (sparse >= 2 && sparse <= 4) {
            require(b == 1 && n == 1 && rows == 2048 && columns == 2048, "attenMaskOptional has shape ", mask,
                    "; with sparseMode ", sparse, " [2048, 2048] is allowed");
        }
    }
    require(sparse >= 0 && sparse <= 4, "sparseMode is ", sparse, "; allowed: 0 to 4");
    require(sparse == 0 || s.hasMask(), "attenMaskOptional is null or empty; sparseMode ", sparse, " needs it");
}

void checkPromptPse(const Prompt &s) {
    const Params &p = s.p;
    if (!p.pseShift) return;
    aclDataType wanted = s.int8Query() ? ACL_FLOAT16 : p.query->dtype;
    require(p.pseShift->dtype == wanted, "pseShiftOptional has dtype ", p.pseShift->dtype, "; allowed: ", wanted);
    const Shape &pse = p.pseShift->shape;
    if (elements(pse) == 0) return;
    require(pse.size() == 4, "pseShiftOptional has shape ", pse, "; 4 axes are allowed");
    uint32_t b = bits32(pse[0]);
    bool fits = (b == 1 || b == s.b) && static_cast<int64_t>(bits32(pse[1])) == p.numHeads && bits32(pse[2]) >= s.s &&
                bits32(pse[3]) >= s.longestKv;
    require(fits, "pseShiftOptional has shape ", pse, "; expected [1 or ", s.b, ", ", p.numHeads, ", at least ", s.s,
            ", at least ", s.longestKv, "]");
}

void checkPromptBand(const Prompt &s) {
    const Params &p = s.p;
    Band band = effectiveBand(s);
    bool plain = low32(p.sparseMode) == 0, isBand = band.mode == 4;
    require(!isBand || p.preTokens >= 0 || p.nextTokens >= 0, "preTokens is ", p.preTokens, " and nextTokens ",
            p.nextTokens, "; both must not be negative");
    require(band.pre >= 0 || band.next >= 0, "preTokens is ", band.pre, " and nextTokens ", band.next,
            "; both must not be negative");
    require(negated(band.next) <= band.pre, "preTokens is ", band.pre, " and nextTokens ", band.next,
            "; their sum must not be negative");
    int64_t columns = static_cast<int32_t>(s.longestKv) + static_cast<int64_t>(static_cast<int32_t>(s.prefixLength));
    bool outside = plain && ((band.next < 0 && negated(band.next) >= static_cast<int32_t>(s.s)) ||
                             (band.pre < 0 && negated(band.pre) >= columns));
    require(!outside, "preTokens is ", band.pre, " and nextTokens ", band.next, "; everything is outside the band");
    band.pre = std::min(band.pre, unlimited);
    band.next = std::min(band.next, unlimited);
    require(p.numHeads > 0 && static_cast<uint64_t>(p.numHeads) <= s.h, "numHeads is ", p.numHeads,
            "; allowed: 1 to H, ", s.h);
    require(!(s.int8Out() && isBand && (band.pre < 0 || band.next < 0)), "preTokens is ", band.pre, " and nextTokens ",
            band.next, "; with sparseMode 4 and INT8 output they must not be negative");
    for (uint32_t i = 0; i < s.b; ++i) {
        Lengths lens = lengthsOf(s, i);
        if (plain) checkPlainBatch(s, band, lens);
        checkRowsForOffset(s, band, lens);
        if (isBand) checkBandBatch(s, lens);
    }
}

}  // namespace sim::fia
