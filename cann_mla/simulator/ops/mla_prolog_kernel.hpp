// What MlaProlog computes. Phase one fills a Plan; a launch adds the addresses.
#pragma once

#include "core/operator.hpp"
#include "ops/mla_prolog.hpp"

#include <cstdint>
#include <string>

namespace sim::mla_prolog {

// All that a run needs besides addresses. Sizes are true ones here, not the 32-bit ones of the rules.
struct Plan {
    Scenario scenario;
    bool is950 = false;
    std::string cacheMode;
    int64_t tokens = 0;          // T, or B * S
    int64_t tokensPerBatch = 0;  // S; 0 when tokenX is (T, He)
    int64_t batches = 0;         // entries of actualSeqLen
    int64_t he = 0, hcq = 0, n = 0, d = 0;
    int64_t blockSize = 0;       // 0 in BSND and TND
    int64_t cacheWidth = 0;      // last dimension of kvCache
    int64_t cacheRows = 0;       // rows of kvCache: blocks times block size, or tokens
    int64_t cacheIndexCount = 0;
    float epsilonCq = 0, epsilonCkv = 0, alphaCq = 1, alphaCkv = 1;
};

constexpr int64_t kHckv = 512;
constexpr int64_t kDr = 64;
constexpr int64_t kTile = 128;
constexpr int64_t kMxBlock = 32;

Plan planOf(const Params &params);

// Readable and writable host addresses; null where the caller gave nothing.
struct Operands {
    const void *tokenX, *weightDq, *weightUqQr, *weightUk, *weightDkvKr;
    const uint16_t *rmsnormGammaCq, *rmsnormGammaCkv, *ropeSin, *ropeCos;  // BF16
    void *kvCache, *krCache;
    const int64_t *cacheIndex;
    const void *dequantScaleX, *dequantScaleWDq, *dequantScaleWUqQr, *dequantScaleWDkvKr;  // FP32, or E8M0 bytes
    const float *quantScaleCkv, *quantScaleCkr, *smoothScalesCq;
    const int32_t *actualSeqLen;
    const float *kNopeClipAlpha;
    void *query;
    uint16_t *queryRope;  // BF16
    float *dequantScaleQNope;
    void *queryNorm, *dequantScaleQNorm;
    const Launch *launch;  // to be told which rows of the caches are written
};

// Throws KernelFault where the device would write outside a cache.
void run(const Plan &plan, const Operands &operands);

}  // namespace sim::mla_prolog
