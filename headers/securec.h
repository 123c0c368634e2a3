/* The bounded copies of the toolkit's securec.h that samples use; others are not here. */
#ifndef CANN_MLA_SECUREC_H
#define CANN_MLA_SECUREC_H

#include <stddef.h>
#include <string.h>

#define EOK 0

typedef int errno_t;

static inline errno_t memcpy_s(void *dest, size_t destMax, const void *src, size_t count)
{
    if (dest == NULL || src == NULL || count > destMax) {
        return 22; /* EINVAL */
    }
    memcpy(dest, src, count);
    return EOK;
}

static inline errno_t memset_s(void *dest, size_t destMax, int c, size_t count)
{
    if (dest == NULL || count > destMax) {
        return 22; /* EINVAL */
    }
    memset(dest, c, count);
    return EOK;
}

#endif
