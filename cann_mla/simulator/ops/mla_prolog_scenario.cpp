#include "ops/mla_prolog.hpp"

namespace sim::mla_prolog {
namespace {

// The element type of quantised operands under a weightQuantMode.
aclDataType quantDtype(WeightQuant weight) {
    switch (weight) {
        case WeightQuant::Mxfp8:
        case WeightQuant::E4m3: return ACL_FLOAT8_E4M3FN;
        case WeightQuant::Hifloat8: return ACL_HIFLOAT8;
        default: return ACL_INT8;
    }
}

bool isScenario(int64_t weightQuantMode, int64_t kvCacheQuantMode) {
    const int64_t wq = weightQuantMode, kq = kvCacheQuantMode;
    if (wq == 0) return kq == 0;
    if (wq == 1) return kq == 0 || kq == 2 || kq == 3;
    return kq == 0 || kq == 1 || kq == 3;
}

Scenario fromDtypes(const Params &params) {
    const bool int8Cache = params.kvCache->dtype == ACL_INT8;
    if (params.tokenX->dtype == ACL_INT8) {
        return {WeightQuant::Int8, int8Cache ? KvQuant::PerTensor : KvQuant::None};
    }
    if (params.weightUqQr->dtype == ACL_INT8) {
        return {WeightQuant::Partial, int8Cache ? KvQuant::PerChannel : KvQuant::None};
    }
    return {WeightQuant::None, KvQuant::None};
}

}  // namespace

aclDataType Scenario::tokenDtype() const { return isFullQuant() ? quantDtype(weight) : ACL_BF16; }

aclDataType Scenario::weightUqQrDtype() const { return weight == WeightQuant::None ? ACL_BF16 : quantDtype(weight); }

aclDataType Scenario::kvCacheDtype() const { return kv == KvQuant::None ? ACL_BF16 : quantDtype(weight); }

aclDataType Scenario::krCacheDtype() const { return kv == KvQuant::PerChannel ? ACL_INT8 : ACL_BF16; }

aclDataType Scenario::queryDtype() const { return kv == KvQuant::PerTensor ? quantDtype(weight) : ACL_BF16; }

aclDataType Scenario::queryNormDtype() const { return weight == WeightQuant::None ? ACL_BF16 : quantDtype(weight); }

aclDataType Scenario::normScaleDtype() const { return weight == WeightQuant::Mxfp8 ? ACL_FLOAT8_E8M0 : ACL_FLOAT; }

bool Scenario::needsClipAlpha() const {
    return kv == KvQuant::PerTile && (weight == WeightQuant::Partial || weight == WeightQuant::Int8);
}

std::string Scenario::describe() const {
    return "weightQuantMode " + std::to_string(static_cast<int>(weight)) + ", kvCacheQuantMode " +
           std::to_string(static_cast<int>(kv));
}

std::optional<Scenario> scenarioOf(const Params &params) {
    if (!params.isV3()) return fromDtypes(params);
    const int64_t highest = params.is950() ? 5 : 2;
    if (params.weightQuantMode < 0 || params.weightQuantMode > highest ||
        !isScenario(params.weightQuantMode, params.kvCacheQuantMode)) {
        return std::nullopt;
    }
    return Scenario{static_cast<WeightQuant>(params.weightQuantMode), static_cast<KvQuant>(params.kvCacheQuantMode)};
}

bool isPaged(const std::string &cacheMode) { return cacheMode != "BSND" && cacheMode != "TND"; }

bool isBlockIndexed(const std::string &cacheMode) { return cacheMode == "PA_BLK_BSND" || cacheMode == "PA_BLK_NZ"; }

bool isBlockwiseNz(const std::string &cacheMode) { return cacheMode == "PA_NZ" || cacheMode == "PA_BLK_NZ"; }

bool countsAsNd(aclFormat format) {
    switch (static_cast<int>(format)) {
        case ACL_FORMAT_ND:
        case ACL_FORMAT_NCHW:
        case ACL_FORMAT_NHWC:
        case ACL_FORMAT_NCDHW:
        case ACL_FORMAT_NCL:
        case 31: return true;  // DHWCN, which acl_base.h does not name
        default: return false;
    }
}

Sizes sizesOf(const Params &params) {
    const auto at = [](const TensorDesc *tensor, size_t index) { return static_cast<uint32_t>(tensor->shape[index]); };
    // A weight in FRACTAL_NZ may be described as (K, M) or by its blocks (M/C0, K/16, 16, C0).
    const auto columns = [&](const TensorDesc *weight, uint32_t c0) {
        return weight->rank() == 2 ? at(weight, 1) : at(weight, 0) * c0;
    };
    Sizes sizes;
    sizes.fused = params.tokenX->rank() == 2;
    if (sizes.fused) {
        sizes.t = at(params.tokenX, 0);
        sizes.he = at(params.tokenX, 1);
    } else {
        sizes.b = at(params.tokenX, 0);
        sizes.s = at(params.tokenX, 1);
        sizes.he = at(params.tokenX, 2);
        sizes.t = sizes.b * sizes.s;
    }
    sizes.hcq = columns(params.weightDq, 32 / static_cast<uint32_t>(packedBytes(1, params.weightDq->dtype)));
    sizes.n = at(params.weightUk, 0);
    sizes.d = at(params.weightUk, 1);
    sizes.dr = at(params.ropeCos, params.ropeCos->shape.size() - 1);
    const uint32_t blockWidth = params.weightDkvKr->rank() == 4 ? at(params.weightDkvKr, 3) : 0;
    sizes.hckv = columns(params.weightDkvKr, blockWidth) - sizes.dr;
    const size_t blocks = params.kvCache->rank() == 3 ? 0 : 1;
    sizes.blockNum = at(params.kvCache, 0);
    if (blocks == 1) sizes.blockSize = at(params.kvCache, 1);
    sizes.nkv = at(params.kvCache, blocks + 1);
    sizes.dtile = at(params.kvCache, blocks + 2);
    if (sizes.fused && isBlockIndexed(params.cacheMode) && params.actualSeqLen != nullptr) {
        sizes.b = params.actualSeqLen->rank() == 0 ? 0 : at(params.actualSeqLen, 0);
    }
    return sizes;
}

}  // namespace sim::mla_prolog
