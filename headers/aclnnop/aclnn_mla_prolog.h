/* aclnnMlaProlog */
#ifndef CANN_MLA_ACLNNOP_ACLNN_MLA_PROLOG_H
#define CANN_MLA_ACLNNOP_ACLNN_MLA_PROLOG_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMlaPrologGetWorkspaceSize(
    const aclTensor *tokenX, const aclTensor *weightDq, const aclTensor *weightUqQr,
    const aclTensor *weightUk, const aclTensor *weightDkvKr, const aclTensor *rmsnormGammaCq,
    const aclTensor *rmsnormGammaCkv, const aclTensor *ropeSin, const aclTensor *ropeCos,
    const aclTensor *cacheIndex, aclTensor *kvCacheRef, aclTensor *krCacheRef,
    const aclTensor *dequantScaleXOptional, const aclTensor *dequantScaleWDqOptional,
    const aclTensor *dequantScaleWUqQrOptional, const aclTensor *dequantScaleWDkvKrOptional,
    const aclTensor *quantScaleCkvOptional, const aclTensor *quantScaleCkrOptional,
    const aclTensor *smoothScalesCqOptional, double rmsnormEpsilonCq, double rmsnormEpsilonCkv,
    char *cacheModeOptional, const aclTensor *queryOut, const aclTensor *queryRopeOut,
    uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMlaProlog(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
