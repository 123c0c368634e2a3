// The end of a tile: division by the sum, rows that attend to nothing, post quantisation, softmaxLse.
#pragma once

#include "ops/fused_infer_attention_scores.hpp"

namespace sim::fia {

void writeTile(const Plan &plan, const Operands &operands, const Tile &tile, const Window &window, TileState &state);

// What rows hold that no tile writes: zero, and infinity in softmaxLse.
void clearOutputs(const Plan &plan, const Operands &operands);

}  // namespace sim::fia
