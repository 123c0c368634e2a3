/* aclnnAscendQuantV3 */
#ifndef CANN_MLA_ACLNNOP_ACLNN_ASCEND_QUANT_V3_H
#define CANN_MLA_ACLNNOP_ACLNN_ASCEND_QUANT_V3_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnAscendQuantV3GetWorkspaceSize(
    const aclTensor *x, const aclTensor *scale, const aclTensor *offset, bool sqrtMode,
    const char *roundMode, int32_t dstType, int32_t axis, const aclTensor *y, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnAscendQuantV3(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
