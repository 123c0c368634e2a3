/* A C program, linked as programs for an Ascend host are: -lascendcl -lnnopbase -lopapi. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "sim/cann_mla_sim.h"

int main(void) {
    int64_t dims[1] = {4};
    aclTensor *tensor;
    float sent[4] = {1.0f, 2.0f, 3.0f, 4.0f}, received[4] = {0};
    void *device = NULL;
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 1;
    if (aclrtMalloc(&device, sizeof sent, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 2;
    if (aclrtMemcpy(device, sizeof sent, sent, sizeof sent, ACL_MEMCPY_HOST_TO_DEVICE) != ACL_SUCCESS) return 3;
    if (aclrtMemcpy(received, sizeof received, device, sizeof sent, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS) return 4;
    if (memcmp(sent, received, sizeof sent) != 0) return 5;
    tensor = aclCreateTensor(dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, device);
    if (tensor == NULL || aclDestroyTensor(tensor) != ACLNN_SUCCESS || aclrtFree(device) != ACL_SUCCESS) return 6;
    if (aclrtResetDevice(0) != ACL_SUCCESS || aclFinalize() != ACL_SUCCESS) return 7;
    printf("%s %s\n", aclrtGetSocName(), cannMlaSimGetSoc());
    return 0;
}
