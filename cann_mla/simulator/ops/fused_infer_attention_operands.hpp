// The operands of one launch: addresses put together with the plan, checked to cover what will be read.
#pragma once

#include <memory>
#include <vector>

#include "core/operator.hpp"
#include "ops/fused_infer_attention_plan.hpp"
#include "ops/fused_infer_attention_rows.hpp"
#include "ops/fused_infer_attention_scales.hpp"

namespace sim::fia {

// Keys (rope included) or values of the whole call.
struct Stored {
    std::unique_ptr<Rows> own, prefix, rope;
    Scales scales;
    int64_t width = 0, ropeWidth = 0;
};

struct Operands {
    const void *query = nullptr, *queryRope = nullptr;
    Stored keys, values;
    bool valuesAreKeys = false;  // MLA: the value cache is the key cache
    PageTable pages;
    const uint8_t *mask = nullptr;
    int64_t maskBatch = 0, maskRow = 0, maskRows = 0, maskColumns = 0;
    std::vector<int64_t> treeStarts;  // tree masks lie one after the other
    const void *pse = nullptr;
    int64_t pseBatch = 0, pseHead = 0, pseRow = 0, pseRows = 0, pseColumns = 0;
    std::vector<float> sink;
    std::vector<Batch> batches;

    // Factors of the quantised modes; 1 where there is none.
    float scoreScale = 1.0F;      // deqScale1, or the key's scale
    float numeratorScale = 1.0F;  // quantScale1
    float valueScale = 1.0F;      // deqScale2, or the value's scale
    const float *queryScale = nullptr;
    Steps queryScaleSteps;
    const void *queryGroups = nullptr;  // MXFP8
    bool groupedByKeyHead = false;      // [Nk, T, G, D / 64, 2] instead of [T, N, D / 64, 2]

    void *out = nullptr;
    float *lse = nullptr;

    // What fault injection asks for: columns from here on are seen by all rows; all columns weigh alike.
    int64_t unmaskedFrom = INT64_MAX;
    bool uniform = false;
    const void *postScale = nullptr, *postOffset = nullptr;
};

void bindOutputs(const Plan &plan, const Launch &launch, Operands &operands);

// Everything; throws a KernelFault for operands that phase one accepted and the computation cannot follow.
Operands bindOperands(const Plan &plan, const Launch &launch);

}  // namespace sim::fia
