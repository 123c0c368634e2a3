// From products of query and key to numerators: scale, pse shift, mask, online softmax, rounding.
#pragma once

#include <vector>

#include "ops/fused_infer_attention_flash.hpp"

namespace sim::fia {

// Running results of the rows of a tile; row h * rows + r is head h, row r.
struct TileState {
    int64_t count = 0;
    std::vector<float> maximum, sum, factor;  // factor: what the last block does to the sums before it
    std::vector<float> scoreScale;            // of each row: scaleValue times the scales of query and key
    std::vector<float> output;                // count x Dv, not yet divided by the sum
};

void startTile(const Plan &plan, const Operands &operands, const Tile &tile, TileState &state);

// MXFP8: one query row (of the T axis) times the powers of two of its groups of 32.
void scaleQueryGroups(const Plan &plan, const Operands &operands, int64_t head, int64_t token, float *row);

class Scores {
   public:
    Scores(const Plan &plan, const Operands &operands, const Tile &tile, const Window &window);
    // `scores` is count x n for the columns [column, column + n); it holds the numerators afterwards.
    void toNumerators(int64_t column, int64_t n, float *scores, TileState &state) const;

   private:
    void scaleRow(float *row, int64_t n, float factor) const;
    void addPse(float *row, int64_t head, int64_t queryRow, int64_t column, int64_t n) const;
    void maskWindow(float *row, int64_t queryRow, int64_t column, int64_t n) const;
    void maskUser(float *row, int64_t queryRow, int64_t column, int64_t n) const;
    void maskTree(float *row, int64_t queryRow, int64_t column, int64_t n) const;
    void softmaxRow(float *row, int64_t n, int64_t r, TileState &state) const;
    void quantise(float *row, int64_t n, float blockMaximum) const;

    const Plan &plan_;
    const Operands &o_;
    const Tile &tile_;
    Window window_;
    float masked_;
    float shift_;  // ln pScale: the numerators go up to pScale
};

}  // namespace sim::fia
