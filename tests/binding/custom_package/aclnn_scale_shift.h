/* A custom operator as its own repository might write it: out = x * scale + shift, over the rows that are named. */
#ifndef ACLNN_SCALE_SHIFT_H_
#define ACLNN_SCALE_SHIFT_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t scaleStatus;

enum scaleRounding { SCALE_NEAREST = 0, SCALE_DOWN = 3 };

/* function: aclnnScaleShiftGetWorkspaceSize
 * parameters:
 * x : required
 * rowsOptional : optional */
__attribute__((visibility("default")))
scaleStatus aclnnScaleShiftGetWorkspaceSize(
    const aclTensor *x,
    const aclTensorList *shifts,  // one element each, all added
    double scale,
    const aclIntArray *rowsOptional,
    char *labelOptional,
    int8_t repeat,
    scaleRounding rounding,
    const aclTensor *out,
    uint64_t *workspaceSize,
    aclOpExecutor **executor);

/* function: aclnnScaleShift */
__attribute__((visibility("default")))
scaleStatus aclnnScaleShift(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, const aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
