// The kernel of AtbMLAPreFill: sequences of equal numbers of queries and keys, causal by a compressed mask or not.
#include <algorithm>
#include <numeric>

#include "atb/attention_tile.hpp"
#include "atb/mla.hpp"
#include "numeric/convert.hpp"
#include "numeric/gemm.hpp"
#include "numeric/parallel.hpp"
#include "ops/fused_infer_attention_softmax.hpp"

namespace sim::atb {

namespace {

constexpr int64_t nope = 128, rope = 64, width = nope + rope, maskSize = 512;
constexpr float bf16MaskFactor = -3e38F;

size_t size(int64_t n) { return static_cast<size_t>(n); }

struct Unit {
    int64_t head, row, rows, columns, queryStart, keyStart;
};

class Prefill {
   public:
    Prefill(const MlaPrefillWork& work, const Launch& launch)
        : w_(work),
          launch_(launch),
          half_(work.bf16 ? numeric::Storage::Bf16 : numeric::Storage::Fp16),
          masked_(work.params.maskType == mlaMaskFree) {}

    void run(const Unit& unit) const {
        static thread_local AttentionTile tile;
        static thread_local std::vector<float> values;
        tile.begin(unit.rows, width, nope, w_.bf16, !w_.bf16);
        values.resize(size(AttentionTile::stripe * nope));
        for (int64_t r = 0; r < unit.rows; ++r)
            read("q", "qRope", unit.queryStart + unit.row + r, unit.head, tile.queryRow(r));
        for (int64_t column = 0; column < unit.columns; column += AttentionTile::stripe) {
            int64_t n = std::min(AttentionTile::stripe, unit.columns - column);
            for (int64_t j = 0; j < n; ++j) {
                int64_t token = unit.keyStart + column + j;
                read("k", "kRope", token, unit.head, tile.keys.data() + j * width);
                decode("v", (token * w_.params.headNum + unit.head) * nope, nope, values.data() + j * nope);
            }
            tile.multiplyKeys(n, 0, width, false);
            for (int64_t r = 0; r < unit.rows; ++r) scaleAndMask(unit.row + r - column, n, tile.scoreRow(r, n));
            tile.absorb(n, values.data(), nope);
        }
        auto* out = launch_.out<uint16_t>("attenOut");
        for (int64_t r = 0; r < unit.rows; ++r) {
            int64_t place = ((unit.queryStart + unit.row + r) * w_.params.headNum + unit.head) * nope;
            const float* row = tile.finishRow(r);
            if (w_.bf16) {
                numeric::floatToBf16(row, out + place, size(nope));
            } else {
                numeric::floatToFp16(row, out + place, size(nope));
            }
        }
    }

   private:
    void decode(const char* name, int64_t element, int64_t n, float* out) const {
        numeric::decode(half_, launch_.in<uint16_t>(name) + element, out, size(n));
    }

    void read(const char* part1, const char* part2, int64_t token, int64_t head, float* out) const {
        int64_t place = token * w_.params.headNum + head;
        decode(part1, place * nope, nope, out);
        decode(part2, place * rope, rope, out + nope);
    }

    // The mask is a sliding template as in RingMLA: its rows below 512 belong to the stripes at the diagonal. As there,
    // the kernel for FP16 keeps scores in FP16 throughout.
    void scaleAndMask(int64_t maskedRow, int64_t n, float* row) const {
        auto round = [&] {
            if (!w_.bf16) fia::roundToFp16(row, size(n));
        };
        round();
        float scale = w_.params.qkScale;
        fia::scale(row, size(n), w_.bf16 ? scale : numeric::fp16ToFloat(numeric::floatToFp16(scale)));
        round();
        if (!masked_ || maskedRow >= maskSize) return;
        float mask[maskSize];
        decode("mask", maskedRow * maskSize, n, mask);
        for (int64_t j = 0; j < n; ++j) row[j] += w_.bf16 ? mask[j] * bf16MaskFactor : mask[j];
        round();
    }

    const MlaPrefillWork& w_;
    const Launch& launch_;
    const numeric::Storage half_;
    const bool masked_;
};

}  // namespace

void mlaPrefillKernel(const MlaPrefillWork& work, const Launch& launch) {
    std::vector<Unit> units;
    int64_t query = 0, key = 0;
    for (size_t i = 0; i < work.lengths.size(); ++i) {
        int64_t length = work.lengths[i];
        bool inside = query + length <= work.tokens && key + length <= work.keyTokens;
        if (!inside) throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "qSeqLen and kvSeqLen reach past the tensors");
        for (int64_t row = 0; row < length; row += AttentionTile::mostRows) {
            int64_t rows = std::min(AttentionTile::mostRows, length - row);
            int64_t columns = work.params.maskType == mlaMaskFree ? row + rows : length;
            for (int64_t head = 0; head < work.params.headNum; ++head)
                units.push_back({head, row, rows, columns, query, key});
        }
        query += length;
        key += work.keyStride ? work.keyStride : length;
    }
    Prefill prefill(work, launch);
    numeric::parallelFor(units.size(), [&](size_t i) { prefill.run(units[i]); });
}

}  // namespace sim::atb
