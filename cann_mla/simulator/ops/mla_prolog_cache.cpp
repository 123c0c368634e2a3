#include "ops/mla_prolog_cache.hpp"

#include "acl/error_codes/rt_error_codes.h"
#include "core/error.hpp"
#include "numeric/convert.hpp"
#include "numeric/parallel.hpp"
#include "ops/mla_prolog_math.hpp"
#include "ops/mla_prolog_query.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace sim::mla_prolog {
namespace {

[[noreturn]] void fault(const std::string &text) { throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, text); }

// Walks through the sequences of a (T, He) call: which one a token belongs to, where it starts, and where its entries
// of cacheIndex start. Tokens behind the last sequence count as its continuation, as on the device.
class SequenceCursor {
   public:
    SequenceCursor(const int32_t *ends, int64_t count, int64_t blockSize)
        : ends_(ends), count_(count), blockSize_(blockSize) {}

    void moveTo(int64_t token) {
        while (current_ + 1 < count_ && token >= ends_[current_]) {
            entry_ += (ends_[current_] - start_ + blockSize_ - 1) / blockSize_;
            start_ = ends_[current_];
            ++current_;
        }
    }
    int64_t start() const { return start_; }
    int64_t entry() const { return entry_; }

   private:
    const int32_t *ends_;  // inclusive prefix sums of the lengths
    int64_t count_;
    int64_t blockSize_;
    int64_t current_ = 0;
    int64_t start_ = 0;
    int64_t entry_ = 0;
};

// Entry of cacheIndex that names the token's block, and the token's position in its sequence.
struct Entry {
    int64_t index;
    int64_t position;
};

int64_t blockRow(const Plan &plan, const int64_t *cacheIndex, Entry entry, int64_t token) {
    const int64_t index = entry.index + entry.position / plan.blockSize;
    if (entry.position < 0 || index < 0 || index >= plan.cacheIndexCount) {
        fault("token " + std::to_string(token) + " needs entry " + std::to_string(index) + " of cacheIndexOptional, " +
              "which has " + std::to_string(plan.cacheIndexCount) + "; look at actualSeqLenOptional");
    }
    const int64_t block = cacheIndex[index];
    return block < 0 ? -1 : block * plan.blockSize + entry.position % plan.blockSize;
}

std::vector<int64_t> blockRows(const Plan &plan, const Operands &operands) {
    std::vector<int64_t> rows(static_cast<size_t>(plan.tokens));
    SequenceCursor cursor(operands.actualSeqLen, plan.batches, plan.blockSize);
    for (int64_t token = 0; token < plan.tokens; ++token) {
        Entry entry{};
        if (plan.tokensPerBatch > 0) {
            const int64_t perBatch = (plan.tokensPerBatch + plan.blockSize - 1) / plan.blockSize;
            entry = {token / plan.tokensPerBatch * perBatch, token % plan.tokensPerBatch};
        } else {
            cursor.moveTo(token);
            entry = {cursor.entry(), token - cursor.start()};
        }
        rows[static_cast<size_t>(token)] = blockRow(plan, operands.cacheIndex, entry, token);
    }
    return rows;
}

}  // namespace

std::vector<int64_t> cacheRowsOf(const Plan &plan, const Operands &operands) {
    std::vector<int64_t> rows(static_cast<size_t>(plan.tokens));
    if (isBlockIndexed(plan.cacheMode)) {
        rows = blockRows(plan, operands);
    } else {
        const bool paged = isPaged(plan.cacheMode);
        for (size_t i = 0; i < rows.size(); ++i) rows[i] = paged ? operands.cacheIndex[i] : static_cast<int64_t>(i);
    }
    for (size_t token = 0; token < rows.size(); ++token) {
        if (rows[token] >= plan.cacheRows) {
            fault("cacheIndexOptional sends token " + std::to_string(token) + " to row " + std::to_string(rows[token]) +
                  " of kvCacheRef, which has " + std::to_string(plan.cacheRows));
        }
    }
    return rows;
}

CachePath::CachePath(const Plan &plan, const Operands &operands) : plan_(plan), operands_(operands) {
    if (plan.cacheRows == 0) return;  // no block: the query is all there is to compute
    rows_ = cacheRowsOf(plan, operands);
    projection_ = tokenProjection(plan, operands.weightDkvKr, operands.dequantScaleWDkvKr);
    gamma_.resize(kHckv);
    numeric::bf16ToFloat(operands.rmsnormGammaCkv, gamma_.data(), gamma_.size());
}

void CachePath::run(const float *x, int64_t first, int64_t count) const {
    if (rows_.empty()) return;
    constexpr size_t columns = kHckv + kDr, rowBytes = kHckv * 2, ropeBytes = kDr * 2;
    const auto rows = static_cast<size_t>(count);
    std::vector<float> kv(rows * columns);
    std::vector<uint8_t> kvRows(rows * rowBytes), krRows(rows * ropeBytes);
    const auto *tokenScale = static_cast<const float *>(operands_.dequantScaleX);
    projection_.all(x, rows, tokenScale != nullptr ? tokenScale + first : nullptr, columns, kv.data());
    numeric::parallelFor(rows, [&](size_t i) {
        makeRow(kv.data() + i * columns, first + static_cast<int64_t>(i), kvRows.data() + i * rowBytes,
                krRows.data() + i * ropeBytes);
    });
    // In token order, so that the last of several tokens sent to one row stays.
    const bool tiled = plan_.scenario.kv == KvQuant::PerTile;
    const int64_t kvElements = tiled ? plan_.cacheWidth : kHckv;
    for (size_t i = 0; i < rows; ++i) {
        const int64_t row = rows_[static_cast<size_t>(first) + i];
        if (row < 0) continue;
        write(operands_.kvCache, plan_.cacheWidth, packedBytes(1, plan_.scenario.kvCacheDtype()), row,
              kvRows.data() + i * rowBytes, kvElements);
        if (tiled) continue;
        write(operands_.krCache, kDr, packedBytes(1, plan_.scenario.krCacheDtype()), row,
              krRows.data() + i * ropeBytes, kDr);
    }
}

// kvRow takes up to 1024 bytes, krRow up to 128.
void CachePath::makeRow(const float *kv, int64_t token, uint8_t *kvRow, uint8_t *krRow) const {
    float nope[kHckv], rotated[kDr];
    rmsNorm(kv, kHckv, gamma_.data(), plan_.epsilonCkv, plan_.alphaCkv, nope);
    quantiseNope(nope, kvRow);
    rotate(kv + kHckv, operands_.ropeCos + token * kDr, operands_.ropeSin + token * kDr, rotated);
    uint16_t rope[kDr];
    numeric::floatToBf16(rotated, rope, kDr);
    if (plan_.scenario.kv == KvQuant::PerChannel) {
        for (int64_t i = 0; i < kDr; ++i) rotated[i] = numeric::bf16ToFloat(rope[i]) * operands_.quantScaleCkr[i];
        encode(ACL_INT8, rotated, kDr, krRow);
    } else {
        const bool tiled = plan_.scenario.kv == KvQuant::PerTile;
        std::memcpy(tiled ? kvRow + kHckv : krRow, rope, sizeof rope);
    }
}

void CachePath::quantiseNope(float *nope, uint8_t *out) const {
    const aclDataType dtype = plan_.scenario.kvCacheDtype();
    switch (plan_.scenario.kv) {
        case KvQuant::None: {
            uint16_t bits[kHckv];
            numeric::floatToBf16(nope, bits, kHckv);
            std::memcpy(out, bits, sizeof bits);
            return;
        }
        case KvQuant::PerTensor:
            for (int64_t i = 0; i < kHckv; ++i) nope[i] *= operands_.quantScaleCkv[0];
            return encode(dtype, nope, kHckv, out);
        case KvQuant::PerChannel:
            for (int64_t i = 0; i < kHckv; ++i) nope[i] *= operands_.quantScaleCkv[i];
            return encode(dtype, nope, kHckv, out);
        case KvQuant::PerTile: break;
    }
    // 512 codes, then 64 BF16 of k_rope, then the scales of the four tiles.
    const float alpha = operands_.kNopeClipAlpha != nullptr ? operands_.kNopeClipAlpha[0] : 1.0F;
    for (int64_t tile = 0; tile < kHckv / kTile; ++tile) {
        const float scale = quantiseTile(dtype, alpha, nope + tile * kTile, kTile, out + tile * kTile);
        std::memcpy(out + kHckv + kDr * 2 + tile * 4, &scale, sizeof scale);
    }
}

// Row-major rows of `width` elements, or [width / C0][BlockSize][C0] within each block.
void CachePath::write(void *cache, int64_t width, int64_t elementBytes, int64_t row, const uint8_t *source,
                      int64_t elements) const {
    constexpr int64_t chunkBytes = 32;  // C0 elements
    const bool nz = isBlockwiseNz(plan_.cacheMode);
    const int64_t block = nz ? row / plan_.blockSize : 0, offset = nz ? row % plan_.blockSize : 0;
    const int64_t start = nz ? block * plan_.blockSize * width * elementBytes + offset * chunkBytes
                             : row * width * elementBytes;
    const int64_t step = nz ? plan_.blockSize * chunkBytes : chunkBytes, bytes = elements * elementBytes;
    const int64_t end = start + (nz ? (bytes / chunkBytes - 1) * step + chunkBytes : bytes);
    if (end > plan_.cacheRows * width * elementBytes) {
        fault("row " + std::to_string(row) + " of kvCacheRef is " + std::to_string(width) + " elements wide, " +
              std::to_string(elements) + " are written");
    }
    auto *target = static_cast<uint8_t *>(cache) + start;
    if (!nz) {
        std::memcpy(target, source, static_cast<size_t>(bytes));
        operands_.launch->writes(target, static_cast<size_t>(bytes));
        return;
    }
    for (int64_t i = 0; i < bytes / chunkBytes; ++i) {
        std::memcpy(target + i * step, source + i * chunkBytes, chunkBytes);
        operands_.launch->writes(target + i * step, chunkBytes);
    }
}

}  // namespace sim::mla_prolog
