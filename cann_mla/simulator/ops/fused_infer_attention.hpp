// One call of aclnnFusedInferAttentionScore (V1 to V5), free of handles and addresses: what the rules judge.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acl/acl_base.h"

namespace sim::fia {

using Shape = std::vector<int64_t>;

struct Tensor {
    Shape shape;
    Shape strides;  // empty: dense
    aclDataType dtype = ACL_FLOAT16;
    aclFormat format = ACL_FORMAT_ND;
};

using MaybeTensor = std::optional<Tensor>;

// An aclIntArray. CANN's tiling sees a tensor of `count` elements whose data pointer is null when the array is
// empty, or when phase one was entered through ...GetMaxWorkspaceSize, which passes counts only.
struct IntArray {
    int64_t count = 0;
    std::vector<int64_t> values;
    bool hasValues() const { return !values.empty(); }
};

using MaybeArray = std::optional<IntArray>;

struct Params {
    int version = 5;
    bool ascend950 = false;

    MaybeTensor query;
    std::optional<std::vector<Tensor>> key, value;
    MaybeTensor pseShift, attenMask;
    MaybeArray actualSeqLengths, actualSeqLengthsKv;
    MaybeTensor deqScale1, quantScale1, deqScale2, quantScale2, quantOffset2;
    MaybeTensor antiquantScale, antiquantOffset;
    MaybeTensor blockTable, queryPaddingSize, kvPaddingSize;
    MaybeTensor keyAntiquantScale, keyAntiquantOffset, valueAntiquantScale, valueAntiquantOffset;
    MaybeTensor keySharedPrefix, valueSharedPrefix;
    MaybeArray actualSharedPrefixLen;
    MaybeTensor queryRope, keyRope, keyRopeAntiquantScale;
    MaybeTensor dequantScaleQuery, learnableSink;
    MaybeArray qStartIdx, kvStartIdx;

    int64_t numHeads = 1;
    double scaleValue = 1.0;
    int64_t preTokens = 2147483647, nextTokens = 2147483647;
    std::optional<std::string> inputLayout = "BSH";
    int64_t numKeyValueHeads = 0;
    int64_t sparseMode = 0, innerPrecise = 0, blockSize = 0, antiquantMode = 0;
    bool softmaxLseFlag = false;
    int64_t keyAntiquantMode = 0, valueAntiquantMode = 0, queryQuantMode = 0, pseType = 0;

    MaybeTensor attentionOut, softmaxLse;
};

enum class Layout { BSH, BSND, BNSD, TND, NTD, NBSD, NSD, BnBsH, BnNBsD, NZ };

struct LayoutPair {
    Layout query, out;
};

// "BSH_NBSD" and the like; nothing for a string that no kernel knows. NSD is not listed: only the prompt path takes it.
std::optional<LayoutPair> parseLayout(const std::string &inputLayout);

constexpr int64_t noAxis = INT64_MIN;  // CANN's answer to a question for an axis that the shape does not have

inline int64_t axis(const Shape &shape, size_t index) { return index < shape.size() ? shape[index] : noAxis; }

inline int64_t elements(const Shape &shape) {
    int64_t n = 1;
    for (int64_t d : shape) {
        if (__builtin_mul_overflow(n, d, &n)) return noAxis;
    }
    return n;
}

// Arithmetic as the machine does it: CANN computes with whatever callers pass, and wraps around.
inline int64_t plus(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t minus(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t times(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t over(int64_t a, int64_t b) { return b == -1 ? minus(0, a) : a / b; }

inline bool isHalf(aclDataType t) { return t == ACL_FLOAT16 || t == ACL_BF16; }

// Attributes that CANN reads as 32 bits although the prototype says 64.
inline int32_t low32(int64_t value) { return static_cast<int32_t>(static_cast<uint64_t>(value)); }

}  // namespace sim::fia
