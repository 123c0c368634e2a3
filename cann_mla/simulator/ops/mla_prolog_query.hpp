// From tokens to query, queryRope and the normalised c_q.
#pragma once

#include "ops/mla_prolog_kernel.hpp"
#include "ops/mla_prolog_projection.hpp"

#include <vector>

namespace sim::mla_prolog {

// A product of tokenX with one of the weights whose operands share its dtype.
Projection tokenProjection(const Plan &plan, const void *weight, const void *scales);

class QueryPath {
   public:
    QueryPath(const Plan &plan, const Operands &operands);

    // x: tokens [first, first + count) as float.
    void run(const float *x, int64_t first, int64_t count) const;

   private:
    // c_q of the block as the next product takes it, and the scale of each row.
    struct Normalised {
        std::vector<float> values;
        std::vector<float> scales;
    };

    Normalised normalise(const float *x, int64_t first, int64_t count) const;
    float quantiseRow(float *row, int64_t token) const;
    void runHead(const Normalised &cq, int64_t head, int64_t first, int64_t offset, int64_t count) const;
    void writeToken(float *nope, const float *rope, int64_t head, int64_t token) const;

    const Plan &plan_;
    const Operands &operands_;
    Projection down_;  // weightDq
    Projection up_;    // weightUqQr
    std::vector<float> gamma_;
};

}  // namespace sim::mla_prolog
