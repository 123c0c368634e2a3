/* op::fp16_t, which samples use for host data. C++ only. Conversions are those of the ACL library. */
#ifndef CANN_MLA_ACLNN_OPDEV_FP16_T_H
#define CANN_MLA_ACLNN_OPDEV_FP16_T_H

#ifdef __cplusplus

#include <type_traits>

#include "acl/acl_base.h"

namespace op {

class fp16_t {
public:
    fp16_t() = default;
    /* As in CANN, uint16_t is taken for the bits and every other number for a value. */
    constexpr fp16_t(uint16_t bits) : val(bits) {}
    template <typename T, typename = std::enable_if_t<std::is_arithmetic<T>::value>>
    fp16_t(T value) : val(aclFloatToFloat16(static_cast<float>(value))) {}
    operator float() const { return aclFloat16ToFloat(val); }

    uint16_t val = 0;
};

static_assert(sizeof(fp16_t) == 2, "arrays of it are device data");

}  // namespace op

#endif /* __cplusplus */

#endif
