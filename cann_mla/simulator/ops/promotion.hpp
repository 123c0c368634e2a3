// The dtype in which an operation on two operands works, and what its result may become.
#pragma once

#include "ops/primitive.hpp"

namespace sim::primitive {

// As nnopbase promotes; ACL_DT_UNDEFINED where it does not.
aclDataType promoted(aclDataType a, aclDataType b);

// A result of `from` may be cast to `to`: not from complex to real, from floating to integer, or to BOOL.
bool canCast(aclDataType from, aclDataType to);

bool isIntegral(aclDataType dtype);  // without BOOL

// The shape of two operands together, NumPy style; nullopt where they do not fit.
std::optional<std::vector<int64_t>> broadcastShape(const std::vector<int64_t> &a, const std::vector<int64_t> &b);

// Both operands have at most eight axes and fit each other, and `result` has the shape they make.
void requireBroadcast(int32_t status, const Named &a, const Named &b, const Named &result);

}  // namespace sim::primitive
