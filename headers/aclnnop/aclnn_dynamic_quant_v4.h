/* aclnnDynamicQuantV4 */
#ifndef CANN_MLA_ACLNNOP_ACLNN_DYNAMIC_QUANT_V4_H
#define CANN_MLA_ACLNNOP_ACLNN_DYNAMIC_QUANT_V4_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnDynamicQuantV4GetWorkspaceSize(
    const aclTensor *x, const aclTensor *smoothScalesOptional, const aclTensor *groupIndexOptional,
    int64_t dstType, bool isSymmetrical, const char *quantMode, float dstTypeMax, const aclTensor *yOut,
    const aclTensor *scaleOut, const aclTensor *offsetOut, uint64_t *workspaceSize,
    aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnDynamicQuantV4(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
