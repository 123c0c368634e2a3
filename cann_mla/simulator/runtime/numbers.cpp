// Sizes of element types and conversions of half precision, as the C interface offers them.
#include <cstring>

#include "acl/acl_base.h"
#include "core/entry.hpp"

size_t aclDataTypeSize(aclDataType dataType) {
    SIM_API_WITHOUT_STATUS;
    switch (static_cast<int>(dataType)) {
        case ACL_DT_UNDEFINED:
        case ACL_STRING: return 0;
        case ACL_UINT1:
        case ACL_INT4:  // two elements a byte, but CANN answers 1
        case ACL_BOOL:
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_HIFLOAT8:
        case ACL_FLOAT8_E5M2:
        case ACL_FLOAT8_E4M3FN:
        case ACL_FLOAT8_E8M0: return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16: return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
        case ACL_COMPLEX32: return 4;
        case ACL_COMPLEX128: return 16;
        default: return 8;  // the 64-bit types, and in CANN every type not named: FP6 and FP4 too
    }
}

float aclFloat16ToFloat(aclFloat16 value) {
    SIM_API_WITHOUT_STATUS;
    uint32_t sign = static_cast<uint32_t>(value & 0x8000) << 16;
    uint32_t exponent = value >> 10 & 0x1F;
    uint32_t fraction = value & 0x3FF;
    uint32_t bits;
    if (exponent == 0x1F) {
        bits = sign | 0x7F800000 | fraction << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // zero and subnormal numbers
        std::memcpy(&bits, &magnitude, sizeof bits);
        bits |= sign;
    }
    float result;
    std::memcpy(&result, &bits, sizeof result);
    return result;
}

// To nearest, ties to even; too large becomes infinity, NaN stays a quiet NaN.
aclFloat16 aclFloatToFloat16(float value) {
    SIM_API_WITHOUT_STATUS;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return static_cast<aclFloat16>(sign | 0x7E00 | (magnitude >> 13 & 0x1FF));
    if (magnitude >= 0x477FF000) return static_cast<aclFloat16>(sign | 0x7C00);  // 65520 and above
    if (magnitude < 0x38800000) {  // below 2^-14: let the addition round at the last place of a subnormal half
        float small, shifted;
        std::memcpy(&small, &magnitude, sizeof small);
        shifted = small + 0.5f;
        uint32_t rounded;
        std::memcpy(&rounded, &shifted, sizeof rounded);
        return static_cast<aclFloat16>(sign | (rounded - 0x3F000000));
    }
    uint32_t rounding = 0xFFF + (magnitude >> 13 & 1);
    return static_cast<aclFloat16>(sign | ((magnitude - 0x38000000 + rounding) >> 13));
}
