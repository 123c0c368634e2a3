// Element types of HCCL, and reductions over them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hccl/hccl_types.h"

namespace sim::hccl {

// Bytes of an element; 0 for what is no HcclDataType.
size_t elementBytes(HcclDataType dataType);

// into[i] = into[i] op from[i]. A 16-bit float is rounded after each step, as memory-to-memory reduction of a device
// does. The type is one that CANN reduces.
void reduce(HcclDataType dataType, HcclReduceOp op, void *into, const void *from, uint64_t count);

}  // namespace sim::hccl
