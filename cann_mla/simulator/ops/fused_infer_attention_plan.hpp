// What the computation needs to know of a call, worked out once in phase one: sizes, distances, lengths, windows.
#pragma once

#include <string>
#include <vector>

#include "ops/fused_infer_attention_routes.hpp"

namespace sim::fia {

// Distances in elements from one batch, head or token to the next.
struct Steps {
    int64_t batch = 0, head = 0, token = 0;
};

// How p = exp(x - max) enters the product with V.
enum class Numerator {
    Float16,   // cast to FP16
    BFloat16,  // cast to BF16
    Int8,      // times quantScale1, to INT8
    BlockMax,  // times the largest quantised value over the row maximum of the block (MLA full quantisation)
    Fp8,       // times pScale, to FLOAT8_E4M3FN
};

// Query rows and key columns of one batch.
struct Batch {
    int64_t queryStart = 0, rows = 0;
    int64_t keyStart = 0, columns = 0;  // the batch's own tokens, without the prefix
};

// Columns j that row i may see: i - pre <= j <= i + next.
struct Window {
    int64_t pre, next;
};

struct Plan {
    Params p;
    Route route = Route::Shared;
    std::string layout;

    int64_t batches = 0, heads = 0, kvHeads = 0, group = 1;
    int64_t rows = 0;     // S of query, or T
    int64_t columns = 0;  // S of key (the longest of a list), T, or what the block table can address
    int64_t d = 0, dv = 0, dRope = 0;
    bool tokens = false;  // batches lie one after the other on a T axis
    bool paged = false, list = false;

    Steps query, queryRope, out, lse;
    Steps key, value, keyRope, prefix;  // without pages
    std::vector<int64_t> listLengths;

    bool ignoresQueryLengths = false;  // one query token on the older kernels: always S rows
    int32_t sparseMode = 0;
    bool treeMask = false, userMask = false;
    int64_t prefixLength = 0;
    Numerator numerator = Numerator::BFloat16;
    bool microscaled = false;  // MXFP8: the running maximum is a multiple of ln 2

    bool nothingToAttend = false;  // keys or values are empty: outputs are filled, and nothing else is looked at
    // A reason why no kernel can run although CANN accepts the call; empty when there is none.
    std::string impossible;
};

Plan makePlan(const Params &params, Route route);

// Lengths by batch. The paddings are counts of tokens after the last one; negative: none.
std::vector<Batch> makeBatches(const Plan &plan, int64_t queryPadding, int64_t kvPadding);

Window windowOf(const Plan &plan, const Batch &batch);

}  // namespace sim::fia
