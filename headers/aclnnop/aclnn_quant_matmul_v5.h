/* aclnnQuantMatmulV5 */
#ifndef CANN_MLA_ACLNNOP_ACLNN_QUANT_MATMUL_V5_H
#define CANN_MLA_ACLNNOP_ACLNN_QUANT_MATMUL_V5_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnQuantMatmulV5GetWorkspaceSize(
    const aclTensor *x1, const aclTensor *x2, const aclTensor *x1Scale, const aclTensor *x2Scale,
    const aclTensor *yScale, const aclTensor *x1Offset, const aclTensor *x2Offset, const aclTensor *yOffset,
    const aclTensor *bias, bool transposeX1, bool transposeX2, int64_t groupSize, aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnQuantMatmulV5(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
