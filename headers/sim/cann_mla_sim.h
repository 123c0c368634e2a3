/* Control of the simulator. Only the simulator's library has these functions; CANN does not. */
#ifndef CANN_MLA_SIM_CANN_MLA_SIM_H
#define CANN_MLA_SIM_CANN_MLA_SIM_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cannMlaSimKind {
    CANN_MLA_SIM_TENSOR = 0,
    CANN_MLA_SIM_TENSOR_LIST = 1,
    CANN_MLA_SIM_SCALAR = 2,
    CANN_MLA_SIM_SCALAR_LIST = 3,
    CANN_MLA_SIM_INT_ARRAY = 4,
    CANN_MLA_SIM_FLOAT_ARRAY = 5,
    CANN_MLA_SIM_BOOL_ARRAY = 6,
    CANN_MLA_SIM_EXECUTOR = 7,
    CANN_MLA_SIM_CONTEXT = 8,
    CANN_MLA_SIM_STREAM = 9,
    CANN_MLA_SIM_EVENT = 10,
    CANN_MLA_SIM_NOTIFY = 11,
    CANN_MLA_SIM_ALLOCATOR_DESC = 12,
    CANN_MLA_SIM_PHYSICAL_MEMORY = 13,
    CANN_MLA_SIM_MEM_POOL = 14,
    CANN_MLA_SIM_ATB_CONTEXT = 15,
    CANN_MLA_SIM_ATB_OPERATION = 16,
} cannMlaSimKind;

/* "1.0": the version of this interface. */
ACL_FUNC_VISIBILITY const char *cannMlaSimVersion(void);

/* The product: "Ascend910B", "Ascend910_93" or "Ascend950" (a chip's name is taken for its product). Operators judge by
 * the product at the time of their phase one. Returns 0, or 100000 when the name is none of these. */
ACL_FUNC_VISIBILITY int32_t cannMlaSimSetSoc(const char *product);
ACL_FUNC_VISIBILITY const char *cannMlaSimGetSoc(void);

/* Strict mode prints findings to stderr as they come. It never changes a status. */
ACL_FUNC_VISIBILITY void cannMlaSimSetStrict(int32_t on);
ACL_FUNC_VISIBILITY int32_t cannMlaSimGetStrict(void);

/* Handles of a kind that were made and not destroyed; -1 for an unknown kind. */
ACL_FUNC_VISIBILITY int64_t cannMlaSimLiveHandles(cannMlaSimKind kind);

/* Bytes and allocations of device memory in use; -1 for an unknown device. */
ACL_FUNC_VISIBILITY int64_t cannMlaSimDeviceBytes(int32_t device);
ACL_FUNC_VISIBILITY int64_t cannMlaSimDeviceAllocations(int32_t device);
/* The same for pinned host memory of aclrtMallocHost. */
ACL_FUNC_VISIBILITY int64_t cannMlaSimHostBytes(void);
ACL_FUNC_VISIBILITY int64_t cannMlaSimHostAllocations(void);

/* Findings so far, and the text of one (null past the end; at most 1000 texts are kept). */
ACL_FUNC_VISIBILITY int64_t cannMlaSimFindingCount(void);
ACL_FUNC_VISIBILITY const char *cannMlaSimFindingText(int64_t index);

/* Looks at the guard bands of all device memory now, as aclrtFree and aclFinalize do. Returns the number of findings. */
ACL_FUNC_VISIBILITY int64_t cannMlaSimCheckGuardBands(void);

#ifdef __cplusplus
}
#endif

#endif
