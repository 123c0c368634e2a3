// aclnnKvRmsNormRopeCache: RmsNorm on the first Dv columns of kv, rotation of the other Dk, both written to the rows
// of two caches, quantised or not.
#pragma once

#include <string>

#include "ops/primitive.hpp"

namespace sim::kv_rms_norm_rope_cache {

constexpr uint64_t workspaceBytes = 32;

enum class CacheMode { Norm, Paged, PagedNz, BlockBnsd, BlockNz };

struct Params {
    const TensorDesc *kv, *gamma, *cos, *sin, *index, *kCache, *ckvCache;
    const TensorDesc *kScale, *ckvScale, *kOffset, *ckvOffset;
    float epsilon;
    CacheMode mode;
    bool isOutputKv;
    const TensorDesc *kRope, *ckv;
};

// Strings that CANN does not know mean Norm.
CacheMode parseCacheMode(const char *text);

std::optional<Rejection> checkDefinition(const Params &params, const PhaseOne &call);

std::optional<Rejection> checkTiling(const Params &params);

Kernel makeKernel(const Params &params);

}  // namespace sim::kv_rms_norm_rope_cache
