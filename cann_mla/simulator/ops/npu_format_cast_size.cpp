// aclnnNpuFormatCastCalculateSizeAndFormat: which storage shape and format the result of a cast needs.
#include "aclnnop/aclnn_npu_format_cast.h"

#include <algorithm>
#include <limits>

#include "core/objects.hpp"
#include "ops/npu_format_cast.hpp"

namespace sim::format_cast {

using namespace primitive;

namespace {

constexpr const char *api = "aclnnNpuFormatCastCalculateSizeAndFormat";

struct Answer {
    std::vector<int64_t> shape;
    std::optional<int> format;  // left alone for additional dtypes that CANN's table lacks
};

// The size of an element as CANN counts it: in bytes, huge for 4-bit types, negative for unknown ones.
int64_t bytesOf(int dtype) {
    int64_t bits = elementBits(static_cast<aclDataType>(dtype));
    return bits == 0 ? -1 : bits < 8 ? 1000 + bits : bits / 8;
}

// CANN's division, which answers a width of 0 with the smallest number.
int64_t ceilDivide(int64_t size, int64_t unit) {
    return unit == 0 ? std::numeric_limits<int64_t>::min() : (size + unit - 1) / unit;
}

void requireNoZero(int32_t status, const TensorDesc &src) {
    if (src.isEmpty()) refuse(status, "srcTensor has shape " + print(src.shape) + "; no axis may be 0");
}

void requireAdditional(int additional, std::initializer_list<aclDataType> allowed) {
    TensorDesc stand;
    stand.dtype = static_cast<aclDataType>(additional);
    requireDtype(paramInvalid, {"additionalDtype", &stand}, allowed);
}

void check950(const TensorDesc &src, int additional) {
    requireDtype(paramInvalid, {"srcTensor", &src},
                 {ACL_INT8, ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32, ACL_FLOAT8_E4M3FN, ACL_FLOAT4_E2M1,
                  ACL_HIFLOAT8, ACL_UINT8, ACL_FLOAT4_E1M2});
    requireNoZero(paramInvalid, src);
    bool same = additional == src.dtype;
    if (same && isOneOf(src.dtype, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16})) {
        requireRank(paramInvalid, {"srcTensor", &src}, 2, 6);
        if (src.shape[src.shape.size() - 2] == 1) {
            refuse(paramInvalid, "srcTensor has shape " + print(src.shape) + "; its last but one axis must not be 1");
        }
        return;
    }
    if (same) {
        requireAdditional(additional,
                          {ACL_INT8, ACL_UINT8, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8, ACL_FLOAT4_E2M1, ACL_FLOAT4_E1M2});
        return requireRank(paramInvalid, {"srcTensor", &src}, 2, 6);
    }
    if (src.dtype == ACL_INT32) requireAdditional(additional, {ACL_FLOAT16, ACL_BF16, ACL_INT8});
    if (src.dtype == ACL_FLOAT) {
        requireAdditional(additional, {ACL_FLOAT16, ACL_BF16, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8, ACL_UINT8});
    }
    requireRank(paramInvalid, {"srcTensor", &src}, 2, 3);
}

Answer blocksOf(const TensorDesc &src, int64_t width, std::optional<int> format) {
    Answer answer{{src.shape.begin(), src.shape.end() - 2}, format};
    answer.shape.insert(answer.shape.end(), {ceilDivide(src.shape.back(), width),
                                             ceilDivide(src.shape[src.shape.size() - 2], weight_layout::blockRows),
                                             weight_layout::blockRows, width});
    return answer;
}

Answer toBlocks(const TensorDesc &src, int additional) {
    if (!isA950()) {
        requireNoZero(runtimeError, src);
        requireRank(paramInvalid, {"srcTensor", &src}, 2, std::numeric_limits<int64_t>::max());
        return blocksOf(src, 32 / bytesOf(additional), ACL_FORMAT_FRACTAL_NZ);
    }
    check950(src, additional);
    if (additional == src.dtype) return blocksOf(src, weight_layout::blockWidth(src.dtype), ACL_FORMAT_FRACTAL_NZ);
    if (bytesOf(additional) == 2) return blocksOf(src, 16, ACL_FORMAT_FRACTAL_NZ_C0_16);
    if (additional == ACL_FLOAT8_E4M3FN || additional == ACL_INT8) {
        return blocksOf(src, 32, ACL_FORMAT_FRACTAL_NZ_C0_32);
    }
    return blocksOf(src, 16, std::nullopt);
}

Answer toRows(const TensorDesc &src) {
    if (isA950()) {
        bool stored = src.storageShape.size() >= 4 && src.storageShape.size() <= 8 &&
                      src.storageShape.back() == weight_layout::blockWidth(src.dtype);
        for (int64_t size : src.storageShape) stored = stored && size != 0;
        if (!stored) {
            refuse(paramInvalid, "srcTensor has storage shape " + print(src.storageShape) +
                                     "; FRACTAL_NZ has 4 to 8 dimensions, none of them 0, the last 32 bytes wide");
        }
    } else {
        requireNoZero(runtimeError, src);
    }
    return {src.shape, ACL_FORMAT_ND};
}

Answer answerFor(const aclTensor *handle, int dstFormat, int additional) {
    if (!handle) refuse(paramInvalid, "srcTensor is null; it is required");
    auto object = lookupAs<TensorObject>(handle, Kind::Tensor);
    if (!object) refuse(paramInvalid, "srcTensor: " + badHandle(handle, Kind::Tensor));
    const TensorDesc &src = object->desc;
    requireDtype(paramInvalid, {"srcTensor", &src},
                 {ACL_INT8, ACL_UINT8, ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32, ACL_UINT32, ACL_FLOAT8_E4M3FN,
                  ACL_FLOAT4_E2M1, ACL_HIFLOAT8, ACL_FLOAT4_E1M2});
    if (additional == -1) additional = src.dtype;
    bool plain = src.format == ACL_FORMAT_ND || src.format == ACL_FORMAT_NCL;
    if (dstFormat == ACL_FORMAT_FRACTAL_NZ && (plain || (additional == src.dtype && isPlain(src.format)))) {
        return toBlocks(src, additional);
    }
    if (isNz(src) && dstFormat == ACL_FORMAT_ND) return toRows(src);
    refuse(runtimeError, std::string("srcTensor has format ") + formatName(src.format) + " and dstFormat is " +
                             std::to_string(dstFormat) +
                             "; the simulator knows ND to FRACTAL_NZ (29) and FRACTAL_NZ to ND (2)");
}

}  // namespace

}  // namespace sim::format_cast

// The caller frees the array with delete[].
extern "C" aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor *srcTensor, int dstFormat,
                                                                int additionalDtype, int64_t **dstShape,
                                                                uint64_t *dstShapeSize, int *actualFormat) {
    using namespace sim;
    if (!dstShape || !dstShapeSize || !actualFormat) {
        return fail(format_cast::api, primitive::paramInvalid,
                    "dstShape, dstShapeSize or actualFormat is null (real CANN crashes here)");
    }
    format_cast::Answer answer;
    auto refusal = primitive::caught([&] { answer = format_cast::answerFor(srcTensor, dstFormat, additionalDtype); });
    if (refusal) return fail(format_cast::api, *refusal);
    *dstShapeSize = answer.shape.size();
    *dstShape = new int64_t[answer.shape.size()];
    std::copy(answer.shape.begin(), answer.shape.end(), *dstShape);
    if (answer.format) *actualFormat = *answer.format;
    return 0;
}
