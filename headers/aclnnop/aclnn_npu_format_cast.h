/* aclnnNpuFormatCast, aclnnNpuFormatCastCalculateSizeAndFormat */
#ifndef CANN_MLA_ACLNNOP_ACLNN_NPU_FORMAT_CAST_H
#define CANN_MLA_ACLNNOP_ACLNN_NPU_FORMAT_CAST_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnNpuFormatCastGetWorkspaceSize(
    const aclTensor *srcTensor, aclTensor *dstTensor, uint64_t *workspaceSize, aclOpExecutor **executor); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnNpuFormatCast(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); /* since 9.1 */

ACL_FUNC_VISIBILITY aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(
    const aclTensor *srcTensor, int dstFormat, int additionalDtype, int64_t **dstShape,
    uint64_t *dstShapeSize, int *actualFormat); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
