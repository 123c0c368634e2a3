// Attention by blocks: some query rows of some heads against the columns of their key head, a block at a time, with a
// running maximum, sum and output for each row.
#pragma once

#include "ops/fused_infer_attention_operands.hpp"

namespace sim::fia {

// Query heads [head, head + heads) of one key head and rows [row, row + rows) of one batch.
struct Tile {
    int64_t batch, head, heads, row, rows;
};

// How tiles cover the query rows of all batches.
class Tiling {
   public:
    Tiling(const Plan &plan, const std::vector<Batch> &batches);
    size_t count() const { return static_cast<size_t>(starts_.back()); }
    Tile tile(size_t index) const;

   private:
    int64_t rowsPerTile_ = 1, headsPerTile_ = 1, group_ = 1, headTiles_ = 1;  // headTiles_: of one key head
    std::vector<int64_t> starts_, rows_;
    int64_t kvHeads_ = 1;
};

void attend(const Plan &plan, const Operands &operands, const Tile &tile);

// Tells the launch which rows of key, value and keyRope all tiles together read.
void tellRowsRead(const Plan &plan, const Operands &operands, const Tiling &tiling, const Launch &launch);

}  // namespace sim::fia
