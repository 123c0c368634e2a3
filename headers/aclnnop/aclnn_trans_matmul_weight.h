/* aclnnTransMatmulWeight, aclnnCalculateMatmulWeightSize, aclnnCalculateMatmulWeightSizeV2 */
#ifndef CANN_MLA_ACLNNOP_ACLNN_TRANS_MATMUL_WEIGHT_H
#define CANN_MLA_ACLNNOP_ACLNN_TRANS_MATMUL_WEIGHT_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnTransMatmulWeightGetWorkspaceSize(
    aclTensor *mmWeightRef, uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnTransMatmulWeight(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

ACL_FUNC_VISIBILITY aclnnStatus aclnnCalculateMatmulWeightSize(
    const aclIntArray *tensorShape, uint64_t *weightTensorSize);

ACL_FUNC_VISIBILITY aclnnStatus aclnnCalculateMatmulWeightSizeV2(
    const aclIntArray *tensorShape, aclDataType dataType, uint64_t *weightTensorSize);

#ifdef __cplusplus
}
#endif

#endif
