// How findings name calls and memory.
#pragma once

#include <string>

#include "checker/finding.hpp"
#include "checker/memory.hpp"

namespace sim::checker {

// "aclnnAbs on stream 3"
std::string nameOf(const Actor &actor);
// " (model.py:12 in run)"; empty when unknown.
std::string placeOf(const Actor &actor);
// " as keyCacheRef"; empty when the access is of no operand.
std::string roleOf(const Access &access);

// "[2, 16] BF16"
std::string textOf(const TensorDesc &desc);
ObjectText textOf(const Memory &memory, const char *operand, const TensorObject *tensor);

}  // namespace sim::checker
