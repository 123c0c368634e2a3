/* aclnnRingAttentionUpdate, aclnnRingAttentionUpdateV2 */
#ifndef CANN_MLA_ACLNNOP_ACLNN_RING_ATTENTION_UPDATE_H
#define CANN_MLA_ACLNNOP_ACLNN_RING_ATTENTION_UPDATE_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnRingAttentionUpdateGetWorkspaceSize(
    const aclTensor *prevAttnOut, const aclTensor *prevSoftmaxMax, const aclTensor *prevSoftmaxSum,
    const aclTensor *curAttnOut, const aclTensor *curSoftmaxMax, const aclTensor *curSoftmaxSum,
    const aclTensor *actualSeqQlenOptional, char *inputLayoutOptional, const aclTensor *attnOutOut,
    const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnRingAttentionUpdate(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

ACL_FUNC_VISIBILITY aclnnStatus aclnnRingAttentionUpdateV2GetWorkspaceSize(
    const aclTensor *prevAttnOut, const aclTensor *prevSoftmaxMax, const aclTensor *prevSoftmaxSum,
    const aclTensor *curAttnOut, const aclTensor *curSoftmaxMax, const aclTensor *curSoftmaxSum,
    const aclTensor *actualSeqQlenOptional, char *inputLayoutOptional, char *inputSoftmaxLayoutOptional,
    const aclTensor *attnOutOut, const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut,
    uint64_t *workspaceSize, aclOpExecutor **executor); /* since 8.5 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnRingAttentionUpdateV2(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 8.5 */

#ifdef __cplusplus
}
#endif

#endif
