// What stands before tiling: op_api's own checks, null operands, and the rows of the operator definition.
#include "ops/mla_prolog.hpp"
#include "ops/mla_prolog_text.hpp"

#include <vector>

namespace sim::mla_prolog {
namespace {

using Verdict = std::optional<Rejection>;

// ---- op_api --------------------------------------------------------------------------------------------------------

Verdict refuseOpApi(const std::string &text) { return Rejection{kOpApiFailed, text}; }

Verdict checkModes(const Params &params) {
    const int64_t wq = params.weightQuantMode, kq = params.kvCacheQuantMode;
    const int64_t highest = params.is950() ? 5 : 2;
    if (wq < 0 || wq > highest) {
        return refuseOpApi(mustBe("weightQuantMode", std::to_string(wq), "0 to " + std::to_string(highest)) + " on " +
                           productName(params.product));
    }
    if (!scenarioOf(params)) {
        const char *allowed = wq == 0 ? "0" : wq == 1 ? "0, 2 or 3" : "0, 1 or 3";
        return refuseOpApi(mustBe("kvCacheQuantMode", std::to_string(kq), allowed) + " when weightQuantMode is " +
                           std::to_string(wq));
    }
    if (params.queryQuantMode != 0 && params.queryQuantMode != 1) {
        return refuseOpApi(mustBe("queryQuantMode", std::to_string(params.queryQuantMode), "0 or 1"));
    }
    return std::nullopt;
}

Verdict checkScaleOutputs(const Params &params) {
    const Scenario scenario = *scenarioOf(params);
    const bool wantsQNope = scenario.kv == KvQuant::PerTensor;
    if (wantsQNope != (params.dequantScaleQNope != nullptr)) {
        return refuseOpApi(std::string("dequantScaleQNopeOutOptional is ") +
                           (wantsQNope ? "null, must be given" : "given, must be null") + " when kvCacheQuantMode is " +
                           std::to_string(params.kvCacheQuantMode));
    }
    const bool wantsQNorm = scenario.weight != WeightQuant::None && params.queryNorm != nullptr;
    if (wantsQNorm != (params.dequantScaleQNorm != nullptr)) {
        return refuseOpApi(wantsQNorm ? "dequantScaleQNormOutOptional is null, must be given with queryNormOutOptional "
                                        "when weightQuantMode is not 0"
                                      : "dequantScaleQNormOutOptional is given, must be null unless "
                                        "queryNormOutOptional is given and weightQuantMode is not 0");
    }
    return std::nullopt;
}

// ---- null operands -------------------------------------------------------------------------------------------------

struct Operand {
    const char *name;
    const TensorDesc *tensor;
};

Verdict checkNulls(const Params &params, bool executorIsNull) {
    std::vector<Operand> required = {
        {"tokenX", params.tokenX},
        {"weightDq", params.weightDq},
        {"weightUqQr", params.weightUqQr},
        {"weightUk", params.weightUk},
        {"weightDkvKr", params.weightDkvKr},
        {"rmsnormGammaCq", params.rmsnormGammaCq},
        {"rmsnormGammaCkv", params.rmsnormGammaCkv},
        {"ropeSin", params.ropeSin},
        {"ropeCos", params.ropeCos},
        {"kvCacheRef", params.kvCache},
        {"krCacheRef", params.krCache},
        {"queryOut", params.query},
        {"queryRopeOut", params.queryRope},
    };
    if (!params.isV3()) required.push_back({"cacheIndex", params.cacheIndex});
    for (const Operand &operand : required) {
        if (operand.tensor != nullptr) continue;
        const bool dereferenced = params.version == Version::V2 && operand.tensor == params.tokenX;
        return Rejection{kNullPointer, std::string(operand.name) + " is null, must be given" +
                                           (dereferenced ? " (CANN itself crashes on this one)" : "")};
    }
    if (executorIsNull) return Rejection{kNullPointer, "executor is null, must point to where the executor goes"};
    return std::nullopt;
}

// ---- operator definition -------------------------------------------------------------------------------------------

// The dtypes that vary from row to row; all other operands have one dtype only.
struct Row {
    aclDataType token, weightUqQr, kvCache, krCache, query, queryNorm, normScale;
};

constexpr aclDataType BF = ACL_BF16, I8 = ACL_INT8, E4 = ACL_FLOAT8_E4M3FN, H8 = ACL_HIFLOAT8, FP = ACL_FLOAT,
                      E8 = ACL_FLOAT8_E8M0;

// The last A2 row fits no scenario; it is in the definition all the same.
const std::vector<Row> kRowsA2 = {
    {BF, BF, BF, BF, BF, BF, FP}, {BF, I8, BF, BF, BF, I8, FP}, {BF, I8, I8, I8, BF, I8, FP},
    {BF, I8, I8, BF, BF, I8, FP}, {I8, I8, BF, BF, BF, I8, FP}, {I8, I8, I8, BF, I8, I8, FP},
    {I8, I8, I8, BF, BF, I8, FP}, {I8, I8, I8, I8, BF, I8, FP},
};
const std::vector<Row> kRows950 = {
    {BF, BF, BF, BF, BF, BF, FP}, {BF, I8, BF, BF, BF, I8, FP}, {BF, I8, I8, I8, BF, I8, FP},
    {BF, I8, I8, BF, BF, I8, FP}, {I8, I8, BF, BF, BF, I8, FP}, {E4, E4, BF, BF, BF, E4, FP},
    {H8, H8, BF, BF, BF, H8, FP}, {I8, I8, I8, BF, I8, I8, FP}, {E4, E4, E4, BF, E4, E4, FP},
    {H8, H8, H8, BF, H8, H8, FP}, {I8, I8, I8, BF, BF, I8, FP}, {E4, E4, E4, BF, BF, E4, FP},
    {H8, H8, H8, BF, BF, H8, FP}, {E4, E4, BF, BF, BF, E4, E8}, {E4, E4, E4, BF, E4, E4, E8},
    {E4, E4, E4, BF, BF, E4, E8},
};
// V1 and V2 have no queryNorm; V2's last row is the one that V1 lacks.
const std::vector<Row> kRowsV2 = {
    {BF, BF, BF, BF, BF, BF, FP}, {BF, I8, I8, I8, BF, I8, FP}, {BF, I8, BF, BF, BF, I8, FP},
    {I8, I8, I8, I8, BF, I8, FP}, {I8, I8, BF, BF, BF, I8, FP}, {I8, I8, I8, BF, I8, I8, FP},
};
const std::vector<Row> kRowsV1(kRowsV2.begin(), kRowsV2.end() - 1);

const std::vector<Row> &rowsOf(const Params &params) {
    if (params.version == Version::V1) return kRowsV1;
    if (params.version == Version::V2) return kRowsV2;
    return params.is950() ? kRows950 : kRowsA2;
}

struct Typed {
    const char *name;
    aclDataType dtype;
    aclDataType Row::*wanted;
};

// What the caller gave, null outputs with the dtype that op_api gives their placeholders.
std::vector<Typed> typesOf(const Params &params) {
    std::vector<Typed> types = {
        {"tokenX", params.tokenX->dtype, &Row::token},
        {"weightDq", params.weightDq->dtype, &Row::token},
        {"weightUqQr", params.weightUqQr->dtype, &Row::weightUqQr},
        {"weightDkvKr", params.weightDkvKr->dtype, &Row::token},
        {"kvCacheRef", params.kvCache->dtype, &Row::kvCache},
        {"krCacheRef", params.krCache->dtype, &Row::krCache},
        {"queryOut", params.query->dtype, &Row::query},
    };
    if (params.isV3()) {
        const Scenario scenario = *scenarioOf(params);
        const aclDataType norm = params.queryNorm ? params.queryNorm->dtype : scenario.queryNormDtype();
        const aclDataType scale =
            params.dequantScaleQNorm ? params.dequantScaleQNorm->dtype : scenario.normScaleDtype();
        types.push_back({"queryNormOutOptional", norm, &Row::queryNorm});
        types.push_back({"dequantScaleQNormOutOptional", scale, &Row::normScale});
    }
    return types;
}

Verdict checkRows(const Params &params) {
    const std::vector<Typed> types = typesOf(params);
    std::vector<const Typed *> closest;
    const Row *closestRow = nullptr;
    for (const Row &row : rowsOf(params)) {
        std::vector<const Typed *> wrong;
        for (const Typed &type : types) {
            if (type.dtype != row.*type.wanted) wrong.push_back(&type);
        }
        if (wrong.empty()) return std::nullopt;
        if (closestRow == nullptr || wrong.size() < closest.size()) {
            closest = wrong;
            closestRow = &row;
        }
    }
    std::string fault = "the dtypes are no row of the operator definition on " +
                        std::string(productName(params.product)) + "; the closest one differs in";
    for (const Typed *type : closest) {
        fault += std::string(type == closest.front() ? " " : ", ") +
                 mustBe(type->name, dtypeName(type->dtype), dtypeName(closestRow->*type->wanted));
    }
    if (params.isV3()) {
        fault += " (null optional outputs count as the dtype of weightQuantMode " +
                 std::to_string(params.weightQuantMode) + ")";
    }
    return Rejection{kInvalidParameter, fault};
}

struct Fixed {
    const char *name;
    const TensorDesc *tensor;
    bool fractalNz;
    aclDataType dtype;  // ACL_DT_UNDEFINED: varies from row to row
};

Verdict checkFixed(const Params &params) {
    constexpr aclDataType any = ACL_DT_UNDEFINED;
    std::vector<Fixed> operands = {
        {"tokenX", params.tokenX, false, any},
        {"weightDq", params.weightDq, true, any},
        {"weightUqQr", params.weightUqQr, true, any},
        {"weightUk", params.weightUk, false, BF},
        {"weightDkvKr", params.weightDkvKr, true, any},
        {"rmsnormGammaCq", params.rmsnormGammaCq, false, BF},
        {"rmsnormGammaCkv", params.rmsnormGammaCkv, false, BF},
        {"ropeSin", params.ropeSin, false, BF},
        {"ropeCos", params.ropeCos, false, BF},
        {"kvCacheRef", params.kvCache, false, any},
        {"krCacheRef", params.krCache, false, any},
        {"queryOut", params.query, false, any},
        {"queryRopeOut", params.queryRope, false, BF},
        {"dequantScaleQNopeOutOptional", params.dequantScaleQNope, false, FP},
        {"queryNormOutOptional", params.queryNorm, false, any},
        {"dequantScaleQNormOutOptional", params.dequantScaleQNorm, false, any},
    };
    if (!params.isV3()) operands.push_back({"cacheIndex", params.cacheIndex, false, ACL_INT64});
    for (const Fixed &operand : operands) {
        if (operand.tensor == nullptr) continue;
        const aclFormat format = operand.tensor->format;
        if (operand.fractalNz ? format != ACL_FORMAT_FRACTAL_NZ : !countsAsNd(format)) {
            return Rejection{kInvalidParameter, mustBe(std::string("the format of ") + operand.name, formatName(format),
                                                       operand.fractalNz ? "FRACTAL_NZ" : "ND")};
        }
        if (operand.dtype != any && operand.tensor->dtype != operand.dtype) {
            return Rejection{kInvalidParameter, mustBe(std::string("the dtype of ") + operand.name,
                                                       dtypeName(operand.tensor->dtype), dtypeName(operand.dtype))};
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<Rejection> checkDefinition(const Params &params, bool executorIsNull) {
    if (!params.isV3() && params.is950()) {
        return Rejection{kWrongProduct, "Ascend950 no longer has this version; call aclnnMlaPrologV3WeightNz"};
    }
    if (params.isV3()) {
        if (auto refusal = checkModes(params)) return refusal;
        if (auto refusal = checkScaleOutputs(params)) return refusal;
    }
    if (auto refusal = checkNulls(params, executorIsNull)) return refusal;
    if (auto refusal = checkFixed(params)) return refusal;
    return checkRows(params);
}

}  // namespace sim::mla_prolog
