// The kernel of SelfAttentionPrefixEncoder: causal from the bottom right, with a bias by distance on request.
#include <algorithm>
#include <cmath>
#include <string>

#include "atb/attention_tile.hpp"
#include "atb/self_attention_prefix_encoder.hpp"
#include "numeric/convert.hpp"
#include "numeric/gemm.hpp"
#include "numeric/parallel.hpp"

namespace sim::atb {

namespace {

constexpr int64_t maskBlock = 128;

size_t size(int64_t n) { return static_cast<size_t>(n); }

struct Unit {
    int64_t sequence, head, row, rows, queryStart;
};

class PrefixAttention {
   public:
    PrefixAttention(const PrefixEncoderWork& work, const Launch& launch)
        : w_(work), launch_(launch), half_(work.bf16 ? numeric::Storage::Bf16 : numeric::Storage::Fp16) {}

    void run(const Unit& unit) const {
        static thread_local AttentionTile tile;
        static thread_local std::vector<float> values;
        int64_t d = w_.headSize, prefix = w_.kv[size(unit.sequence)] - w_.q[size(unit.sequence)];
        tile.begin(unit.rows, d, d, w_.bf16);
        values.resize(size(AttentionTile::stripe * d));
        for (int64_t r = 0; r < unit.rows; ++r) decode("query", place(unit, r), tile.queryRow(r));
        // Blocks of keys right of the diagonal one are never looked at.
        int64_t columns = std::min<int64_t>(w_.kv[size(unit.sequence)], prefix + unit.row + maskBlock);
        for (int64_t column = 0; column < columns; column += AttentionTile::stripe) {
            int64_t n = std::min(AttentionTile::stripe, columns - column);
            for (int64_t j = 0; j < n; ++j) {
                int64_t stored = storedPlace(unit, column + j);
                decode("key", stored, tile.keys.data() + j * d);
                decode("value", stored, values.data() + j * d);
            }
            tile.multiplyKeys(n, 0, d, false);
            for (int64_t r = 0; r < unit.rows; ++r) scaleAndBias(unit, prefix, r, column, n, tile.scoreRow(r, n));
            tile.absorb(n, values.data(), d);
        }
        for (int64_t r = 0; columns > 0 && r < unit.rows; ++r) {
            uint16_t* out = launch_.out<uint16_t>("attnOut") + place(unit, r);
            if (w_.bf16) {
                numeric::floatToBf16(tile.finishRow(r), out, size(d));
            } else {
                numeric::floatToFp16(tile.finishRow(r), out, size(d));
            }
        }
    }

   private:
    int64_t place(const Unit& unit, int64_t r) const {
        return ((unit.queryStart + unit.row + r) * w_.params.headNum + unit.head) * w_.headSize;
    }

    int64_t storedPlace(const Unit& unit, int64_t token) const {
        int64_t column = token / w_.blockSize, kvHeads = w_.params.kvHeads();
        if (column >= w_.tableColumns)
            throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "kvSeqLen reaches past blockTables");
        int64_t block = launch_.in<int32_t>("blockTables")[unit.sequence * w_.tableColumns + column];
        if (block < 0 || block >= w_.blocks) {
            throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "key has no block " + std::to_string(block));
        }
        int64_t kvHead = unit.head / (w_.params.headNum / kvHeads);
        return ((block * w_.blockSize + token % w_.blockSize) * kvHeads + kvHead) * w_.headSize;
    }

    void decode(const char* name, int64_t element, float* out) const {
        const uint16_t* row = launch_.in<uint16_t>(name) + element;
        numeric::decode(half_, row, out, size(w_.headSize));
        launch_.reads(row, size(w_.headSize) * sizeof *row);
    }

    void scaleAndBias(const Unit& unit, int64_t prefix, int64_t r, int64_t column, int64_t n, float* row) const {
        for (int64_t j = 0; j < n; ++j) row[j] *= w_.params.qkScale;
        int64_t own = prefix + unit.row + r;
        for (int64_t j = 0; j < n; j += maskBlock) {
            int64_t count = std::min(maskBlock, n - j), blocksBack = (prefix + unit.row - column - j) / maskBlock;
            if (w_.params.isCausal()) {
                for (int64_t c = std::max<int64_t>(own + 1 - column - j, 0); c < count; ++c) row[j + c] = -INFINITY;
            } else if (w_.params.hasSlopes()) {
                addDistances(unit.head, r, blocksBack, count, row + j);
            } else if (blocksBack == 0) {
                addTriangle(r, count, row + j);
            }
        }
    }

    // The triangle of 128 lies over the diagonal block; as in RingMLA, BF16 holds 1 where FP16 holds what is added.
    void addTriangle(int64_t r, int64_t n, float* row) const {
        float mask[maskBlock];
        numeric::decode(half_, launch_.in<uint16_t>("mask") + r * maskBlock, mask, size(n));
        for (int64_t c = 0; c < n; ++c) row[c] += w_.bf16 ? mask[c] * -3e38F : mask[c];
    }

    // Rows 0..127 of the mask [256, 256] hold the distances of the diagonal block, the others those of the block before
    // it, from which the kernel goes on: one block further back, 128 more, or the square root of that.
    void addDistances(int64_t head, int64_t r, int64_t blocksBack, int64_t n, float* row) const {
        constexpr int64_t stride = 2 * maskBlock;
        float mask[maskBlock], slope = launch_.in<float>("slopes")[head];
        int64_t maskRow = blocksBack == 0 ? r : maskBlock + r;
        numeric::decode(half_, launch_.in<uint16_t>("mask") + maskRow * stride, mask, size(n));
        auto further = static_cast<float>(maskBlock * (blocksBack - 1));
        for (int64_t c = 0; c < n; ++c) {
            float distance = mask[c];
            if (blocksBack > 0) {
                distance = w_.params.isSquareRoot() ? std::sqrt(distance * distance + further) : distance + further;
            }
            row[c] += distance * slope;
        }
    }

    const PrefixEncoderWork& w_;
    const Launch& launch_;
    const numeric::Storage half_;
};

}  // namespace

void prefixEncoderKernel(const PrefixEncoderWork& work, const Launch& launch) {
    std::vector<Unit> units;
    int64_t token = 0;
    for (size_t i = 0; i < work.q.size(); ++i) {
        for (int64_t row = 0; row < work.q[i]; row += AttentionTile::mostRows) {
            int64_t rows = std::min(AttentionTile::mostRows, work.q[i] - row);
            for (int64_t head = 0; head < work.params.headNum; ++head) {
                units.push_back({static_cast<int64_t>(i), head, row, rows, token});
            }
        }
        token += work.q[i];
    }
    if (token > work.tokens)
        throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "seqLen adds up to more tokens than query has");
    PrefixAttention attention(work, launch);
    numeric::parallelFor(units.size(), [&](size_t i) { attention.run(units[i]); });
}

}  // namespace sim::atb
