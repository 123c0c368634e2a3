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

size_t size(int64_t n) { return static_cast<size_t>(n); }

struct Unit {
    int64_t sequence, head, row, rows, queryStart;
};

class PrefixAttention {
   public:
    PrefixAttention(const PrefixEncoderWork &work, const Launch &launch)
        : w_(work), launch_(launch), half_(work.bf16 ? numeric::Storage::Bf16 : numeric::Storage::Fp16) {}

    void run(const Unit &unit) const {
        static thread_local AttentionTile tile;
        static thread_local std::vector<float> values;
        int64_t d = w_.headSize, prefix = w_.kv[size(unit.sequence)] - w_.q[size(unit.sequence)];
        tile.begin(unit.rows, d, d, w_.bf16);
        values.resize(size(AttentionTile::stripe * d));
        for (int64_t r = 0; r < unit.rows; ++r) decode("query", place(unit, r), tile.queryRow(r));
        int64_t columns = std::min<int64_t>(w_.kv[size(unit.sequence)], prefix + unit.row + unit.rows);
        for (int64_t column = 0; column < columns; column += AttentionTile::stripe) {
            int64_t n = std::min(AttentionTile::stripe, columns - column);
            for (int64_t j = 0; j < n; ++j) {
                int64_t stored = storedPlace(unit, column + j);
                decode("key", stored, tile.keys.data() + j * d);
                decode("value", stored, values.data() + j * d);
            }
            tile.multiplyKeys(n, 0, d, false);
            for (int64_t r = 0; r < unit.rows; ++r) biasRow(unit.head, prefix + unit.row + r - column, n, tile.scoreRow(r, n));
            tile.absorb(n, values.data(), d);
        }
        for (int64_t r = 0; columns > 0 && r < unit.rows; ++r) {
            uint16_t *out = launch_.out<uint16_t>("attnOut") + place(unit, r);
            if (w_.bf16) {
                numeric::floatToBf16(tile.finishRow(r), out, size(d));
            } else {
                numeric::floatToFp16(tile.finishRow(r), out, size(d));
            }
        }
    }

   private:
    int64_t place(const Unit &unit, int64_t r) const {
        return ((unit.queryStart + unit.row + r) * w_.params.headNum + unit.head) * w_.headSize;
    }

    int64_t storedPlace(const Unit &unit, int64_t token) const {
        int64_t column = token / w_.blockSize, kvHeads = w_.params.kvHeads();
        if (column >= w_.tableColumns) throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "kvSeqLen reaches past blockTables");
        int64_t block = launch_.in<int32_t>("blockTables")[unit.sequence * w_.tableColumns + column];
        if (block < 0 || block >= w_.blocks) {
            throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "key has no block " + std::to_string(block));
        }
        int64_t kvHead = unit.head / (w_.params.headNum / kvHeads);
        return ((block * w_.blockSize + token % w_.blockSize) * kvHeads + kvHead) * w_.headSize;
    }

    void decode(const char *name, int64_t element, float *out) const {
        numeric::decode(half_, launch_.in<uint16_t>(name) + element, out, size(w_.headSize));
    }

    // `last` is the column of the row's own token; later ones are hidden.
    void biasRow(int64_t head, int64_t last, int64_t n, float *row) const {
        float slope = w_.params.hasSlopes() ? launch_.in<float>("slopes")[head] : 0.0F;
        for (int64_t j = 0; j < n; ++j) {
            auto distance = static_cast<float>(last - j);
            float bias = w_.params.isSquareRoot() ? std::sqrt(std::max(distance, 0.0F)) : distance;
            row[j] = j > last ? -INFINITY : row[j] * w_.params.qkScale - slope * bias;
        }
    }

    const PrefixEncoderWork &w_;
    const Launch &launch_;
    const numeric::Storage half_;
};

}  // namespace

void prefixEncoderKernel(const PrefixEncoderWork &work, const Launch &launch) {
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
    if (token > work.tokens) throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "seqLen adds up to more tokens than query has");
    PrefixAttention attention(work, launch);
    numeric::parallelFor(units.size(), [&](size_t i) { attention.run(units[i]); });
}

}  // namespace sim::atb
