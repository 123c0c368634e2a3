/* Initialisation of aclnn alone (aclInit covers it). */
#ifndef CANN_MLA_ACLNN_ACLNN_BASE_H
#define CANN_MLA_ACLNN_ACLNN_BASE_H

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char *configPath);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
