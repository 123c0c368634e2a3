/* The operator as CANN had it before 8.5.0-beta.1; the workspace size tells which arguments arrived where. */
#include "legacy/8.5.0.alpha001/aclnnop/aclnn_mla_prolog_v3_weight_nz.h"

aclnnStatus aclnnMlaPrologV3WeightNzGetWorkspaceSize(
    const aclTensor *tokenX, const aclTensor *weightDq, const aclTensor *weightUqQr, const aclTensor *weightUk,
    const aclTensor *weightDkvKr, const aclTensor *rmsnormGammaCq, const aclTensor *rmsnormGammaCkv,
    const aclTensor *ropeSin, const aclTensor *ropeCos, aclTensor *kvCacheRef, aclTensor *krCacheRef,
    const aclTensor *cacheIndex, const aclTensor *dequantScaleX, const aclTensor *dequantScaleWDq,
    const aclTensor *dequantScaleWUqQr, const aclTensor *dequantScaleWDkvKr, const aclTensor *quantScaleCkv,
    const aclTensor *quantScaleCkr, const aclTensor *smoothScalesCq, const aclTensor *actualSeqLen,
    double rmsnormEpsilonCq, double rmsnormEpsilonCkv, char *cacheMode, bool queryNormFlag, int64_t weightQuantMode,
    int64_t kvCacheQuantMode, int64_t queryQuantMode, int64_t ckvkrRepoMode, int64_t quantScaleRepoMode,
    int64_t tileSize, double kNopeClipAlpha, double qcQrScale, double kcScale, const aclTensor *queryOut,
    const aclTensor *queryRopeOut, const aclTensor *dequantScaleQNopeOut, const aclTensor *queryNormOut,
    const aclTensor *dequantScaleQNormOut, uint64_t *workspaceSize, aclOpExecutor **executor) {
    (void)tokenX, (void)weightDq, (void)weightUqQr, (void)weightUk, (void)weightDkvKr, (void)rmsnormGammaCq;
    (void)rmsnormGammaCkv, (void)ropeSin, (void)ropeCos, (void)kvCacheRef, (void)krCacheRef, (void)cacheIndex;
    (void)dequantScaleX, (void)dequantScaleWDq, (void)dequantScaleWUqQr, (void)dequantScaleWDkvKr;
    (void)quantScaleCkv, (void)quantScaleCkr, (void)smoothScalesCq, (void)actualSeqLen, (void)rmsnormEpsilonCq;
    (void)rmsnormEpsilonCkv, (void)weightQuantMode, (void)kvCacheQuantMode, (void)queryQuantMode;
    (void)ckvkrRepoMode, (void)quantScaleRepoMode, (void)qcQrScale, (void)kcScale, (void)queryOut, (void)queryRopeOut;
    (void)dequantScaleQNopeOut, (void)queryNormOut, (void)dequantScaleQNormOut;
    *workspaceSize = (uint64_t)(1000000 * queryNormFlag + 1000 * kNopeClipAlpha) + (uint64_t)tileSize;
    if (cacheMode != 0 && cacheMode[0] == 'T') *workspaceSize += 10000000;
    *executor = (aclOpExecutor *)workspaceSize;
    return 0;
}

aclnnStatus aclnnMlaPrologV3WeightNz(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    (void)workspaceSize, (void)executor, (void)stream;
    return workspace == 0 ? ACLNN_ERR_PARAM_NULLPTR : 0;
}
