// The kernel of AtbMLA: every query row (a token and a head) against the latent keys of its sequence, whose first 512
// channels are the values too.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "atb/attention_tile.hpp"
#include "atb/mla.hpp"
#include "numeric/convert.hpp"
#include "numeric/gemm.hpp"
#include "numeric/parallel.hpp"

namespace sim::atb {

namespace {

constexpr int64_t latent = 512, rope = 64, width = latent + rope, blockSize = 128;

size_t size(int64_t n) { return static_cast<size_t>(n); }

struct Unit {
    int64_t sequence, firstToken, firstRow, rows;  // rows of the sequence: token x head
};

class Decode {
   public:
    Decode(const MlaWork& work, const Launch& launch)
        : w_(work),
          launch_(launch),
          half_(work.bf16 ? numeric::Storage::Bf16 : numeric::Storage::Fp16),
          nope_(work.params.isInt8() ? numeric::Storage::Int8 : half_) {
        int32_t longest = *std::max_element(work.q.begin(), work.q.end());
        // The kernels for 128 heads, and for int8 with several queries, hide later tokens by themselves.
        implicit_ = work.params.headNum == 128 || (work.params.isInt8() && longest > 1);
    }

    void run(const Unit& unit) const {
        static thread_local AttentionTile tile;
        tile.begin(unit.rows, width, latent, w_.bf16);
        readQueries(unit, tile);
        int64_t keys = w_.kv[size(unit.sequence)];
        // Those that hide by themselves take four blocks at a time: one scale of INT8 probabilities for all four.
        int64_t stripe = implicit_ ? AttentionTile::stripe : blockSize;
        for (int64_t column = 0; column < keys; column += stripe) {
            int64_t n = std::min(stripe, keys - column);
            for (int64_t j = 0; j < n; ++j) readKey(unit.sequence, column + j, tile.keys.data() + j * width);
            score(unit, column, n, tile);
            if (w_.params.isInt8()) {
                tile.absorbInt8(n, tile.keys.data(), width, valueScales(unit));
            } else {
                tile.absorb(n, tile.keys.data(), width);
            }
        }
        write(unit, tile);
    }

   private:
    int64_t heads() const { return w_.params.headNum; }
    int64_t tokenOf(const Unit& unit, int64_t r) const { return unit.firstToken + (unit.firstRow + r) / heads(); }
    int64_t headOf(const Unit& unit, int64_t r) const { return (unit.firstRow + r) % heads(); }

    void decode(numeric::Storage storage, const char* name, int64_t element, int64_t n, float* out) const {
        const auto* data = launch_.in<uint8_t>(name);
        data += size(element) * numeric::storageBytes(storage);
        numeric::decode(storage, data, out, size(n));
        launch_.reads(data, size(n) * numeric::storageBytes(storage));
    }

    void readQueries(const Unit& unit, AttentionTile& tile) const {
        for (int64_t r = 0; r < unit.rows; ++r) {
            int64_t place = tokenOf(unit, r) * heads() + headOf(unit, r);
            decode(nope_, "qNope", place * latent, latent, tile.queryRow(r));
            decode(half_, "qRope", place * rope, rope, tile.queryRow(r) + latent);
        }
    }

    void readKey(int64_t sequence, int64_t token, float* out) const {
        int64_t column = token / blockSize, row = token % blockSize;
        if (column >= w_.tableColumns)
            throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "contextLens reaches past blockTables");
        int64_t block = launch_.in<int32_t>("blockTables")[sequence * w_.tableColumns + column];
        if (block < 0 || block >= w_.blocks) {
            throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "ctKV has no block " + std::to_string(block));
        }
        bool nz = w_.params.cache() != MlaCache::KropeCtkv;
        readChannels(nope_, "ctKV", block, row, latent, nz, out);
        readChannels(half_, "kRope", block, row, rope, nz, out + latent);
    }

    void readChannels(numeric::Storage storage, const char* name, int64_t block, int64_t row, int64_t channels, bool nz,
                      float* out) const {
        if (!nz) return decode(storage, name, (block * blockSize + row) * channels, channels, out);
        int64_t fraction = 32 / static_cast<int64_t>(numeric::storageBytes(storage));
        for (int64_t c = 0; c < channels; c += fraction) {
            int64_t chunk = block * (channels / fraction) + c / fraction;
            decode(storage, name, (chunk * blockSize + row) * fraction, fraction, out + c);
        }
    }

    void score(const Unit& unit, int64_t column, int64_t n, AttentionTile& tile) const {
        if (w_.params.isInt8()) {
            const float* scale = launch_.in<float>("qkDescale");
            tile.multiplyKeys(n, 0, latent, false);  // whole numbers, exact in FLOAT
            for (int64_t r = 0; r < unit.rows; ++r) {
                float *row = tile.scoreRow(r, n), factor = scale[headOf(unit, r)];
                for (int64_t j = 0; j < n; ++j) row[j] *= factor;
            }
            tile.multiplyKeys(n, latent, rope, true);
        } else {
            tile.multiplyKeys(n, 0, width, false);
        }
        for (int64_t r = 0; r < unit.rows; ++r) {
            float* row = tile.scoreRow(r, n);
            for (int64_t j = 0; j < n; ++j) row[j] *= w_.params.qkScale;
            mask(unit, r, column, n, row);
        }
    }

    // `column` starts a block unless the kernel hides by itself.
    void mask(const Unit& unit, int64_t r, int64_t column, int64_t n, float* row) const {
        int64_t token = tokenOf(unit, r), inSequence = token - unit.firstToken;
        int64_t keys = w_.kv[size(unit.sequence)], queries = w_.q[size(unit.sequence)];
        if (implicit_) {
            int64_t last = keys - queries + inSequence;
            for (int64_t j = std::max<int64_t>(last + 1 - column, 0); j < n; ++j) row[j] = -INFINITY;
        } else if (w_.params.isInt8()) {
            return;
        } else if (w_.params.maskType == mlaMaskSpec) {
            addMask(token * w_.maskColumns + column, std::min(n, w_.maskColumns - column), row);
        } else if (w_.params.maskType == mlaMaskFree) {
            // Rows of a template that slides with the number of keys in the last block; it reaches one block back.
            int64_t inLast = (keys - 1) % blockSize + 1, blocksBack = (keys - 1) / blockSize - column / blockSize;
            if (blocksBack > 1 || (blocksBack == 1 && inLast >= queries - 1)) return;
            int64_t plane = unit.sequence * w_.maskPlane;
            addMask(plane + (inLast - 1 + inSequence + blocksBack * blockSize) * w_.maskColumns, n, row);
        }
    }

    // Past the end of the tensor the kernel would find something, here nothing.
    void addMask(int64_t start, int64_t n, float* row) const {
        int64_t there = std::clamp<int64_t>(w_.maskNumel - start, 0, std::max<int64_t>(n, 0));
        std::vector<float> values(size(there));
        decode(half_, "mask", start, there, values.data());
        for (int64_t j = 0; j < there; ++j) row[j] += values[size(j)];
    }

    std::vector<float> valueScales(const Unit& unit) const {
        const float* scale = launch_.in<float>("pvDescale");
        std::vector<float> rows(size(unit.rows));
        for (int64_t r = 0; r < unit.rows; ++r) rows[size(r)] = scale[headOf(unit, r)];
        return rows;
    }

    void write(const Unit& unit, AttentionTile& tile) const {
        auto* out = launch_.out<uint16_t>("attenOut");
        for (int64_t r = 0; r < unit.rows; ++r) {
            int64_t place = tokenOf(unit, r) * heads() + headOf(unit, r);
            encode(tile.finishRow(r), out + place * latent, latent);
            if (!w_.params.givesLse()) continue;
            float lse = tile.lse(r);
            if (w_.params.isInt8()) {
                launch_.out<float>("lse")[place] = lse;
            } else {
                encode(&lse, launch_.out<uint16_t>("lse") + place, 1);
            }
        }
    }

    void encode(const float* values, uint16_t* out, int64_t n) const {
        if (w_.bf16) {
            numeric::floatToBf16(values, out, size(n));
        } else {
            numeric::floatToFp16(values, out, size(n));
        }
    }

    const MlaWork& w_;
    const Launch& launch_;
    const numeric::Storage half_, nope_;
    bool implicit_;
};

}  // namespace

void mlaKernel(const MlaWork& work, const Launch& launch) {
    std::vector<Unit> units;
    int64_t token = 0;
    for (size_t i = 0; i < work.q.size(); ++i) {
        // A sequence without keys is passed over: its rows of the outputs stay as they are.
        int64_t rows = work.kv[i] > 0 ? int64_t{work.q[i]} * work.params.headNum : 0;
        if (rows > 0 && (token < 0 || token + work.q[i] > work.tokens)) {
            throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION,
                              "qSeqLen leaves the tokens of qNope: sequence " + std::to_string(i) + " has " +
                                  std::to_string(token) + " to " + std::to_string(token + work.q[i] - 1) + " of " +
                                  std::to_string(work.tokens));
        }
        for (int64_t row = 0; row < rows; row += AttentionTile::mostRows) {
            units.push_back({static_cast<int64_t>(i), token, row, std::min(AttentionTile::mostRows, rows - row)});
        }
        token += work.q[i];
    }
    Decode decode(work, launch);
    numeric::parallelFor(units.size(), [&](size_t i) { decode.run(units[i]); });
}

}  // namespace sim::atb
