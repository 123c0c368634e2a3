/* aclnnSwiGlu */
#ifndef CANN_MLA_ACLNNOP_ACLNN_SWI_GLU_H
#define CANN_MLA_ACLNNOP_ACLNN_SWI_GLU_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnSwiGluGetWorkspaceSize(
    const aclTensor *x, int64_t dim, const aclTensor *out, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnSwiGlu(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
