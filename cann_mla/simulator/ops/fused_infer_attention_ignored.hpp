// Operands that CANN accepts and then does not use: the device would not tell, strict mode does.
#pragma once

#include "ops/fused_infer_attention_plan.hpp"

namespace sim::fia {

void reportIgnored(const Plan &plan);

}  // namespace sim::fia
