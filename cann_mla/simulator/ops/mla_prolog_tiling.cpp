// What CANN's tiling refuses, in its order. All refusals are 561002.
//
// Single operands first, then the cache mode, the scenario, the sizes, and at last every operand against what scenario
// and sizes make of it (mla_prolog_operands.cpp).
#include "ops/mla_prolog.hpp"
#include "ops/mla_prolog_operands.hpp"
#include "ops/mla_prolog_text.hpp"

#include <algorithm>
#include <vector>

namespace sim::mla_prolog {
namespace {

using Verdict = std::optional<Rejection>;

Verdict refuse(const std::string &text) { return Rejection{kTilingFailed, text}; }

bool isIn(int64_t value, std::initializer_list<int64_t> allowed) {
    return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

// ---- attributes ----------------------------------------------------------------------------------------------------

Verdict checkAttributes(const Params &params) {
    if (!params.isV3()) return std::nullopt;
    if (!isIn(params.ckvkrRepoMode, {0, 1})) {
        return refuse(mustBe("ckvkrRepoMode", std::to_string(params.ckvkrRepoMode), "0 or 1"));
    }
    if (!isIn(params.quantScaleRepoMode, {0, 1})) {
        return refuse(mustBe("quantScaleRepoMode", std::to_string(params.quantScaleRepoMode), "0 or 1"));
    }
    // Tiling looks at the low 32 bits only, so 2^32 + 128 passes here and on the device.
    if (static_cast<uint32_t>(params.tileSize) != 128) {
        return refuse(mustBe("tileSize", std::to_string(params.tileSize), "128, whatever kvCacheQuantMode is"));
    }
    return std::nullopt;
}

// ---- single operands -----------------------------------------------------------------------------------------------

Verdict checkRank(const char *name, const TensorDesc *tensor, std::initializer_list<int64_t> allowed) {
    if (isIn(tensor->rank(), allowed)) return std::nullopt;
    return refuse(mustBe("the rank of " + std::string(name),
                         std::to_string(tensor->rank()) + " (shape " + text(tensor->shape) + ")",
                         "one of " + oneOf(allowed)));
}

// dtypes and formats of these operands have been compared with the operator definition, which is stricter here.
Verdict checkRanks(const Params &params) {
    if (auto refusal = checkRank("tokenX", params.tokenX, {2, 3})) return refusal;
    if (auto refusal = checkRank("weightDq", params.weightDq, {2, 4})) return refusal;
    if (auto refusal = checkRank("weightUqQr", params.weightUqQr, {2, 4})) return refusal;
    if (auto refusal = checkRank("weightUk", params.weightUk, {3})) return refusal;
    if (auto refusal = checkRank("weightDkvKr", params.weightDkvKr, {2, 4})) return refusal;
    if (auto refusal = checkRank("rmsnormGammaCq", params.rmsnormGammaCq, {1})) return refusal;
    if (auto refusal = checkRank("rmsnormGammaCkv", params.rmsnormGammaCkv, {1})) return refusal;
    if (auto refusal = checkRank("ropeSin", params.ropeSin, {2, 3})) return refusal;
    if (auto refusal = checkRank("ropeCos", params.ropeCos, {2, 3})) return refusal;
    if (!params.isV3()) {
        if (auto refusal = checkRank("cacheIndex", params.cacheIndex, {1, 2})) return refusal;
        if (auto refusal = checkRank("kvCacheRef", params.kvCache, {4})) return refusal;
        return checkRank("krCacheRef", params.krCache, {1, 3, 4});
    }
    if (auto refusal = checkRank("kvCacheRef", params.kvCache, {3, 4})) return refusal;
    // With k_rope inside kvCacheRef, A2 and A3 do not look at krCacheRef here; Ascend950 does.
    const bool skipsKr = !params.is950() && params.ckvkrRepoMode == 1;
    return skipsKr ? std::nullopt : checkRank("krCacheRef", params.krCache, {1, 3, 4});
}

Verdict checkActualSeqLen(const Params &params) {
    if (params.actualSeqLen == nullptr || params.actualSeqLen->dtype == ACL_INT32) return std::nullopt;
    return refuse(mustBe("the dtype of actualSeqLenOptional", dtypeName(params.actualSeqLen->dtype), "INT32"));
}

// ---- cache mode ----------------------------------------------------------------------------------------------------

Verdict checkCacheModeName(const Params &params) {
    const std::vector<std::string> legal =
        params.isV3() ? std::vector<std::string>{"PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND"}
                      : std::vector<std::string>{"PA_BSND", "PA_NZ"};
    if (std::find(legal.begin(), legal.end(), params.cacheMode) != legal.end()) return std::nullopt;
    std::string names;
    for (const std::string &name : legal) names += (names.empty() ? "" : ", ") + name;
    return refuse(mustBe("cacheModeOptional", "\"" + params.cacheMode + "\"", "one of " + names));
}

Verdict checkCacheModeRanks(const Params &params) {
    if (!params.isV3()) return std::nullopt;
    const auto check = [&](const char *name, const TensorDesc *tensor, int64_t rank) -> Verdict {
        if (tensor->rank() == rank) return std::nullopt;
        return refuse(mustBe("the rank of " + std::string(name), std::to_string(tensor->rank()), std::to_string(rank)) +
                      " when cacheModeOptional is " + params.cacheMode);
    };
    if (params.cacheMode == "TND") {
        if (auto refusal = check("tokenX", params.tokenX, 2)) return refusal;
        return check("kvCacheRef", params.kvCache, 3);
    }
    if (params.cacheMode == "BSND") {
        if (auto refusal = check("tokenX", params.tokenX, 3)) return refusal;
    }
    return check("kvCacheRef", params.kvCache, 4);
}

Verdict checkCacheModeOfTiles(const Params &params) {
    const bool rowwise = !isBlockIndexed(params.cacheMode) && !isBlockwiseNz(params.cacheMode);
    if (!params.isV3() || params.kvCacheQuantMode != 3 || rowwise) return std::nullopt;
    return refuse(mustBe("cacheModeOptional", params.cacheMode, "PA_BSND, BSND or TND") +
                  " when kvCacheQuantMode is 3 (per tile)");
}

// ---- scenario ------------------------------------------------------------------------------------------------------

Verdict checkScenario(const Params &params) {
    if (!params.isV3()) return std::nullopt;
    if (params.tokenX->rank() == 2 && isBlockIndexed(params.cacheMode) && params.actualSeqLen == nullptr) {
        return refuse("actualSeqLenOptional is null, must be given when tokenX is (T, He) and cacheModeOptional is " +
                      params.cacheMode);
    }
    const auto check = [&](const char *name, int64_t found, int64_t wanted) -> Verdict {
        if (found == wanted) return std::nullopt;
        return refuse(mustBe(name, std::to_string(found), std::to_string(wanted)) + " when kvCacheQuantMode is " +
                      std::to_string(params.kvCacheQuantMode));
    };
    const int64_t combined = params.kvCacheQuantMode == 3 ? 1 : 0;
    if (auto refusal = check("ckvkrRepoMode", params.ckvkrRepoMode, combined)) return refusal;
    if (auto refusal = check("quantScaleRepoMode", params.quantScaleRepoMode, combined)) return refusal;
    return check("queryQuantMode", params.queryQuantMode, params.kvCacheQuantMode == 1 ? 1 : 0);
}

// ---- sizes ---------------------------------------------------------------------------------------------------------

Verdict checkSize(const char *what, uint32_t found, std::initializer_list<int64_t> allowed) {
    if (isIn(found, allowed)) return std::nullopt;
    return refuse(mustBe(what, std::to_string(found), (allowed.size() > 1 ? "one of " : "") + oneOf(allowed)));
}

Verdict checkBlockSize(const Params &params, const Sizes &sizes) {
    if (!isPaged(params.cacheMode)) return std::nullopt;
    if (sizes.blockSize >= 16 && sizes.blockSize <= 1024 && sizes.blockSize % 16 == 0) return std::nullopt;
    return refuse(mustBe("BlockSize (dimension 1 of kvCacheRef)", std::to_string(sizes.blockSize),
                         "a multiple of 16 from 16 to 1024"));
}

Verdict checkRowWidth(const Params &params, const Sizes &sizes) {
    if (!params.isV3()) return std::nullopt;  // V1 and V2 take any width
    const uint32_t wanted = params.kvCacheQuantMode == 3 ? 656 : 512;
    if (sizes.dtile == wanted) return std::nullopt;
    return refuse(mustBe("the last dimension of kvCacheRef", std::to_string(sizes.dtile),
                         wanted == 656 ? "656 (512 values, 64 BF16, 4 FP32) when kvCacheQuantMode is 3" : "512"));
}

Verdict checkSizes(const Params &params) {
    const Sizes sizes = sizesOf(params);
    if (sizes.b > 65536) {
        return refuse(mustBe("B (dimension 0 of tokenX, or the length of actualSeqLenOptional)",
                             std::to_string(sizes.b), "at most 65536"));
    }
    if (auto refusal = checkSize("He (last dimension of tokenX)", sizes.he,
                                 {1024, 2048, 3072, 4096, 5120, 6144, 7168, 7680, 8192})) {
        return refusal;
    }
    if (auto refusal = checkSize("N (dimension 0 of weightUk)", sizes.n, {1, 2, 4, 8, 16, 32, 64, 128})) return refusal;
    if (auto refusal = checkSize("Hckv (columns of weightDkvKr less Dr)", sizes.hckv, {512})) return refusal;
    if (auto refusal = checkSize("Dr (last dimension of ropeCos)", sizes.dr, {64})) return refusal;
    if (auto refusal = checkSize("Nkv (last but one dimension of kvCacheRef)", sizes.nkv, {1})) return refusal;
    if (auto refusal = checkBlockSize(params, sizes)) return refusal;
    const bool v3 = params.isV3();
    if (auto refusal = v3 ? checkSize("Hcq (columns of weightDq)", sizes.hcq, {1536, 2048})
                          : checkSize("Hcq (columns of weightDq)", sizes.hcq, {1536})) {
        return refusal;
    }
    if (auto refusal = v3 ? checkSize("D (dimension 1 of weightUk)", sizes.d, {128, 192})
                          : checkSize("D (dimension 1 of weightUk)", sizes.d, {128})) {
        return refusal;
    }
    return checkRowWidth(params, sizes);
}

// ---- operands of special scenarios ---------------------------------------------------------------------------------

Verdict checkSpecialShapes(const Params &params) {
    if (!params.isV3()) return std::nullopt;
    if (params.ckvkrRepoMode == 1 && !params.krCache->isEmpty()) {
        return refuse(mustBe("the shape of krCacheRef", text(params.krCache->shape),
                             "empty, [0] say, when ckvkrRepoMode is 1 (k_rope is stored in kvCacheRef)"));
    }
    if (params.tokenX->rank() != 2 || !isBlockIndexed(params.cacheMode)) return std::nullopt;
    if (params.cacheIndex == nullptr) {
        return refuse("cacheIndexOptional is null, must be given when cacheModeOptional is " + params.cacheMode);
    }
    if (params.cacheIndex->rank() != 1) {
        return refuse(mustBe("the rank of cacheIndexOptional", std::to_string(params.cacheIndex->rank()), "1") +
                      " when tokenX is (T, He) and cacheModeOptional is " + params.cacheMode);
    }
    return std::nullopt;
}

Verdict checkOperands(const Params &params) {
    std::string faults;
    for (const Expected &operand : expectedOperands(params, *scenarioOf(params), sizesOf(params))) {
        const std::string fault = faultOf(operand);
        if (!fault.empty()) faults += (faults.empty() ? "" : "; ") + fault;
    }
    if (faults.empty()) return std::nullopt;
    return refuse(faults + " (" + scenarioOf(params)->describe() + ", cacheModeOptional " + params.cacheMode + ")");
}

}  // namespace

std::optional<Rejection> checkTiling(const Params &params) {
    for (auto check : {checkAttributes, checkRanks, checkActualSeqLen, checkCacheModeName, checkCacheModeRanks,
                       checkCacheModeOfTiles, checkScenario, checkSizes, checkSpecialShapes, checkOperands}) {
        if (auto refusal = check(params)) return refusal;
    }
    return std::nullopt;
}

uint64_t workspaceSize(const Params &params) {
    constexpr uint64_t kSystem = 16777216;
    const Scenario scenario = *scenarioOf(params);
    const Sizes sizes = sizesOf(params);
    if (sizes.t == 0) return kSystem;
    // Long MX prefills are split over the 32 cores of an Ascend950, each with buffers of its own.
    const bool splitM = scenario.weight == WeightQuant::Mxfp8 && sizes.t >= 8192 &&
                        (sizes.he == 7168 || sizes.he == 7680) && sizes.n == 128;
    const uint64_t cores = splitM ? 32 : 1;
    const uint64_t kvCores = splitM && sizes.blockNum == 0 ? 0 : cores;  // no cache: that product is not planned
    const uint64_t step = std::min<uint64_t>(128, sizes.t);
    const uint64_t kvColumns = sizes.hckv + sizes.dr, heads = sizes.n;
    uint64_t bytes = kSystem;
    if (scenario.isFullQuant()) {
        bytes += step * sizes.hcq * cores * (4 + 2) + step * kvColumns * kvCores * 4;
        if (scenario.kv == KvQuant::PerTensor) bytes += step * heads * sizes.hckv * cores * 2;
    } else {
        bytes += step * sizes.hcq * cores * 2 * 2 + step * kvColumns * kvCores * 2;
    }
    bytes += step * sizes.headsUqQr() * cores * 4 + step * heads * sizes.d * cores * 2;
    if (splitM && scenario.kv != KvQuant::PerTile) bytes += step * heads * sizes.d * cores * 2;
    const aclDataType uqqr = params.weightUqQr->dtype;
    if ((uqqr == ACL_INT8 && heads >= 8) || uqqr == ACL_FLOAT8_E4M3FN || uqqr == ACL_HIFLOAT8) {
        bytes += step * cores * 32;  // scales of the dequantisation that overlaps the product
    }
    return bytes;
}

}  // namespace sim::mla_prolog
