#include "atb/utils.h"

#include <algorithm>

#include "atb/checks.hpp"
#include "core/tensor.hpp"

namespace atb {

uint64_t Utils::GetTensorNumel(const TensorDesc& tensorDesc) {
    uint64_t count = tensorDesc.shape.dimNum == 0 || tensorDesc.shape.dimNum > MAX_DIM ? 0 : 1;
    for (uint64_t axis = 0; count != 0 && axis < tensorDesc.shape.dimNum; ++axis) {
        int64_t size = tensorDesc.shape.dims[axis];
        if (size <= 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(size), &count)) return 0;
    }
    return count;
}

uint64_t Utils::GetTensorSize(const TensorDesc& tensorDesc) {
    uint64_t count = GetTensorNumel(tensorDesc), bytes = 0;
    if (!sim::atb::hasSize(tensorDesc.dtype)) return 0;
    // ATB counts a byte for a tensor without a dtype.
    uint64_t each = tensorDesc.dtype == ACL_DT_UNDEFINED
                        ? 1
                        : static_cast<uint64_t>(std::max<int64_t>(sim::packedBytes(1, tensorDesc.dtype), 0));
    return __builtin_mul_overflow(count, each, &bytes) ? 0 : bytes;
}

uint64_t Utils::GetTensorSize(const Tensor& tensor) { return GetTensorSize(tensor.desc); }
uint64_t Utils::GetTensorNumel(const Tensor& tensor) { return GetTensorNumel(tensor.desc); }

}  // namespace atb
