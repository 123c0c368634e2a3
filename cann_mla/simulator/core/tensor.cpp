#include "core/tensor.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace sim {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// Dimensions may be anything, negative ones too: CANN takes them at creation and judges later.
int64_t saturatingProduct(const std::vector<int64_t> &dims) {
    int64_t product = 1;
    for (int64_t dim : dims) {
        if (dim == 0) return 0;
        if (__builtin_mul_overflow(product, dim, &product)) product = kMax;
    }
    return product;
}

struct DtypeInfo {
    aclDataType dtype;
    int64_t bits;
    const char *name;
};

constexpr DtypeInfo kDtypes[] = {
    {ACL_FLOAT, 32, "FP32"},
    {ACL_FLOAT16, 16, "FP16"},
    {ACL_INT8, 8, "INT8"},
    {ACL_INT32, 32, "INT32"},
    {ACL_UINT8, 8, "UINT8"},
    {ACL_INT16, 16, "INT16"},
    {ACL_UINT16, 16, "UINT16"},
    {ACL_UINT32, 32, "UINT32"},
    {ACL_INT64, 64, "INT64"},
    {ACL_UINT64, 64, "UINT64"},
    {ACL_DOUBLE, 64, "FP64"},
    {ACL_BOOL, 8, "BOOL"},
    {ACL_STRING, 0, "STRING"},
    {ACL_COMPLEX64, 64, "COMPLEX64"},
    {ACL_COMPLEX128, 128, "COMPLEX128"},
    {ACL_BF16, 16, "BF16"},
    {ACL_INT4, 4, "INT4"},
    {ACL_UINT1, 1, "UINT1"},
    {ACL_COMPLEX32, 32, "COMPLEX32"},
    {ACL_HIFLOAT8, 8, "HIFLOAT8"},
    {ACL_FLOAT8_E5M2, 8, "FLOAT8_E5M2"},
    {ACL_FLOAT8_E4M3FN, 8, "FLOAT8_E4M3FN"},
    {ACL_FLOAT8_E8M0, 8, "FLOAT8_E8M0"},
    {ACL_FLOAT6_E3M2, 6, "FLOAT6_E3M2"},
    {ACL_FLOAT6_E2M3, 6, "FLOAT6_E2M3"},
    {ACL_FLOAT4_E2M1, 4, "FLOAT4_E2M1"},
    {ACL_FLOAT4_E1M2, 4, "FLOAT4_E1M2"},
};

const DtypeInfo *findDtype(aclDataType dtype) {
    const auto *found =
        std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const DtypeInfo &info) { return info.dtype == dtype; });
    return found == std::end(kDtypes) ? nullptr : found;
}

// Names of codes without one; valid until the next four calls in the thread.
const char *numbered(const char *what, int code) {
    thread_local char buffers[4][32];
    thread_local unsigned next = 0;
    char *buffer = buffers[next++ % 4];
    std::snprintf(buffer, sizeof buffers[0], "%s %d", what, code);
    return buffer;
}

}  // namespace

int64_t elementBits(aclDataType dtype) {
    const DtypeInfo *info = findDtype(dtype);
    return info == nullptr ? 0 : info->bits;
}

int64_t packedBytes(int64_t count, aclDataType dtype) {
    int64_t bits;
    if (count < 0 || __builtin_mul_overflow(count, elementBits(dtype), &bits) || bits > kMax - 7) return kMax;
    return (bits + 7) / 8;
}

const char *dtypeName(aclDataType dtype) {
    const DtypeInfo *info = findDtype(dtype);
    return info == nullptr ? numbered("dtype", dtype) : info->name;
}

bool isNamed(aclDataType dtype) { return findDtype(dtype) != nullptr; }

bool isNamed(aclFormat format) {
    static constexpr int kNamed[] = {-1, 0, 1, 2, 3, 4, 12, 16, 27, 29, 30, 32, 33, 35, 47, 50, 51, 52, 53, 54};
    return std::find(std::begin(kNamed), std::end(kNamed), static_cast<int>(format)) != std::end(kNamed);
}

const char *formatName(aclFormat format) {
    switch (format) {
        case ACL_FORMAT_UNDEFINED: return "UNDEFINED";
        case ACL_FORMAT_NCHW: return "NCHW";
        case ACL_FORMAT_NHWC: return "NHWC";
        case ACL_FORMAT_ND: return "ND";
        case ACL_FORMAT_NC1HWC0: return "NC1HWC0";
        case ACL_FORMAT_FRACTAL_Z: return "FRACTAL_Z";
        case ACL_FORMAT_FRACTAL_NZ: return "FRACTAL_NZ";
        case ACL_FORMAT_FRACTAL_NZ_C0_16: return "FRACTAL_NZ_C0_16";
        case ACL_FORMAT_FRACTAL_NZ_C0_32: return "FRACTAL_NZ_C0_32";
        case ACL_FORMAT_FRACTAL_NZ_C0_2: return "FRACTAL_NZ_C0_2";
        case ACL_FORMAT_FRACTAL_NZ_C0_4: return "FRACTAL_NZ_C0_4";
        case ACL_FORMAT_FRACTAL_NZ_C0_8: return "FRACTAL_NZ_C0_8";
        default: return numbered("format", format);
    }
}

bool isPrivateFormat(aclFormat format) {
    switch (format) {
        case ACL_FORMAT_NC1HWC0:
        case ACL_FORMAT_FRACTAL_Z:
        case ACL_FORMAT_NC1HWC0_C04:
        case ACL_FORMAT_FRACTAL_NZ:
        case ACL_FORMAT_NDC1HWC0:
        case ACL_FRACTAL_Z_3D:
        case ACL_FORMAT_FRACTAL_NZ_C0_16:
        case ACL_FORMAT_FRACTAL_NZ_C0_32:
        case ACL_FORMAT_FRACTAL_NZ_C0_2:
        case ACL_FORMAT_FRACTAL_NZ_C0_4:
        case ACL_FORMAT_FRACTAL_NZ_C0_8: return true;
        default: return false;
    }
}

int64_t TensorDesc::numel() const { return saturatingProduct(shape); }

int64_t TensorDesc::storageNumel() const { return saturatingProduct(storageShape); }

bool TensorDesc::isDense() const {
    int64_t count = numel();
    if (count == 0 || count == 1) return true;
    int64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0;) {
        if (shape[i] != 1 && strides[i] != expected) return false;
        if (__builtin_mul_overflow(expected, shape[i], &expected)) expected = kMax;
    }
    return true;
}

bool TensorDesc::staysInStorage() const {
    int64_t last = offset;
    for (size_t i = 0; i < shape.size(); ++i) {
        int64_t steps, reach;
        if (strides[i] < 0 || __builtin_sub_overflow(shape[i], 1, &steps) ||
            __builtin_mul_overflow(steps, strides[i], &reach) || __builtin_add_overflow(last, reach, &last)) {
            return false;
        }
    }
    return offset >= 0 && last < storageNumel();
}

int64_t TensorDesc::extentBytes() const {
    if (isEmpty()) return 0;
    if (isPrivateFormat(format)) return packedBytes(std::max(storageNumel(), numel()), dtype);
    if (isDense()) return packedBytes(numel(), dtype);
    int64_t count = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
        int64_t steps, reach;
        if (strides[i] < 0 || __builtin_sub_overflow(shape[i], 1, &steps) ||
            __builtin_mul_overflow(steps, strides[i], &reach) || __builtin_add_overflow(count, reach, &count)) {
            return kMax;
        }
    }
    return packedBytes(count, dtype);
}

}  // namespace sim
