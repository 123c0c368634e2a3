/* aclnnScatterPaKvCache */
#ifndef CANN_MLA_ACLNNOP_ACLNN_SCATTER_PA_KV_CACHE_H
#define CANN_MLA_ACLNNOP_ACLNN_SCATTER_PA_KV_CACHE_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnScatterPaKvCacheGetWorkspaceSize(
    const aclTensor *key, aclTensor *keyCacheRef, const aclTensor *slotMapping, const aclTensor *value,
    aclTensor *valueCacheRef, const aclTensor *compressLensOptional,
    const aclTensor *compressSeqOffsetOptional, const aclTensor *seqLensOptional, char *cacheModeOptional,
    char *scatterModeOptional, const aclIntArray *stridesOptional, const aclIntArray *offsetsOptional,
    uint64_t *workspaceSize, aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnScatterPaKvCache(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
