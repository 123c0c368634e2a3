#include "ops/npu_format_cast.hpp"

namespace sim::format_cast {

using namespace primitive;

namespace {

constexpr int64_t bytesOfBlockRow = 32;

void requireListed(const TensorDesc &src, const TensorDesc &dst) {
    for (const Named &operand : {Named{"srcTensor", &src}, {"dstTensor", &dst}}) {
        if (isA950()) {
            requireDtype(paramInvalid, operand,
                         {ACL_INT8, ACL_UINT8, ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32, ACL_UINT32,
                          ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8, ACL_FLOAT4_E2M1, ACL_FLOAT4_E1M2});
        } else {
            requireDtype(paramInvalid, operand,
                         {ACL_INT8, ACL_UINT8, ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32, ACL_UINT32});
        }
    }
}

void requireDense(const Named &operand) {
    if (operand.desc->isDense()) return;
    refuse(paramInvalid, std::string(operand.name) + " is a strided view with strides " + print(operand.desc->strides) +
                             "; it must be dense");
}

void require950Dtypes(const TensorDesc &src, const TensorDesc &dst) {
    for (const Named &operand : {Named{"srcTensor", &src}, {"dstTensor", &dst}}) {
        requireDtype(paramInvalid, operand,
                     {ACL_INT8, ACL_UINT8, ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8,
                      ACL_FLOAT4_E2M1, ACL_FLOAT4_E1M2});
    }
}

void check950ToBlocks(const TensorDesc &src, const TensorDesc &dst) {
    require950Dtypes(src, dst);
    bool narrow = src.dtype == dst.dtype && isOneOf(src.dtype, {ACL_INT8, ACL_UINT8, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8,
                                                                ACL_FLOAT4_E2M1, ACL_FLOAT4_E1M2});
    bool floating = isOneOf(src.dtype, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
    bool plainOnly = src.format == ACL_FORMAT_ND || (floating && src.format == ACL_FORMAT_NCL);
    if (!narrow && !plainOnly) {
        refuse(paramInvalid, std::string("srcTensor has format ") + formatName(src.format) + "; for " +
                                 dtypeName(src.dtype) + " allowed: ND");
    }
    if (!narrow && !floating) {
        requireDtype(paramInvalid, {"srcTensor", &src}, {ACL_INT32, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8, ACL_UINT8});
    }
    int64_t most = narrow || floating ? 6 : 3;
    requireRank(paramInvalid, {"srcTensor", &src}, 2, most);
    auto stored = static_cast<int64_t>(dst.storageShape.size());
    if (stored < 4 || stored > most + 2) {
        refuse(paramInvalid, "dstTensor has storage shape " + print(dst.storageShape) + "; it must have 4 to " +
                                 std::to_string(most + 2) + " dimensions");
    }
}

void check950ToRows(const TensorDesc &src, const TensorDesc &dst) {
    require950Dtypes(src, dst);
    int64_t width =
        isOneOf(src.dtype, {ACL_FLOAT4_E2M1}) ? 2 * bytesOfBlockRow : bytesOfBlockRow * 8 / elementBits(src.dtype);
    bool served = !isOneOf(src.dtype, {ACL_HIFLOAT8, ACL_FLOAT4_E1M2});
    if (!served) {
        refuse(paramInvalid,
               std::string("srcTensor has dtype ") + dtypeName(src.dtype) + "; it cannot come back to ND");
    }
    bool fits = dst.rank() >= 2 && dst.rank() <= 6 && !src.storageShape.empty() && src.storageShape.back() == width;
    fits = fits && src.storageShape == weight_layout::blockShape(dst.shape, width);
    for (int64_t size : src.storageShape) fits = fits && size != 0;
    if (fits) return;
    refuse(paramInvalid, "srcTensor has storage shape " + print(src.storageShape) + "; for the shape " +
                             print(dst.shape) + " of dstTensor it must hold its blocks of 16 rows and " +
                             std::to_string(width) + " columns");
}

}  // namespace

std::optional<Rejection> checkCast(const TensorDesc *src, const TensorDesc *dst, const PhaseOne &call) {
    return caught([&] {
        requirePointers(call);
        requirePresent(innerNullptr, {{"srcTensor", src}, {"dstTensor", dst}});
        if (isA950() && isPlain(src->format) && isNz(*dst) &&
            (src->format == ACL_FORMAT_ND || src->format == ACL_FORMAT_NCL || src->dtype == dst->dtype)) {
            return check950ToBlocks(*src, *dst);
        }
        if (isA950() && isNz(*src) && isPlain(dst->format)) return check950ToRows(*src, *dst);
        requireDense({"srcTensor", src});
        requireDense({"dstTensor", dst});
        requireListed(*src, *dst);
    });
}

}  // namespace sim::format_cast
