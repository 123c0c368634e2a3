// From tokens to rows of kvCache and krCache.
#pragma once

#include "ops/mla_prolog_kernel.hpp"
#include "ops/mla_prolog_projection.hpp"

#include <vector>

namespace sim::mla_prolog {

// The cache row of every token: block * BlockSize + offset where the cache is paged, -1 for a token that is not
// stored. Throws KernelFault for a row outside the cache, where the device would write to memory that is not its own.
std::vector<int64_t> cacheRowsOf(const Plan &plan, const Operands &operands);

class CachePath {
   public:
    CachePath(const Plan &plan, const Operands &operands);

    // x: tokens [first, first + count) as float.
    void run(const float *x, int64_t first, int64_t count) const;

   private:
    void makeRow(const float *kv, int64_t token, uint8_t *kvRow, uint8_t *krRow) const;
    void quantiseNope(float *nope, uint8_t *out) const;
    void write(void *cache, int64_t width, int64_t elementBytes, int64_t row, const uint8_t *source,
               int64_t elements) const;

    const Plan &plan_;
    const Operands &operands_;
    std::vector<int64_t> rows_;
    Projection projection_;  // weightDkvKr
    std::vector<float> gamma_;
};

}  // namespace sim::mla_prolog
