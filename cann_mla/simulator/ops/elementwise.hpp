// Products and quotients of two operands that are repeated against each other, whatever their dtypes.
#pragma once

#include "ops/primitive.hpp"

namespace sim::elementwise {

enum class Operation { Multiply, Divide };

struct Task {
    Operation operation;
    aclDataType self, other;
    aclDataType inner;   // both operands are brought to it
    aclDataType result;  // what comes out of the operation, before it is cast to `out`
    aclDataType out;
    std::vector<int64_t> selfShape, otherShape, shape;
};

// Dense operands; `out` may be one of them. Faults for dtypes without a kernel.
void run(const Task &task, const void *self, const void *other, void *out);

}  // namespace sim::elementwise
