/* aclnnCat */
#ifndef CANN_MLA_ACLNNOP_ACLNN_CAT_H
#define CANN_MLA_ACLNNOP_ACLNN_CAT_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnCatGetWorkspaceSize(
    const aclTensorList *tensors, int64_t dim, aclTensor *out, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnCat(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
