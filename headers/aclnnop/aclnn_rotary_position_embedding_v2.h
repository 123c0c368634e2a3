/* aclnnRotaryPositionEmbeddingV2 */
#ifndef CANN_MLA_ACLNNOP_ACLNN_ROTARY_POSITION_EMBEDDING_V2_H
#define CANN_MLA_ACLNNOP_ACLNN_ROTARY_POSITION_EMBEDDING_V2_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnRotaryPositionEmbeddingV2GetWorkspaceSize(
    const aclTensor *x, const aclTensor *cos, const aclTensor *sin, int64_t mode, const aclTensor *rotate,
    aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnRotaryPositionEmbeddingV2(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
