/* atb::Utils: sizes of tensors. C++ only. */
#ifndef CANN_MLA_ATB_UTILS_H
#define CANN_MLA_ATB_UTILS_H

#ifdef __cplusplus

#include <cstdint>

#include "atb/types.h"

namespace atb {

/* 0 for a tensor without dimensions, with a dimension of 0 or below, or of a dtype that ATB does not know. */
class ATB_VISIBILITY Utils {
public:
    static uint64_t GetTensorSize(const Tensor &tensor); /* in bytes */
    static uint64_t GetTensorSize(const TensorDesc &tensorDesc);
    static uint64_t GetTensorNumel(const Tensor &tensor);
    static uint64_t GetTensorNumel(const TensorDesc &tensorDesc);
};

}  // namespace atb

#endif /* __cplusplus */

#endif
