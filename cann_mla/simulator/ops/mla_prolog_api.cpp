// The C entry points of MlaProlog. They collect operands in the order of the prototypes, let the rules judge, and hand
// the kernel to the stream.
#include "aclnnop/aclnn_mla_prolog.h"
#include "aclnnop/aclnn_mla_prolog_v2_weight_nz.h"
#include "aclnnop/aclnn_mla_prolog_v3_weight_nz.h"
#include "core/entry.hpp"
#include "core/operator.hpp"
#include "ops/mla_prolog.hpp"
#include "ops/mla_prolog_kernel.hpp"

namespace sim::mla_prolog {
namespace {

const char *apiOf(Version version) {
    switch (version) {
        case Version::V1: return "aclnnMlaProlog";
        case Version::V2: return "aclnnMlaPrologV2WeightNz";
        default: return "aclnnMlaPrologV3WeightNz";
    }
}

// Null means the default of the operator definition; V1 and V2 have one that their tiling then refuses.
std::string cacheModeOf(const char *given, Version version) {
    if (given != nullptr) return given;
    return version == Version::V3 ? "PA_BSND" : "BNSD";
}

Operands operandsOf(const Launch &launch, Version version) {
    const bool v3 = version == Version::V3;
    Operands operands{};
    operands.launch = &launch;
    operands.tokenX = launch.in("tokenX");
    operands.weightDq = launch.in("weightDq");
    operands.weightUqQr = launch.in("weightUqQr");
    operands.weightUk = launch.in("weightUk");
    operands.weightDkvKr = launch.in("weightDkvKr");
    operands.rmsnormGammaCq = launch.in<uint16_t>("rmsnormGammaCq");
    operands.rmsnormGammaCkv = launch.in<uint16_t>("rmsnormGammaCkv");
    operands.ropeSin = launch.in<uint16_t>("ropeSin");
    operands.ropeCos = launch.in<uint16_t>("ropeCos");
    operands.kvCache = launch.out("kvCacheRef");
    operands.krCache = launch.out("krCacheRef");
    operands.cacheIndex = launch.in<int64_t>(v3 ? "cacheIndexOptional" : "cacheIndex");
    operands.dequantScaleX = launch.in("dequantScaleXOptional");
    operands.dequantScaleWDq = launch.in("dequantScaleWDqOptional");
    operands.dequantScaleWUqQr = launch.in("dequantScaleWUqQrOptional");
    operands.dequantScaleWDkvKr = launch.in("dequantScaleWDkvKrOptional");
    operands.quantScaleCkv = launch.in<float>("quantScaleCkvOptional");
    operands.quantScaleCkr = launch.in<float>("quantScaleCkrOptional");
    operands.smoothScalesCq = launch.in<float>("smoothScalesCqOptional");
    operands.query = launch.out("queryOut");
    operands.queryRope = launch.out<uint16_t>("queryRopeOut");
    if (version != Version::V1) operands.dequantScaleQNope = launch.out<float>("dequantScaleQNopeOutOptional");
    if (!v3) return operands;
    operands.actualSeqLen = launch.in<int32_t>("actualSeqLenOptional");
    operands.kNopeClipAlpha = launch.in<float>("kNopeClipAlphaOptional");
    operands.queryNorm = launch.out("queryNormOutOptional");
    operands.dequantScaleQNorm = launch.out("dequantScaleQNormOutOptional");
    return operands;
}

aclnnStatus decide(PhaseOne &call, const Params &params) {
    for (const char *name : {"kvCacheRef", "krCacheRef"}) call.touches(name, Touch::Told);
    if (auto refusal = checkDefinition(params, call.executorIsNull())) return call.reject(*refusal);
    if (auto refusal = call.checkViews()) return call.reject(*refusal);
    if (call.allOutputsEmpty()) return call.acceptEmpty();
    if (auto refusal = checkTiling(params)) return call.reject(*refusal);
    return call.accept(workspaceSize(params), [plan = planOf(params), version = params.version](const Launch &launch) {
        run(plan, operandsOf(launch, version));
    });
}

aclnnStatus secondPhase(Version version, void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                        aclrtStream stream) {
    if (version != Version::V3 && product() == Product::A950) {
        return fail(apiOf(version), 361001, "Ascend950 no longer has this version; call aclnnMlaPrologV3WeightNz");
    }
    return phaseTwo(apiOf(version), workspace, workspaceSize, executor, stream);
}

// The operands that V1 and V2 share, in their order.
Params collectOld(PhaseOne &call, Version version, const aclTensor *tokenX, const aclTensor *weightDq,
                  const aclTensor *weightUqQr, const aclTensor *weightUk, const aclTensor *weightDkvKr,
                  const aclTensor *rmsnormGammaCq, const aclTensor *rmsnormGammaCkv, const aclTensor *ropeSin,
                  const aclTensor *ropeCos, const aclTensor *cacheIndex, aclTensor *kvCacheRef, aclTensor *krCacheRef,
                  const aclTensor *dequantScaleXOptional, const aclTensor *dequantScaleWDqOptional,
                  const aclTensor *dequantScaleWUqQrOptional, const aclTensor *dequantScaleWDkvKrOptional,
                  const aclTensor *quantScaleCkvOptional, const aclTensor *quantScaleCkrOptional,
                  const aclTensor *smoothScalesCqOptional) {
    Params params;
    params.version = version;
    params.product = product();
    params.tokenX = call.input("tokenX", tokenX);
    params.weightDq = call.input("weightDq", weightDq);
    params.weightUqQr = call.input("weightUqQr", weightUqQr);
    params.weightUk = call.input("weightUk", weightUk);
    params.weightDkvKr = call.input("weightDkvKr", weightDkvKr);
    params.rmsnormGammaCq = call.input("rmsnormGammaCq", rmsnormGammaCq);
    params.rmsnormGammaCkv = call.input("rmsnormGammaCkv", rmsnormGammaCkv);
    params.ropeSin = call.input("ropeSin", ropeSin);
    params.ropeCos = call.input("ropeCos", ropeCos);
    params.cacheIndex = call.input("cacheIndex", cacheIndex);
    params.kvCache = call.inplace("kvCacheRef", kvCacheRef);
    params.krCache = call.inplace("krCacheRef", krCacheRef);
    params.dequantScaleX = call.input("dequantScaleXOptional", dequantScaleXOptional);
    params.dequantScaleWDq = call.input("dequantScaleWDqOptional", dequantScaleWDqOptional);
    params.dequantScaleWUqQr = call.input("dequantScaleWUqQrOptional", dequantScaleWUqQrOptional);
    params.dequantScaleWDkvKr = call.input("dequantScaleWDkvKrOptional", dequantScaleWDkvKrOptional);
    params.quantScaleCkv = call.input("quantScaleCkvOptional", quantScaleCkvOptional);
    params.quantScaleCkr = call.input("quantScaleCkrOptional", quantScaleCkrOptional);
    params.smoothScalesCq = call.input("smoothScalesCqOptional", smoothScalesCqOptional);
    return params;
}

}  // namespace
}  // namespace sim::mla_prolog

using namespace sim::mla_prolog;

extern "C" {

aclnnStatus aclnnMlaPrologGetWorkspaceSize(
    const aclTensor *tokenX, const aclTensor *weightDq, const aclTensor *weightUqQr, const aclTensor *weightUk,
    const aclTensor *weightDkvKr, const aclTensor *rmsnormGammaCq, const aclTensor *rmsnormGammaCkv,
    const aclTensor *ropeSin, const aclTensor *ropeCos, const aclTensor *cacheIndex, aclTensor *kvCacheRef,
    aclTensor *krCacheRef, const aclTensor *dequantScaleXOptional, const aclTensor *dequantScaleWDqOptional,
    const aclTensor *dequantScaleWUqQrOptional, const aclTensor *dequantScaleWDkvKrOptional,
    const aclTensor *quantScaleCkvOptional, const aclTensor *quantScaleCkrOptional,
    const aclTensor *smoothScalesCqOptional, double rmsnormEpsilonCq, double rmsnormEpsilonCkv,
    char *cacheModeOptional, const aclTensor *queryOut, const aclTensor *queryRopeOut, uint64_t *workspaceSize,
    aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call(apiOf(Version::V1), workspaceSize, executor);
    Params params =
        collectOld(call, Version::V1, tokenX, weightDq, weightUqQr, weightUk, weightDkvKr, rmsnormGammaCq,
                   rmsnormGammaCkv, ropeSin, ropeCos, cacheIndex, kvCacheRef, krCacheRef, dequantScaleXOptional,
                   dequantScaleWDqOptional, dequantScaleWUqQrOptional, dequantScaleWDkvKrOptional,
                   quantScaleCkvOptional, quantScaleCkrOptional, smoothScalesCqOptional);
    params.rmsnormEpsilonCq = rmsnormEpsilonCq;
    params.rmsnormEpsilonCkv = rmsnormEpsilonCkv;
    params.cacheMode = cacheModeOf(cacheModeOptional, Version::V1);
    params.query = call.output("queryOut", queryOut);
    params.queryRope = call.output("queryRopeOut", queryRopeOut);
    return decide(call, params);
}

aclnnStatus aclnnMlaProlog(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return secondPhase(Version::V1, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMlaPrologV2WeightNzGetWorkspaceSize(
    const aclTensor *tokenX, const aclTensor *weightDq, const aclTensor *weightUqQr, const aclTensor *weightUk,
    const aclTensor *weightDkvKr, const aclTensor *rmsnormGammaCq, const aclTensor *rmsnormGammaCkv,
    const aclTensor *ropeSin, const aclTensor *ropeCos, const aclTensor *cacheIndex, aclTensor *kvCacheRef,
    aclTensor *krCacheRef, const aclTensor *dequantScaleXOptional, const aclTensor *dequantScaleWDqOptional,
    const aclTensor *dequantScaleWUqQrOptional, const aclTensor *dequantScaleWDkvKrOptional,
    const aclTensor *quantScaleCkvOptional, const aclTensor *quantScaleCkrOptional,
    const aclTensor *smoothScalesCqOptional, double rmsnormEpsilonCq, double rmsnormEpsilonCkv,
    char *cacheModeOptional, const aclTensor *queryOut, const aclTensor *queryRopeOut,
    const aclTensor *dequantScaleQNopeOutOptional, uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call(apiOf(Version::V2), workspaceSize, executor);
    Params params =
        collectOld(call, Version::V2, tokenX, weightDq, weightUqQr, weightUk, weightDkvKr, rmsnormGammaCq,
                   rmsnormGammaCkv, ropeSin, ropeCos, cacheIndex, kvCacheRef, krCacheRef, dequantScaleXOptional,
                   dequantScaleWDqOptional, dequantScaleWUqQrOptional, dequantScaleWDkvKrOptional,
                   quantScaleCkvOptional, quantScaleCkrOptional, smoothScalesCqOptional);
    params.rmsnormEpsilonCq = rmsnormEpsilonCq;
    params.rmsnormEpsilonCkv = rmsnormEpsilonCkv;
    params.cacheMode = cacheModeOf(cacheModeOptional, Version::V2);
    params.query = call.output("queryOut", queryOut);
    params.queryRope = call.output("queryRopeOut", queryRopeOut);
    params.dequantScaleQNope = call.output("dequantScaleQNopeOutOptional", dequantScaleQNopeOutOptional);
    return decide(call, params);
}

aclnnStatus aclnnMlaPrologV2WeightNz(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                     aclrtStream stream) {
    SIM_API;
    return secondPhase(Version::V2, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnMlaPrologV3WeightNzGetWorkspaceSize(
    const aclTensor *tokenX, const aclTensor *weightDq, const aclTensor *weightUqQr, const aclTensor *weightUk,
    const aclTensor *weightDkvKr, const aclTensor *rmsnormGammaCq, const aclTensor *rmsnormGammaCkv,
    const aclTensor *ropeSin, const aclTensor *ropeCos, aclTensor *kvCacheRef, aclTensor *krCacheRef,
    const aclTensor *cacheIndexOptional, const aclTensor *dequantScaleXOptional,
    const aclTensor *dequantScaleWDqOptional, const aclTensor *dequantScaleWUqQrOptional,
    const aclTensor *dequantScaleWDkvKrOptional, const aclTensor *quantScaleCkvOptional,
    const aclTensor *quantScaleCkrOptional, const aclTensor *smoothScalesCqOptional,
    const aclTensor *actualSeqLenOptional, const aclTensor *kNopeClipAlphaOptional, double rmsnormEpsilonCq,
    double rmsnormEpsilonCkv, char *cacheModeOptional, int64_t weightQuantMode, int64_t kvCacheQuantMode,
    int64_t queryQuantMode, int64_t ckvkrRepoMode, int64_t quantScaleRepoMode, int64_t tileSize, double qcQrScale,
    double kcScale, const aclTensor *queryOut, const aclTensor *queryRopeOut,
    const aclTensor *dequantScaleQNopeOutOptional, const aclTensor *queryNormOutOptional,
    const aclTensor *dequantScaleQNormOutOptional, uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call(apiOf(Version::V3), workspaceSize, executor);
    Params params;
    params.product = sim::product();
    // Ascend950 takes the caches as they lie, whatever their strides say.
    const sim::View cacheView = params.is950() ? sim::View::StridesIgnored : sim::View::Copied;
    params.tokenX = call.input("tokenX", tokenX);
    params.weightDq = call.input("weightDq", weightDq);
    params.weightUqQr = call.input("weightUqQr", weightUqQr);
    params.weightUk = call.input("weightUk", weightUk);
    params.weightDkvKr = call.input("weightDkvKr", weightDkvKr);
    params.rmsnormGammaCq = call.input("rmsnormGammaCq", rmsnormGammaCq);
    params.rmsnormGammaCkv = call.input("rmsnormGammaCkv", rmsnormGammaCkv);
    params.ropeSin = call.input("ropeSin", ropeSin);
    params.ropeCos = call.input("ropeCos", ropeCos);
    params.kvCache = call.inplace("kvCacheRef", kvCacheRef, cacheView);
    params.krCache = call.inplace("krCacheRef", krCacheRef, cacheView);
    params.cacheIndex = call.input("cacheIndexOptional", cacheIndexOptional);
    params.dequantScaleX = call.input("dequantScaleXOptional", dequantScaleXOptional);
    params.dequantScaleWDq = call.input("dequantScaleWDqOptional", dequantScaleWDqOptional);
    params.dequantScaleWUqQr = call.input("dequantScaleWUqQrOptional", dequantScaleWUqQrOptional);
    params.dequantScaleWDkvKr = call.input("dequantScaleWDkvKrOptional", dequantScaleWDkvKrOptional);
    params.quantScaleCkv = call.input("quantScaleCkvOptional", quantScaleCkvOptional);
    params.quantScaleCkr = call.input("quantScaleCkrOptional", quantScaleCkrOptional);
    params.smoothScalesCq = call.input("smoothScalesCqOptional", smoothScalesCqOptional);
    params.actualSeqLen = call.input("actualSeqLenOptional", actualSeqLenOptional);
    params.kNopeClipAlpha = call.input("kNopeClipAlphaOptional", kNopeClipAlphaOptional);
    params.rmsnormEpsilonCq = rmsnormEpsilonCq;
    params.rmsnormEpsilonCkv = rmsnormEpsilonCkv;
    params.cacheMode = cacheModeOf(cacheModeOptional, Version::V3);
    params.weightQuantMode = weightQuantMode;
    params.kvCacheQuantMode = kvCacheQuantMode;
    params.queryQuantMode = queryQuantMode;
    params.ckvkrRepoMode = ckvkrRepoMode;
    params.quantScaleRepoMode = quantScaleRepoMode;
    params.tileSize = tileSize;
    params.qcQrScale = qcQrScale;
    params.kcScale = kcScale;
    params.query = call.output("queryOut", queryOut);
    params.queryRope = call.output("queryRopeOut", queryRopeOut);
    params.dequantScaleQNope = call.output("dequantScaleQNopeOutOptional", dequantScaleQNopeOutOptional);
    params.queryNorm = call.output("queryNormOutOptional", queryNormOutOptional);
    params.dequantScaleQNorm = call.output("dequantScaleQNormOutOptional", dequantScaleQNormOutOptional);
    return decide(call, params);
}

aclnnStatus aclnnMlaPrologV3WeightNz(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                     aclrtStream stream) {
    SIM_API;
    return secondPhase(Version::V3, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
