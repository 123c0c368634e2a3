/* aclnnRopeWithSinCosCache */
#ifndef CANN_MLA_ACLNNOP_ACLNN_ROPE_WITH_SIN_COS_CACHE_H
#define CANN_MLA_ACLNNOP_ACLNN_ROPE_WITH_SIN_COS_CACHE_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnRopeWithSinCosCacheGetWorkspaceSize(
    const aclTensor *positions, const aclTensor *queryIn, const aclTensor *keyIn,
    const aclTensor *cosSinCache, const aclIntArray *mropeSection, int64_t headSize, bool isNeoxStyle,
    aclTensor *queryOut, aclTensor *keyOut, uint64_t *workspaceSize, aclOpExecutor **executor); /* since 8.5 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnRopeWithSinCosCache(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 8.5 */

#ifdef __cplusplus
}
#endif

#endif
