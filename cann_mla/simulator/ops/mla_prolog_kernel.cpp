// The order of the work: tokens in blocks, each block first down the query path, then into the cache.
#include "ops/mla_prolog_kernel.hpp"

#include "numeric/parallel.hpp"
#include "ops/mla_prolog_cache.hpp"
#include "ops/mla_prolog_math.hpp"
#include "ops/mla_prolog_projection.hpp"
#include "ops/mla_prolog_query.hpp"

#include <algorithm>

namespace sim::mla_prolog {
namespace {

// Weights are decoded once for so many tokens: enough to make that cheap, few enough to keep buffers small.
constexpr int64_t kTokensPerBlock = 1024;

// tokenX of one block as float, with MX scales applied.
std::vector<float> decodeTokens(const Plan &plan, const Operands &operands, int64_t first, int64_t count) {
    std::vector<float> x(static_cast<size_t>(count * plan.he));
    const numeric::Storage storage = storageOf(plan.scenario.tokenDtype());
    const auto *bytes = static_cast<const uint8_t *>(operands.tokenX);
    const auto *scales = static_cast<const uint8_t *>(operands.dequantScaleX);
    const auto he = static_cast<size_t>(plan.he);
    numeric::parallelFor(static_cast<size_t>(count), [&](size_t i) {
        const size_t token = static_cast<size_t>(first) + i;
        const uint8_t *row = bytes + token * he * numeric::storageBytes(storage);
        if (plan.scenario.weight == WeightQuant::Mxfp8) {
            decodeMx(row, scales + token * he / kMxBlock, he, x.data() + i * he);
        } else {
            numeric::decode(storage, row, x.data() + i * he, he);
        }
    });
    return x;
}

}  // namespace

Plan planOf(const Params &params) {
    Plan plan;
    plan.scenario = *scenarioOf(params);
    plan.is950 = params.is950();
    plan.cacheMode = params.cacheMode;
    const bool fused = params.tokenX->rank() == 2;
    plan.tokens = fused ? params.tokenX->dim(0) : params.tokenX->dim(0) * params.tokenX->dim(1);
    plan.tokensPerBatch = fused ? 0 : params.tokenX->dim(1);
    plan.batches = params.actualSeqLen != nullptr ? params.actualSeqLen->numel() : 0;
    const Sizes sizes = sizesOf(params);
    plan.he = sizes.he;
    plan.hcq = sizes.hcq;
    plan.n = sizes.n;
    plan.d = sizes.d;
    plan.blockSize = isPaged(params.cacheMode) ? params.kvCache->dim(1) : 0;
    plan.cacheWidth = params.kvCache->shape.back();
    plan.cacheRows = plan.cacheWidth == 0 ? 0 : params.kvCache->numel() / plan.cacheWidth;
    plan.cacheIndexCount = params.cacheIndex != nullptr ? params.cacheIndex->numel() : 0;
    plan.epsilonCq = static_cast<float>(params.rmsnormEpsilonCq);
    plan.epsilonCkv = static_cast<float>(params.rmsnormEpsilonCkv);
    plan.alphaCq = static_cast<float>(params.qcQrScale);
    plan.alphaCkv = static_cast<float>(params.kcScale);
    return plan;
}

void run(const Plan &plan, const Operands &operands) {
    if (plan.tokens == 0) return;
    const QueryPath query(plan, operands);
    const CachePath cache(plan, operands);
    for (int64_t first = 0; first < plan.tokens; first += kTokensPerBlock) {
        const int64_t count = std::min(kTokensPerBlock, plan.tokens - first);
        const std::vector<float> x = decodeTokens(plan, operands, first, count);
        query.run(x.data(), first, count);
        cache.run(x.data(), first, count);
    }
}

}  // namespace sim::mla_prolog
