#include "ops/fused_infer_attention_flash.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "numeric/blas.hpp"
#include "ops/fused_infer_attention_output.hpp"
#include "ops/fused_infer_attention_scores.hpp"
#include "ops/fused_infer_attention_softmax.hpp"

namespace sim::fia {

namespace {

constexpr int64_t rowsWanted = 256, rowsAllowed = 512;  // of one tile, all heads together
constexpr int64_t largestBlock = 512;

// The floats that a thread works in; kept from tile to tile.
struct Scratch {
    std::vector<float> query, keys, values, scores;
    TileState state;
};

size_t size(int64_t n) { return static_cast<size_t>(n); }

void grow(std::vector<float> &buffer, int64_t count) {
    if (buffer.size() < size(count)) buffer.resize(size(count));
}

void readQuery(const Plan &plan, const Operands &o, const Tile &tile, std::vector<float> &query) {
    int64_t width = plan.d + plan.dRope;
    grow(query, tile.heads * tile.rows * width);
    const Batch &batch = o.batches[size(tile.batch)];
    for (int64_t h = 0; h < tile.heads; ++h) {
        for (int64_t r = 0; r < tile.rows; ++r) {
            auto offset = [&](const Steps &s) {
                return tile.batch * s.batch + (tile.head + h) * s.head + (batch.queryStart + tile.row + r) * s.token;
            };
            float *row = query.data() + (h * tile.rows + r) * width;
            decodeElements(plan.p.query->dtype, o.query, offset(plan.query), plan.d, row);
            if (plan.dRope > 0) {
                decodeElements(plan.p.queryRope->dtype, o.queryRope, offset(plan.queryRope), plan.dRope, row + plan.d);
            }
            if (o.queryGroups) scaleQueryGroups(plan, o, tile.head + h, batch.queryStart + tile.row + r, row);
        }
    }
}

// Columns [column, column + count) of the batch, prefix first.
void readStored(const Plan &plan, const Operands &o, const Stored &stored, int64_t batch, int64_t head, int64_t column,
                int64_t count, float *out) {
    int64_t ld = stored.width + stored.ropeWidth,
            fromPrefix = std::clamp<int64_t>(plan.prefixLength - column, 0, count);
    int64_t keyStart = o.batches[size(batch)].keyStart;
    if (fromPrefix > 0) stored.prefix->read(0, head, column, fromPrefix, out, ld);
    if (fromPrefix < count) {
        int64_t token = column + fromPrefix - plan.prefixLength + keyStart;
        float *own = out + fromPrefix * ld;
        stored.own->read(batch, head, token, count - fromPrefix, own, ld);
        if (stored.rope) stored.rope->read(batch, head, token, count - fromPrefix, own + stored.width, ld);
    }
    stored.scales.apply(batch, head, column + (plan.tokens ? 0 : keyStart), count, out, ld);
}

struct Range {
    int64_t first, end;
};

// The columns that any row of the tile sees.
Range columnsOf(const Plan &plan, const Operands &o, const Tile &tile, const Window &window) {
    int64_t all = o.batches[size(tile.batch)].columns + plan.prefixLength;
    int64_t end = std::min(all, tile.row + tile.rows + window.next);
    return {std::max<int64_t>(tile.row - window.pre, 0), all > o.unmaskedFrom ? all : end};
}

// Columns of one block. The size shows in the output only where numerators are scaled to the block's maximum.
int64_t columnsOfBlock(const Plan &plan) {
    return plan.p.ascend950 && plan.numerator == Numerator::BlockMax ? 128 : largestBlock;
}

void rescale(TileState &state, int64_t dv) {
    for (int64_t r = 0; r < state.count; ++r) {
        float factor = state.factor[size(r)];
        if (factor != 1.0F) scale(state.output.data() + r * dv, size(dv), factor);
    }
}

}  // namespace

Tiling::Tiling(const Plan &plan, const std::vector<Batch> &batches) : group_(plan.group), kvHeads_(plan.kvHeads) {
    int64_t longest = 1;
    for (const Batch &batch : batches) longest = std::max(longest, batch.rows);
    headsPerTile_ = std::min(group_, rowsWanted);
    rowsPerTile_ = std::min(longest, std::max<int64_t>(rowsWanted / headsPerTile_, 16));
    while (headsPerTile_ > 1 && headsPerTile_ * rowsPerTile_ > rowsAllowed) headsPerTile_ = (headsPerTile_ + 1) / 2;
    headTiles_ = (group_ + headsPerTile_ - 1) / headsPerTile_;
    starts_.push_back(0);
    for (const Batch &batch : batches) {
        int64_t rowTiles = (batch.rows + rowsPerTile_ - 1) / rowsPerTile_;
        starts_.push_back(starts_.back() + rowTiles * headTiles_ * kvHeads_);
        rows_.push_back(batch.rows);
    }
}

// Later rows first: with a causal mask they take longest.
Tile Tiling::tile(size_t index) const {
    auto i = static_cast<int64_t>(index);
    auto batch = std::upper_bound(starts_.begin(), starts_.end(), i) - starts_.begin() - 1;
    int64_t left = i - starts_[size(batch)], rows = rows_[size(batch)];
    int64_t rowTiles = (rows + rowsPerTile_ - 1) / rowsPerTile_;
    int64_t rowTile = rowTiles - 1 - left / (headTiles_ * kvHeads_);
    int64_t headTile = left % (headTiles_ * kvHeads_);
    int64_t inGroup = headTile % headTiles_ * headsPerTile_;
    Tile tile;
    tile.batch = batch;
    tile.head = headTile / headTiles_ * group_ + inGroup;
    tile.heads = std::min(headsPerTile_, group_ - inGroup);
    tile.row = rowTile * rowsPerTile_;
    tile.rows = std::min(rowsPerTile_, rows - tile.row);
    return tile;
}

void attend(const Plan &plan, const Operands &o, const Tile &tile) {
    static thread_local Scratch scratch;
    const Batch &batch = o.batches[size(tile.batch)];
    Window window = windowOf(plan, batch);
    Range range = columnsOf(plan, o, tile, window);
    if (range.first >= range.end) return;  // the output is zero there already
    int64_t kvHead = tile.head / plan.group, width = plan.d + plan.dRope, count = tile.heads * tile.rows;
    readQuery(plan, o, tile, scratch.query);
    TileState &state = scratch.state;
    startTile(plan, o, tile, state);
    Scores scores(plan, o, tile, window);
    int64_t step = columnsOfBlock(plan);
    grow(scratch.keys, step * width);
    grow(scratch.values, step * plan.dv);
    grow(scratch.scores, count * step);
    for (int64_t column = range.first; column < range.end; column += step) {
        int64_t n = std::min(step, range.end - column);
        readStored(plan, o, o.keys, tile.batch, kvHead, column, n, scratch.keys.data());
        numeric::sgemm(size(count), size(n), size(width), scratch.query.data(), size(width), scratch.keys.data(),
                       size(width), 0.0F, scratch.scores.data(), size(n), numeric::Transposed::No,
                       numeric::Transposed::Yes);
        scores.toNumerators(column, n, scratch.scores.data(), state);
        rescale(state, plan.dv);
        const float *values = scratch.keys.data();
        if (!o.valuesAreKeys) {
            readStored(plan, o, o.values, tile.batch, kvHead, column, n, scratch.values.data());
            values = scratch.values.data();
        }
        numeric::sgemm(size(count), size(plan.dv), size(n), scratch.scores.data(), size(n), values,
                       size(o.valuesAreKeys ? width : plan.dv), 1.0F, state.output.data(), size(plan.dv));
    }
    writeTile(plan, o, tile, window, state);
}

void tellRowsRead(const Plan &plan, const Operands &o, const Tiling &tiling, const Launch &launch) {
    std::map<std::pair<int64_t, int64_t>, Range> seen;  // of a batch and a head of key and value
    for (size_t i = 0; i < tiling.count(); ++i) {
        const Tile tile = tiling.tile(i);
        Range range = columnsOf(plan, o, tile, windowOf(plan, o.batches[size(tile.batch)]));
        if (range.first >= range.end) continue;
        Range &all = seen.try_emplace({tile.batch, tile.head / plan.group}, range).first->second;
        all = {std::min(all.first, range.first), std::max(all.end, range.end)};
    }
    for (const auto &[place, range] : seen) {
        const auto [batch, head] = place;
        int64_t first = std::max<int64_t>(range.first - plan.prefixLength, 0), count = range.end - plan.prefixLength - first;
        if (count <= 0) continue;
        int64_t token = first + o.batches[size(batch)].keyStart;
        o.keys.own->tell(launch, batch, head, token, count);
        o.values.own->tell(launch, batch, head, token, count);
        if (o.keys.rope) o.keys.rope->tell(launch, batch, head, token, count);
    }
}

}  // namespace sim::fia
