// A tile of attention rows that takes its keys in stripes: the online softmax with scores of FLOAT or FP16, and
// probabilities of 16 bits, or of INT8 with a scale a row.
#pragma once

#include <cstdint>
#include <vector>

namespace sim::atb {

struct AttentionTile {
    static constexpr int64_t mostRows = 128, stripe = 512;

    int64_t rows = 0, width = 0, valueWidth = 0;
    bool bf16 = false;
    bool halfScores = false;  // scores come rounded to FP16, and so are their distances from the maximum
    std::vector<float> query, keys, values, scores, output, rowMax, rowSum;

    // Room for a tile; nothing is seen yet.
    void begin(int64_t rowCount, int64_t keyWidth, int64_t outputWidth, bool roundsToBf16, bool scoresOfHalf = false);
    // scores[rows, n] = query[:, first:first+part] . keys[n, first:first+part], or added to what is there.
    void multiplyKeys(int64_t n, int64_t first, int64_t part, bool add);
    // Takes the scores of n keys, scaled and masked, and their values (distance of rows `ld`).
    void absorb(int64_t n, const float* valueRows, int64_t ld);
    // The same with probabilities of INT8: values are whole numbers, `scale` turns row r's products into FLOAT.
    void absorbInt8(int64_t n, const float* valueRows, int64_t ld, const std::vector<float>& scale);
    // Divides row r by its sum. A row that has seen nothing becomes 0.
    float* finishRow(int64_t r);
    float lse(int64_t r) const;

    float* scoreRow(int64_t r, int64_t n) { return scores.data() + r * n; }
    float* queryRow(int64_t r) { return query.data() + r * width; }

   private:
    // Exponentials of row r, the new maximum and sum; earlier output is rescaled.
    void exponentiate(int64_t r, int64_t n);
    bool empty_ = true;
};

}  // namespace sim::atb
