/* aclnnApplyRotaryPosEmb */
#ifndef CANN_MLA_ACLNNOP_ACLNN_APPLY_ROTARY_POS_EMB_H
#define CANN_MLA_ACLNNOP_ACLNN_APPLY_ROTARY_POS_EMB_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnApplyRotaryPosEmbGetWorkspaceSize(
    aclTensor *queryRef, aclTensor *keyRef, const aclTensor *cos, const aclTensor *sin, int64_t layout,
    uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnApplyRotaryPosEmb(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
