// MlaProlog V1, V2 and V3: one call, free of handles, and the pure functions that judge it.
//
// The rules are those of CANN's host code, in its order: op_api, operator definition, tiling. V1 and V2 are the older
// faces of the same operator; what they lack keeps the value that CANN's tiling takes for it.
#pragma once

#include "core/error.hpp"
#include "core/product.hpp"
#include "core/tensor.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace sim::mla_prolog {

enum class Version { V1, V2, V3 };

// Everything a caller hands to phase one. Tensors carry the C parameter's name without Ref, Out and Optional.
struct Params {
    Version version = Version::V3;
    Product product = Product::A2;

    const TensorDesc *tokenX = nullptr;
    const TensorDesc *weightDq = nullptr;
    const TensorDesc *weightUqQr = nullptr;
    const TensorDesc *weightUk = nullptr;
    const TensorDesc *weightDkvKr = nullptr;
    const TensorDesc *rmsnormGammaCq = nullptr;
    const TensorDesc *rmsnormGammaCkv = nullptr;
    const TensorDesc *ropeSin = nullptr;
    const TensorDesc *ropeCos = nullptr;
    const TensorDesc *kvCache = nullptr;
    const TensorDesc *krCache = nullptr;
    const TensorDesc *cacheIndex = nullptr;
    const TensorDesc *dequantScaleX = nullptr;
    const TensorDesc *dequantScaleWDq = nullptr;
    const TensorDesc *dequantScaleWUqQr = nullptr;
    const TensorDesc *dequantScaleWDkvKr = nullptr;
    const TensorDesc *quantScaleCkv = nullptr;
    const TensorDesc *quantScaleCkr = nullptr;
    const TensorDesc *smoothScalesCq = nullptr;
    const TensorDesc *actualSeqLen = nullptr;
    const TensorDesc *kNopeClipAlpha = nullptr;

    double rmsnormEpsilonCq = 1e-5;
    double rmsnormEpsilonCkv = 1e-5;
    std::string cacheMode = "PA_BSND";
    int64_t weightQuantMode = 0;
    int64_t kvCacheQuantMode = 0;
    int64_t queryQuantMode = 0;
    int64_t ckvkrRepoMode = 0;
    int64_t quantScaleRepoMode = 0;
    int64_t tileSize = 128;
    double qcQrScale = 1.0;
    double kcScale = 1.0;

    const TensorDesc *query = nullptr;
    const TensorDesc *queryRope = nullptr;
    const TensorDesc *dequantScaleQNope = nullptr;
    const TensorDesc *queryNorm = nullptr;
    const TensorDesc *dequantScaleQNorm = nullptr;

    bool is950() const { return product == Product::A950; }
    bool isV3() const { return version == Version::V3; }
};

// ---- the scenario: weightQuantMode and kvCacheQuantMode, and all that follows from them ----------------------------

enum class WeightQuant { None, Partial, Int8, Mxfp8, E4m3, Hifloat8 };
enum class KvQuant { None, PerTensor, PerChannel, PerTile };

struct Scenario {
    WeightQuant weight = WeightQuant::None;
    KvQuant kv = KvQuant::None;

    // tokenX, weightDq and weightDkvKr share a dtype.
    aclDataType tokenDtype() const;
    aclDataType weightUqQrDtype() const;
    aclDataType kvCacheDtype() const;
    aclDataType krCacheDtype() const;
    aclDataType queryDtype() const;
    aclDataType queryNormDtype() const;
    aclDataType normScaleDtype() const;
    // The products with weightDq and weightDkvKr are quantised too.
    bool isFullQuant() const { return weight != WeightQuant::None && weight != WeightQuant::Partial; }
    bool needsClipAlpha() const;
    // "weightQuantMode 2, kvCacheQuantMode 1"
    std::string describe() const;
};

// V3: from the attributes; nullopt for a pair that is no scenario. V1, V2: from the dtypes, as CANN's tiling does.
std::optional<Scenario> scenarioOf(const Params &params);

// ---- sizes ---------------------------------------------------------------------------------------------------------

// Read from the shapes as tiling reads them, in 32 bits: the wrap at 2^32 is part of the real answers.
struct Sizes {
    bool fused = false;  // tokenX is (T, He), not (B, S, He)
    uint32_t b = 0, s = 0, t = 0, he = 0, hcq = 0, hckv = 0, n = 0, d = 0, dr = 0;
    uint32_t nkv = 0, blockNum = 0, blockSize = 0, dtile = 0;

    uint32_t headsUqQr() const { return n * d + n * dr; }
};

// Needs the ranks that checkTiling verifies first.
Sizes sizesOf(const Params &params);

bool isPaged(const std::string &cacheMode);         // PA_*: the cache is a pool of blocks
bool isBlockIndexed(const std::string &cacheMode);  // PA_BLK_*: cacheIndex names blocks, not rows
bool isBlockwiseNz(const std::string &cacheMode);   // PA_NZ, PA_BLK_NZ

// The framework maps NCHW and its relatives to ND before anything compares formats.
bool countsAsNd(aclFormat format);

// ---- the rules, in the order in which CANN applies them ------------------------------------------------------------

// op_api, null operands, operator definition (dtypes and formats of required inputs and of outputs).
std::optional<Rejection> checkDefinition(const Params &params, bool executorIsNull);
// Everything tiling refuses; all codes are 561002. Call after checkDefinition.
std::optional<Rejection> checkTiling(const Params &params);

// Bytes CANN asks for. Call after checkTiling.
uint64_t workspaceSize(const Params &params);

}  // namespace sim::mla_prolog
