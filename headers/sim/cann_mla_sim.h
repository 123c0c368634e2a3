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
    CANN_MLA_SIM_HCCL_COMM = 17,
} cannMlaSimKind;

/* "1.0": the version of this interface. */
ACL_FUNC_VISIBILITY const char *cannMlaSimVersion(void);

/* The product: "Ascend910B", "Ascend910_93" or "Ascend950" (a chip's name is taken for its product). Operators judge by
 * the product at the time of their phase one. Returns 0, or 100000 when the name is none of these. */
ACL_FUNC_VISIBILITY int32_t cannMlaSimSetSoc(const char *product);
ACL_FUNC_VISIBILITY const char *cannMlaSimGetSoc(void);

/* Strict mode looks for broken rules of CANN and prints findings to stderr as they come. It never changes a status.
 * At the end of the process it looks for leaks and prints a summary; with findings, an exit status of 0 becomes 99. */
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

/* Findings so far, each mistake once; and one of them as a paragraph of text, or as a JSON object with the keys rule,
 * group, what, object, made, broken, first_failure, rule_text, fix, count and advice. Null past the end (at most 1000 are
 * kept). Valid until the next such call in the thread. */
ACL_FUNC_VISIBILITY int64_t cannMlaSimFindingCount(void);
ACL_FUNC_VISIBILITY const char *cannMlaSimFindingText(int64_t index);
ACL_FUNC_VISIBILITY const char *cannMlaSimFindingJson(int64_t index);

/* Forgets them, and the first failing call that they show. */
ACL_FUNC_VISIBILITY void cannMlaSimClearFindings(void);

/* From begin to end, findings are kept apart: the functions above speak of them alone, they are not printed and do not
 * count for the process. Watches may be nested; those of all threads are one stack. */
ACL_FUNC_VISIBILITY void cannMlaSimBeginWatch(void);
ACL_FUNC_VISIBILITY void cannMlaSimEndWatch(void);

/* Leaks before the end: what was made since a mark and lives is reported, in strict mode or not. Returns 0, or 100000 for
 * an unknown mark; each can be used once. */
ACL_FUNC_VISIBILITY uint64_t cannMlaSimMarkLiving(void);
ACL_FUNC_VISIBILITY int32_t cannMlaSimReportLeaksSince(uint64_t mark);

/* Adds the suppressions in a file, as CANN_MLA_SIM_SUPPRESSIONS does: one a line, "rule api=PATTERN where=PATTERN", of
 * which only the rule (a pattern too) has to be there. Returns 0, or 100003 with the reason as error text. */
ACL_FUNC_VISIBILITY int32_t cannMlaSimLoadSuppressions(const char *path);

/* For callers whose C stack says nothing, as an interpreter's: fills in texts for the frames that lead to the current
 * call, innermost first, at most `room` of them, and returns how many; 0 leaves it to the C stack. The texts must live for
 * ever. *inside becomes 1 when the call is made by the package that the locator belongs to and not by its user. */
typedef size_t (*cannMlaSimLocator)(const char **places, size_t room, int32_t *inside);
ACL_FUNC_VISIBILITY void cannMlaSimSetLocator(cannMlaSimLocator locator);

/* Looks at the guard bands of all device memory now, as aclrtFree and aclFinalize do. Returns the number of findings. */
ACL_FUNC_VISIBILITY int64_t cannMlaSimCheckGuardBands(void);

/* Fault injection: functions that fail on demand, kernels that fault, hang or compute wrongly, devices short of memory.
 *
 *     aclrtMalloc#3=207001; aclCreate*#2+=500000          the third call; all calls but the first (handles: null)
 *     kernel:aclnnRmsNorm#1=507015; kernel:*#4=hang       what befalls the kernel of a launch
 *     memory=1G                                           of each device
 *     numeric:scale_dropped@aclnnMm                       and mask_past_512, uniform_without_mask, nz_as_nd,
 *                                                         last_block_unwritten
 *
 * The faults come beside those that are in force, of CANN_MLA_SIM_FAULTS among them, and count from 1 by themselves.
 * Calls of one simulated function by another do not count. Returns 0 and an id, or 100000 with the reason as error text. */
ACL_FUNC_VISIBILITY int32_t cannMlaSimInject(const char *faults, int64_t *id);
/* Ends faults; 0 ends all of them. Returns 0, or 100000 for an unknown id. Numeric faults stay with what is queued. */
ACL_FUNC_VISIBILITY int32_t cannMlaSimWithdraw(int64_t id);
/* How often faults have struck so far; -1 for an unknown id. */
ACL_FUNC_VISIBILITY int64_t cannMlaSimStrikeCount(int64_t id);
/* "aclrtMalloc, call 3: 207001"; null past the end and for an unknown id. Valid until the next call in the thread. */
ACL_FUNC_VISIBILITY const char *cannMlaSimStrikeText(int64_t id, int64_t index);

#ifdef __cplusplus
}
#endif

#endif
