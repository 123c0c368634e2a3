/* aclnnConvertWeightToINT4Pack */
#ifndef CANN_MLA_ACLNNOP_ACLNN_CONVERT_WEIGHT_TO_INT4_PACK_H
#define CANN_MLA_ACLNNOP_ACLNN_CONVERT_WEIGHT_TO_INT4_PACK_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnConvertWeightToINT4PackGetWorkspaceSize(
    const aclTensor *weight, aclTensor *weightInt4Pack, uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnConvertWeightToINT4Pack(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
