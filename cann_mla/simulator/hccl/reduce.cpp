#include "hccl/reduce.hpp"

#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "numeric/convert.hpp"

namespace sim::hccl {
namespace {

template <typename T>
T combine(HcclReduceOp op, T a, T b) {
    // Integers wrap around.
    using Wide = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;
    switch (op) {
        case HCCL_REDUCE_SUM: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
        case HCCL_REDUCE_PROD: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
        case HCCL_REDUCE_MAX: return std::max(a, b);
        default: return std::min(a, b);
    }
}

template <typename T>
void reduceAs(HcclReduceOp op, void *into, const void *from, uint64_t count) {
    T *a = static_cast<T *>(into);
    const T *b = static_cast<const T *>(from);
    for (uint64_t i = 0; i < count; ++i) a[i] = combine(op, a[i], b[i]);
}

template <typename Decode, typename Encode>
void reduceHalf(HcclReduceOp op, void *into, const void *from, uint64_t count, Decode decode, Encode encode) {
    auto *a = static_cast<uint16_t *>(into);
    const auto *b = static_cast<const uint16_t *>(from);
    for (uint64_t i = 0; i < count; ++i) a[i] = encode(combine(op, decode(a[i]), decode(b[i])));
}

}  // namespace

size_t elementBytes(HcclDataType dataType) {
    switch (dataType) {
        case HCCL_DATA_TYPE_INT8:
        case HCCL_DATA_TYPE_UINT8: return 1;
        case HCCL_DATA_TYPE_INT16:
        case HCCL_DATA_TYPE_UINT16:
        case HCCL_DATA_TYPE_FP16:
        case HCCL_DATA_TYPE_BFP16: return 2;
        case HCCL_DATA_TYPE_INT32:
        case HCCL_DATA_TYPE_UINT32:
        case HCCL_DATA_TYPE_FP32: return 4;
        case HCCL_DATA_TYPE_INT64:
        case HCCL_DATA_TYPE_UINT64:
        case HCCL_DATA_TYPE_FP64: return 8;
        case HCCL_DATA_TYPE_INT128: return 16;
    }
    return 0;
}

void reduce(HcclDataType dataType, HcclReduceOp op, void *into, const void *from, uint64_t count) {
    switch (dataType) {
        case HCCL_DATA_TYPE_INT8: return reduceAs<int8_t>(op, into, from, count);
        case HCCL_DATA_TYPE_INT16: return reduceAs<int16_t>(op, into, from, count);
        case HCCL_DATA_TYPE_INT32: return reduceAs<int32_t>(op, into, from, count);
        case HCCL_DATA_TYPE_INT64: return reduceAs<int64_t>(op, into, from, count);
        case HCCL_DATA_TYPE_UINT64: return reduceAs<uint64_t>(op, into, from, count);
        case HCCL_DATA_TYPE_FP32: return reduceAs<float>(op, into, from, count);
        case HCCL_DATA_TYPE_FP64: return reduceAs<double>(op, into, from, count);
        case HCCL_DATA_TYPE_FP16:
            return reduceHalf(op, into, from, count, [](uint16_t bits) { return numeric::fp16ToFloat(bits); },
                              [](float value) { return numeric::floatToFp16(value); });
        case HCCL_DATA_TYPE_BFP16:
            return reduceHalf(op, into, from, count, [](uint16_t bits) { return numeric::bf16ToFloat(bits); },
                              [](float value) { return numeric::floatToBf16(value); });
        default: throw std::logic_error("a type that HCCL does not reduce came past its checks");
    }
}

}  // namespace sim::hccl
