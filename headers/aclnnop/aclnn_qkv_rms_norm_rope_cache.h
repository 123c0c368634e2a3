/* aclnnQkvRmsNormRopeCache */
#ifndef CANN_MLA_ACLNNOP_ACLNN_QKV_RMS_NORM_ROPE_CACHE_H
#define CANN_MLA_ACLNNOP_ACLNN_QKV_RMS_NORM_ROPE_CACHE_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnQkvRmsNormRopeCacheGetWorkspaceSize(
    const aclTensor *qkv, const aclTensor *qGamma, const aclTensor *kGamma, const aclTensor *cos,
    const aclTensor *sin, const aclTensor *index, aclTensor *qOut, aclTensor *kCache, aclTensor *vCache,
    const aclTensor *kScaleOptional, const aclTensor *vScaleOptional, const aclTensor *kOffsetOptional,
    const aclTensor *vOffsetOptional, const aclIntArray *qkvSize, const aclIntArray *headNums,
    double epsilon, char *cacheModeOptional, const aclTensor *qOutBeforeQuant,
    const aclTensor *kOutBeforeQuant, const aclTensor *vOutBeforeQuant, uint64_t *workspaceSize,
    aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnQkvRmsNormRopeCache(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
