/* aclnnQuantize */
#ifndef CANN_MLA_ACLNNOP_ACLNN_QUANTIZE_H
#define CANN_MLA_ACLNNOP_ACLNN_QUANTIZE_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnQuantizeGetWorkspaceSize(
    const aclTensor *x, const aclTensor *scales, const aclTensor *zeroPoints, aclDataType dtype,
    int32_t axis, aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnQuantize(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
