// The kernel of RingMLA: blocks of 128 query rows of one head against stripes of 512 keys, with the rounding of the
// device: BF16 scores stay FLOAT, FP16 scores are rounded at every step up to the exponential.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "atb/ring_mla.hpp"
#include "numeric/blas.hpp"
#include "numeric/convert.hpp"
#include "numeric/parallel.hpp"
#include "ops/fused_infer_attention_softmax.hpp"

namespace sim::atb {

namespace {

using fia::exponentials;
using fia::maximum;
using fia::roundToFp16;

constexpr int64_t nope = 128, rope = 64, width = nope + rope, valueWidth = 128;
constexpr int64_t stripeColumns = 512, maskStride = 512;
constexpr float bf16MaskFactor = -3e38F;

size_t size(int64_t n) { return static_cast<size_t>(n); }

// One block of rows of one head.
struct Unit {
    int64_t head, row, rows;       // rows within the sequence
    int64_t columns;               // keys to look at
    int64_t queryStart, keyStart;  // first token of the sequence
};

struct Buffers {
    const uint16_t *query1, *query2, *key1, *key2, *value, *mask, *prevOut;
    const float* prevLse;
    uint16_t* output;
    float* lse;
    // What fault injection asks for: stripes from this column on have no mask; all columns weigh alike.
    int64_t unmaskedFrom;
    bool uniform;
};

// The floats that a thread works in.
struct Scratch {
    std::vector<float> query = std::vector<float>(size(ringMlaRowBlock * width));
    std::vector<float> keys = std::vector<float>(size(stripeColumns * width));
    std::vector<float> values = std::vector<float>(size(stripeColumns * valueWidth));
    std::vector<float> scores = std::vector<float>(size(ringMlaRowBlock * stripeColumns));
    std::vector<float> output = std::vector<float>(size(ringMlaRowBlock * valueWidth));
    std::vector<float> rowMax = std::vector<float>(size(ringMlaRowBlock));
    std::vector<float> rowSum = std::vector<float>(size(ringMlaRowBlock));
    std::vector<float> maskRow = std::vector<float>(size(stripeColumns));
};

class Attention {
   public:
    Attention(const RingMlaWork& work, const Buffers& buffers)
        : work_(work), b_(buffers), queries_(std::accumulate(work.q.begin(), work.q.end(), int64_t{0})) {}

    void run(const Unit& unit) const {
        static thread_local Scratch scratch;
        readHead(b_.query1, b_.query2, work_.params.headNum, unit.queryStart + unit.row, unit.head, unit.rows,
                 scratch.query.data());
        for (int64_t column = 0; column < unit.columns; column += stripeColumns) stripe(unit, column, scratch);
        finish(unit, scratch);
    }

   private:
    void decode(const uint16_t* source, float* destination, int64_t n) const {
        if (work_.bf16) {
            numeric::bf16ToFloat(source, destination, size(n));
        } else {
            numeric::fp16ToFloat(source, destination, size(n));
        }
    }

    void readHead(const uint16_t* part1, const uint16_t* part2, int64_t heads, int64_t token, int64_t head,
                  int64_t rows, float* out) const {
        for (int64_t r = 0; r < rows; ++r, out += width) {
            int64_t place = (token + r) * heads + head;
            decode(part1 + place * nope, out, nope);
            decode(part2 + place * rope, out + nope, rope);
        }
    }

    void stripe(const Unit& unit, int64_t column, Scratch& s) const {
        int64_t n = std::min(stripeColumns, unit.columns - column), kvHeads = work_.params.kvHeads();
        int64_t kvHead = unit.head / (work_.params.headNum / kvHeads), token = unit.keyStart + column;
        readHead(b_.key1, b_.key2, kvHeads, token, kvHead, n, s.keys.data());
        for (int64_t j = 0; j < n; ++j) {
            decode(b_.value + ((token + j) * kvHeads + kvHead) * valueWidth, s.values.data() + j * valueWidth,
                   valueWidth);
        }
        numeric::sgemm(size(unit.rows), size(n), size(width), s.query.data(), size(width), s.keys.data(), size(width),
                       0.0F, s.scores.data(), size(n), numeric::Transposed::No, numeric::Transposed::Yes);
        for (int64_t r = 0; r < unit.rows; ++r) softmaxRow(unit, column, n, r, s);
        numeric::sgemm(size(unit.rows), size(valueWidth), size(n), s.scores.data(), size(n), s.values.data(),
                       size(valueWidth), column == 0 ? 0.0F : 1.0F, s.output.data(), size(valueWidth));
    }

    // Scores of a row become what the second product multiplies; maximum, sum and earlier output follow.
    void softmaxRow(const Unit& unit, int64_t column, int64_t n, int64_t r, Scratch& s) const {
        float* row = s.scores.data() + r * n;
        float &max = s.rowMax[size(r)], &sum = s.rowSum[size(r)];
        bool masked = work_.params.masked() && column < b_.unmaskedFrom;
        if (b_.uniform) std::fill(row, row + n, 0.0F);
        scaleAndMask(masked, unit.row + r - column, n, row, s.maskRow.data());
        float stripeMax = maximum(row, size(n)), newMax = column == 0 ? stripeMax : std::max(max, stripeMax);
        subtractAndExponentiate(row, n, newMax);
        float stripeSum = fia::total(row, size(n));
        if (work_.bf16) {
            numeric::roundToBf16(row, size(n));
        } else {
            roundToFp16(row, size(n));
        }
        if (column > 0) {
            float step = max - newMax;
            float factor = std::exp(work_.bf16 ? step : numeric::fp16ToFloat(numeric::floatToFp16(step)));
            fia::scale(s.output.data() + r * valueWidth, size(valueWidth), factor);
            stripeSum += sum * factor;
        }
        max = newMax;
        sum = stripeSum;
    }

    // `maskedRow` is the row of the sliding template: stripes more than a template's height above have none.
    void scaleAndMask(bool masked, int64_t maskedRow, int64_t n, float* row, float* maskRow) const {
        masked = masked && maskedRow < maskStride;
        if (masked) readMask(maskedRow, n, maskRow);
        if (work_.bf16) {
            fia::scale(row, size(n), work_.params.qkScale);
            for (int64_t j = 0; masked && j < n; ++j) row[j] += maskRow[j] * bf16MaskFactor;
            return;
        }
        roundToFp16(row, size(n));
        fia::scale(row, size(n), numeric::fp16ToFloat(numeric::floatToFp16(work_.params.qkScale)));
        roundToFp16(row, size(n));
        if (!masked) return;
        for (int64_t j = 0; j < n; ++j) row[j] += maskRow[j];
        roundToFp16(row, size(n));
    }

    // The kernel reads rows of 512 whatever the shape; past the tensor's end it would find something, here nothing.
    void readMask(int64_t maskedRow, int64_t n, float* out) const {
        int64_t start = maskedRow * maskStride, there = std::clamp<int64_t>(work_.maskNumel - start, 0, n);
        decode(b_.mask + start, out, there);
        std::fill(out + there, out + n, 0.0F);
    }

    void subtractAndExponentiate(float* row, int64_t n, float max) const {
        if (work_.bf16) return exponentials(row, size(n), max);
        for (int64_t j = 0; j < n; ++j) row[j] -= max;
        roundToFp16(row, size(n));
        exponentials(row, size(n), 0.0F);
    }

    void finish(const Unit& unit, Scratch& s) const {
        std::vector<uint16_t> encoded(size(valueWidth));
        std::vector<float> previous(size(valueWidth));
        for (int64_t r = 0; r < unit.rows; ++r) {
            int64_t token = unit.queryStart + unit.row + r, heads = work_.params.headNum;
            float *row = s.output.data() + r * valueWidth, lse = std::log(s.rowSum[size(r)]) + s.rowMax[size(r)];
            for (int64_t d = 0; d < valueWidth; ++d) row[d] /= s.rowSum[size(r)];
            encode(row, encoded.data());
            int64_t place = (token * heads + unit.head) * valueWidth, lsePlace = unit.head * queries_ + token;
            if (work_.params.merges()) {
                decode(encoded.data(), row, valueWidth);
                decode(b_.prevOut + place, previous.data(), valueWidth);
                lse = merge(previous.data(), b_.prevLse[lsePlace], row, lse);
                encode(row, encoded.data());
            }
            std::copy(encoded.begin(), encoded.end(), b_.output + place);
            b_.lse[lsePlace] = lse;
        }
    }

    void encode(const float* row, uint16_t* out) const {
        if (work_.bf16) {
            numeric::floatToBf16(row, out, size(valueWidth));
        } else {
            numeric::floatToFp16(row, out, size(valueWidth));
        }
    }

    static float merge(const float* previous, float previousLse, float* row, float lse) {
        float max = std::max(previousLse, lse);
        float a = std::exp(previousLse - max), b = std::exp(lse - max), sum = b + a;
        for (int64_t d = 0; d < valueWidth; ++d) row[d] = (row[d] * b + previous[d] * a) / sum;
        return std::log(sum) + max;
    }

    const RingMlaWork& work_;
    const Buffers& b_;
    const int64_t queries_;
};

std::vector<Unit> unitsOf(const RingMlaWork& work, const Buffers& buffers) {
    std::vector<Unit> units;
    int64_t queryStart = 0, keyStart = 0;
    for (size_t i = 0; i < work.q.size(); ++i) {
        for (int64_t row = 0; row < work.q[i] && work.kv[i] > 0; row += ringMlaRowBlock) {
            int64_t rows = std::min(ringMlaRowBlock, work.q[i] - row);
            // With the triangular mask, the blocks of keys right of the diagonal block are never looked at.
            bool triangle = work.params.masked() && work.kv[i] <= buffers.unmaskedFrom;
            int64_t columns = triangle ? std::min<int64_t>(work.kv[i], row + ringMlaRowBlock) : work.kv[i];
            for (int64_t head = 0; head < work.params.headNum; ++head) {
                units.push_back({head, row, rows, columns, queryStart, keyStart});
            }
        }
        queryStart += work.q[i];
        keyStart += work.kv[i];
    }
    // The longest first, so that the threads end together.
    std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.columns > b.columns; });
    return units;
}

// Real hardware reads and writes past the tensors here.
void checkReach(const RingMlaWork& work) {
    auto total = [](const std::vector<int32_t>& lengths) {
        return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    };
    int64_t queries = total(work.q) * work.params.headNum, keys = total(work.kv) * work.params.kvHeads();
    if (queries * nope <= work.queryNumel && queries <= work.lseNumel && keys * nope <= work.keyNumel) return;
    throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION,
                      "seqLen, headNum and kvHeadNum reach past the tensors: " + std::to_string(queries) +
                          " query and " + std::to_string(keys) + " key vectors, the tensors hold " +
                          std::to_string(work.queryNumel / nope) + " and " + std::to_string(work.keyNumel / nope));
}

}  // namespace

void ringMlaKernel(const RingMlaWork& work, const Launch& launch) {
    checkReach(work);
    bool merges = work.params.merges();
    Buffers buffers{launch.in<uint16_t>("querySplit1"),
                    launch.in<uint16_t>("querySplit2"),
                    launch.in<uint16_t>("keySplit1"),
                    launch.in<uint16_t>("keySplit2"),
                    launch.in<uint16_t>("value"),
                    launch.in<uint16_t>("mask"),
                    merges ? launch.in<uint16_t>("prevOut") : nullptr,
                    merges ? launch.in<float>("prevLse") : nullptr,
                    launch.out<uint16_t>("output"),
                    launch.out<float>("softmaxLse"),
                    launch.suffers(NumericFault::MaskPast512) ? int64_t{512} : INT64_MAX,
                    launch.suffers(NumericFault::UniformWithoutMask) && !work.params.masked()};
    Attention attention(work, buffers);
    std::vector<Unit> units = unitsOf(work, buffers);
    numeric::parallelFor(units.size(), [&](size_t i) { attention.run(units[i]); });
}

}  // namespace sim::atb
