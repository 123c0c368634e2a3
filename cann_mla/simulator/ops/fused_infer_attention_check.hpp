// Judging one call of aclnnFusedInferAttentionScore, in CANN's order. Each function throws the first Rejection.
#pragma once

#include "ops/fused_infer_attention.hpp"

namespace sim::fia {

// Null operands (161001), list lengths, dtypes and formats of the operator definition (161002).
void checkDefinition(const Params &params);

// Every output is empty: CANN answers 0 with workspace 0 and looks no further.
bool producesNothing(const Params &params);

// Tiling (561002): on 950 the shared checkers; on A2 and A3 whichever kernel the call is routed to, which is returned.
enum class Route;
Route checkTiling(const Params &params);

// INT32 key and value tensors hold eight INT4 values an element; afterwards they are INT4 tensors.
void unpackInt4(Params &params);

}  // namespace sim::fia
