/* Stream-ordered memory pools. */
#ifndef CANN_MLA_ACL_ACL_RT_MEMORY_SOMA_H
#define CANN_MLA_ACL_ACL_RT_MEMORY_SOMA_H

#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *aclrtMemPool;

typedef struct aclrtMemPoolProps {
    aclrtMemAllocationType allocType;
    aclrtMemHandleType handleType;
    aclrtMemLocation location;
    size_t maxSize;
    unsigned char reserved[32];
} aclrtMemPoolProps; /* since 9.1 */

ACL_FUNC_VISIBILITY aclError aclrtMemPoolCreate(
    aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps); /* since 9.1 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolDestroy(aclrtMemPool memPool); /* since 9.1 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolMallocAsync(
    void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream); /* since 9.1 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream); /* since 9.1 */

#ifdef __cplusplus
}
#endif

#endif
