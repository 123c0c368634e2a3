// Masks of the older decode kernel.
#include "ops/fused_infer_attention_decode.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

constexpr int64_t compressed = 2048;

bool isCompressed(const Tensor &mask) { return mask.shape == Shape{compressed, compressed}; }

void checkTokenMask(Decode &s, uint32_t sparse) {
    const MaybeTensor &mask = s.p.attenMask;
    require(oneOf<uint32_t>(sparse, {0, 3, 9}), "sparseMode is ", sparse, "; in layout ", s.layout,
            " allowed: 0, 3, 9");
    if (sparse == 0) {
        require(!mask, "attenMaskOptional is given; with sparseMode 0 and layout ", s.layout, " it must be null");
    } else if (sparse == 3) {
        require(mask && isCompressed(*mask), "attenMaskOptional is null or has shape ", mask ? mask->shape : Shape{},
                "; with sparseMode 3 [2048, 2048] is allowed");
        s.mask = true;
    } else {
        // A tree mask that does not fit is only logged by CANN; the call goes on without a mask.
        s.mask = s.rope && s.full && mask && mask->shape == Shape{s.squaredQuerySum};
    }
}

void checkSparseWithRope(const Decode &s, uint32_t sparse) {
    bool several = s.s > 1, given = s.p.attenMask.has_value();
    bool fits = several ? sparse == 3 || (s.full && sparse == 9) || (!s.full && !s.anti && sparse == 4)
                        : sparse == 0 || s.s == 0 || (!s.full && !s.anti && sparse == 4);
    require(fits, "sparseMode is ", sparse, "; with queryRope allowed: ", several ? "3" : "0",
            s.full   ? several ? ", 9" : ""
            : s.anti ? ""
                     : ", 4");
    require(given || !(several || sparse == 4), "attenMaskOptional is null; sparseMode ", sparse,
            " with queryRope needs it");
    require(!given || several || s.s == 0 || sparse == 4,
            "attenMaskOptional is given; with queryRope, one query token and sparseMode ", sparse, " it must be null");
}

bool treeMaskFits(const Decode &s) { return s.p.attenMask->shape == Shape{s.batch, s.s, s.s}; }

void checkWholeMask(Decode &s) {
    const Tensor &mask = *s.p.attenMask;
    uint32_t rows = static_cast<uint32_t>(axis(mask.shape, 0));
    s.maskColumns = mask.shape.empty() ? 0 : static_cast<uint32_t>(mask.shape.back());
    uint32_t wanted = s.paged ? s.cacheLength : s.longestKv;
    require(rows == s.batch && s.maskColumns >= wanted, "attenMaskOptional has shape ", mask.shape,
            "; axis 0 must be B, ", s.batch, ", and the last axis at least ", wanted);
}

}  // namespace

void checkDecodeMask(Decode &s) {
    auto sparse = static_cast<uint32_t>(s.p.sparseMode);
    if (s.tokens()) return checkTokenMask(s, sparse);
    if (s.rope) checkSparseWithRope(s, sparse);
    if (sparse == 9) {
        require(s.rope && s.full, "sparseMode is 9 (tree mask); it needs INT8 MLA");
        require(s.lengthsUnknown || s.s <= s.cacheLength, "S of query is ", s.s, " and of key ", s.cacheLength,
                "; a tree mask needs a key at least as long");
    }
    const MaybeTensor &mask = s.p.attenMask;
    if (!mask || elements(mask->shape) == 0) return;
    s.mask = true;
    if (sparse == 9 && treeMaskFits(s)) return;
    require(oneOf(mask->dtype, {ACL_BOOL, ACL_INT8, ACL_UINT8}), "attenMaskOptional has dtype ", mask->dtype,
            "; allowed: BOOL, INT8, UINT8");
    if (sparse == 3 || sparse == 4 || s.shortQuery) {
        require(sparse <= 1 || isCompressed(*mask), "attenMaskOptional has shape ", mask->shape, "; with sparseMode ",
                sparse, " [2048, 2048] is allowed");
        return;
    }
    checkWholeMask(s);
}

}  // namespace sim::fia
