/* aclnnInterleaveRope */
#ifndef CANN_MLA_ACLNNOP_ACLNN_INTERLEAVE_ROPE_H
#define CANN_MLA_ACLNNOP_ACLNN_INTERLEAVE_ROPE_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnInterleaveRopeGetWorkspaceSize(
    const aclTensor *x, const aclTensor *cos, const aclTensor *sin, aclTensor *out, uint64_t *workspaceSize,
    aclOpExecutor **executor); /* since 8.5 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnInterleaveRope(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 8.5 */

#ifdef __cplusplus
}
#endif

#endif
