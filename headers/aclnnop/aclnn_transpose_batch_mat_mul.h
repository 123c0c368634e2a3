/* aclnnTransposeBatchMatMul, aclnnTransposeBatchMatMulWeightNz */
#ifndef CANN_MLA_ACLNNOP_ACLNN_TRANSPOSE_BATCH_MAT_MUL_H
#define CANN_MLA_ACLNNOP_ACLNN_TRANSPOSE_BATCH_MAT_MUL_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnTransposeBatchMatMulGetWorkspaceSize(
    const aclTensor *x1, const aclTensor *x2, const aclTensor *bias, const aclTensor *scale,
    const aclIntArray *permX1, const aclIntArray *permX2, const aclIntArray *permY, int8_t cubeMathType,
    int32_t batchSplitFactor, aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnTransposeBatchMatMul(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnTransposeBatchMatMulWeightNzGetWorkspaceSize(
    const aclTensor *x1, const aclTensor *x2, const aclTensor *bias, const aclTensor *scale,
    const aclIntArray *permX1, const aclIntArray *permX2, const aclIntArray *permY, int8_t cubeMathType,
    int32_t batchSplitFactor, aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnTransposeBatchMatMulWeightNz(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
