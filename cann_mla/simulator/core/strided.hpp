// Copies between strided views and dense memory.
#pragma once

#include "core/tensor.hpp"

namespace sim __attribute__((visibility("default"))) {

// The elements of the view, in row-major order, to `dense`. `base` is where element 0 of the view lies.
void gather(const TensorDesc &view, const void *base, void *dense);

// The reverse. Where elements of the view overlap, the last one in row-major order stays.
void scatter(const TensorDesc &view, const void *dense, void *base);

}  // namespace sim
