/* aclnnApplyRotaryPosEmbV2 */
#ifndef CANN_MLA_ACLNNOP_ACLNN_APPLY_ROTARY_POS_EMB_V2_H
#define CANN_MLA_ACLNNOP_ACLNN_APPLY_ROTARY_POS_EMB_V2_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnApplyRotaryPosEmbV2GetWorkspaceSize(
    aclTensor *queryRef, aclTensor *keyRef, const aclTensor *cos, const aclTensor *sin, int64_t layout,
    char *rotaryMode, uint64_t *workspaceSize, aclOpExecutor **executor); /* since 8.5 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnApplyRotaryPosEmbV2(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 8.5 */

#ifdef __cplusplus
}
#endif

#endif
