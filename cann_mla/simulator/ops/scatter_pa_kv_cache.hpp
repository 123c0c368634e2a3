// aclnnScatterPaKvCache: tokens of key and value go to the slots of two paged caches. A copy, nothing is computed.
#pragma once

#include <string>

#include "ops/primitive.hpp"

namespace sim::scatter_pa_kv_cache {

enum class Mode { Norm, KeyOnly, Nz, Nhsd, Nct, KeyOnlyNct, Rope, Alibi, Omni };

struct Params {
    const TensorDesc *key, *keyCache, *slots, *value, *valueCache, *lens, *seqOffset, *seqLens;
    std::string cacheMode, scatterMode;
    const std::vector<int64_t> *strides, *offsets;
};

// Nulls, then dtypes and ranks of key and value.
std::optional<Rejection> checkNulls(const Params &params, const PhaseOne &call);
bool hasNothingToDo(const Params &params);
std::optional<Rejection> checkDefinition(const Params &params);

// What the product's tiling asks; all of it 561103. Sets mode where it agrees.
std::optional<Rejection> checkTilingA2(const Params &params, Mode &mode);
std::optional<Rejection> checkTiling950(const Params &params, Mode &mode);

Kernel makeKernel(const Params &params, Mode mode);

// Throws a 561103 unless `holds`.
void require(bool holds, const std::string &text);
// Size of one axis; -1 where the tensor has no such axis.
int64_t axis(const TensorDesc &desc, int64_t index);
int64_t bytesOf(aclDataType dtype);

}  // namespace sim::scatter_pa_kv_cache
