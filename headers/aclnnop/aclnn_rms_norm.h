/* aclnnRmsNorm */
#ifndef CANN_MLA_ACLNNOP_ACLNN_RMS_NORM_H
#define CANN_MLA_ACLNNOP_ACLNN_RMS_NORM_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnRmsNormGetWorkspaceSize(
    const aclTensor *x, const aclTensor *gamma, double epsilon, const aclTensor *yOut,
    const aclTensor *rstdOut, uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnRmsNorm(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
