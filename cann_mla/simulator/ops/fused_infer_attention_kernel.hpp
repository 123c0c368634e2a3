// The computation behind aclnnFusedInferAttentionScore.
#pragma once

#include "core/operator.hpp"
#include "ops/fused_infer_attention_routes.hpp"

namespace sim::fia {

// A kernel for a call that passed every check.
Kernel makeKernel(const Params &params, Route route);

}  // namespace sim::fia
