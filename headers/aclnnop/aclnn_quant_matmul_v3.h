/* aclnnQuantMatmulV3 */
#ifndef CANN_MLA_ACLNNOP_ACLNN_QUANT_MATMUL_V3_H
#define CANN_MLA_ACLNNOP_ACLNN_QUANT_MATMUL_V3_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnQuantMatmulV3GetWorkspaceSize(
    const aclTensor *x1, const aclTensor *x2, const aclTensor *scale, const aclTensor *offset,
    const aclTensor *bias, bool transposeX1, bool transposeX2, const aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnQuantMatmulV3(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
