/* aclnnInplacePartialRotaryMul */
#ifndef CANN_MLA_ACLNNOP_ACLNN_INPLACE_PARTIAL_ROTARY_MUL_H
#define CANN_MLA_ACLNNOP_ACLNN_INPLACE_PARTIAL_ROTARY_MUL_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnInplacePartialRotaryMulGetWorkspaceSize(
    const aclTensor *xRef, const aclTensor *cos, const aclTensor *sin, int64_t rotary_mode,
    const aclIntArray *partialSlice, uint64_t *workspaceSize, aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnInplacePartialRotaryMul(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
