/* aclnnMlaPreprocess */
#ifndef CANN_MLA_ACLNNOP_ACLNN_MLA_PREPROCESS_H
#define CANN_MLA_ACLNNOP_ACLNN_MLA_PREPROCESS_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMlaPreprocessGetWorkspaceSize(
    const aclTensor *input, const aclTensor *gamma0, const aclTensor *beta0, const aclTensor *quantScale0,
    const aclTensor *quantOffset0, const aclTensor *wdqkv, const aclTensor *deScale0,
    const aclTensor *bias0, const aclTensor *gamma1, const aclTensor *beta1, const aclTensor *quantScale1,
    const aclTensor *quantOffset1, const aclTensor *wuq, const aclTensor *deScale1, const aclTensor *bias1,
    const aclTensor *gamma2, const aclTensor *cos, const aclTensor *sin, const aclTensor *wuk,
    const aclTensor *kvCache, const aclTensor *kvCacheRope, const aclTensor *slotMapping,
    const aclTensor *ctkvScale, const aclTensor *qNopeScale, int64_t wdqDim, int64_t qRopeDim,
    int64_t kRopeDim, double epsilon, int64_t qRotaryCoeff, int64_t kRotaryCoeff, bool transposeWdq,
    bool transposeWuq, bool transposeWuk, int64_t cacheMode, int64_t quantMode, bool doRmsNorm,
    int64_t wdkvSplitCount, const aclTensor *qOut, const aclTensor *kvCacheOut, const aclTensor *qRopeOut,
    const aclTensor *krCacheOut, uint64_t *workspaceSize, aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnMlaPreprocess(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
