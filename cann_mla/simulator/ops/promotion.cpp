#include "ops/promotion.hpp"

#include <algorithm>

namespace sim::primitive {

namespace {

constexpr int64_t mostDimensions = 8;

bool isComplex(aclDataType dtype) { return isOneOf(dtype, {ACL_COMPLEX32, ACL_COMPLEX64, ACL_COMPLEX128}); }

bool isFloating(aclDataType dtype) {
    return isOneOf(dtype, {ACL_DOUBLE, ACL_FLOAT, ACL_BF16, ACL_FLOAT16, ACL_HIFLOAT8, ACL_FLOAT8_E5M2,
                           ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E8M0, ACL_FLOAT6_E3M2, ACL_FLOAT6_E2M3, ACL_FLOAT4_E2M1,
                           ACL_FLOAT4_E1M2});
}

bool isPromotable(aclDataType dtype) {
    return isComplex(dtype) || isOneOf(dtype, {ACL_DOUBLE, ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_UINT8,
                                               ACL_INT16, ACL_INT32, ACL_INT64, ACL_BOOL});
}

}  // namespace

aclDataType promoted(aclDataType a, aclDataType b) {
    if (a == b) return a;
    if (!isPromotable(a) || !isPromotable(b)) return ACL_DT_UNDEFINED;
    auto either = [&](aclDataType dtype) { return a == dtype || b == dtype; };
    bool wide = either(ACL_FLOAT) || (either(ACL_FLOAT16) && either(ACL_BF16));
    if (isComplex(a) || isComplex(b)) {
        if (either(ACL_COMPLEX128) || either(ACL_DOUBLE)) return ACL_COMPLEX128;
        bool narrow = either(ACL_COMPLEX32) && !either(ACL_COMPLEX64) && !either(ACL_FLOAT) && !either(ACL_BF16);
        return narrow ? ACL_COMPLEX32 : ACL_COMPLEX64;
    }
    if (either(ACL_DOUBLE)) return ACL_DOUBLE;
    if (wide) return ACL_FLOAT;
    if (either(ACL_UINT8) && either(ACL_INT8)) return ACL_INT16;
    for (aclDataType dtype : {ACL_FLOAT16, ACL_BF16, ACL_INT64, ACL_INT32, ACL_INT16, ACL_INT8, ACL_UINT8}) {
        if (either(dtype)) return dtype;
    }
    return ACL_BOOL;
}

bool isIntegral(aclDataType dtype) {
    return isOneOf(dtype, {ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_UINT16, ACL_UINT32, ACL_UINT64});
}

bool canCast(aclDataType from, aclDataType to) {
    if (isComplex(from) && !isComplex(to)) return false;
    if (isFloating(from) && isIntegral(to)) return false;
    return from == ACL_BOOL || to != ACL_BOOL;
}

std::optional<std::vector<int64_t>> broadcastShape(const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
    std::vector<int64_t> shape = a.size() >= b.size() ? a : b;
    const std::vector<int64_t> &shorter = a.size() >= b.size() ? b : a;
    for (size_t i = 0; i < shorter.size(); ++i) {
        int64_t &size = shape[shape.size() - 1 - i];
        int64_t other = shorter[shorter.size() - 1 - i];
        if (size != other && size != 1 && other != 1) return std::nullopt;
        if (size == 1) size = other;
    }
    return shape;
}

void requireBroadcast(int32_t status, const Named &a, const Named &b, const Named &result) {
    requireRank(status, a, 0, mostDimensions);
    requireRank(status, b, 0, mostDimensions);
    auto shape = broadcastShape(a.desc->shape, b.desc->shape);
    if (!shape) {
        refuse(status, std::string(a.name) + " has shape " + print(a.desc->shape) + " and " + b.name + " " +
                           print(b.desc->shape) + "; axes must be equal or 1");
    }
    requireShape(status, result, *shape, std::string("what ") + a.name + " and " + b.name + " make together");
}

}  // namespace sim::primitive
