/* aclnnRmsNormQuant */
#ifndef CANN_MLA_ACLNNOP_ACLNN_RMS_NORM_QUANT_H
#define CANN_MLA_ACLNNOP_ACLNN_RMS_NORM_QUANT_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnRmsNormQuantGetWorkspaceSize(
    const aclTensor *x, const aclTensor *gamma, const aclTensor *beta, const aclTensor *scale,
    const aclTensor *offset, double epsilon, aclTensor *y, uint64_t *workspaceSize,
    aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnRmsNormQuant(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
