// The computation behind aclnnFusedInferAttentionScore.
#pragma once

#include "core/operator.hpp"
#include "ops/fused_infer_attention_plan.hpp"

namespace sim::fia {

// A kernel for a call that passed every check.
Kernel makeKernel(Plan plan);

}  // namespace sim::fia
