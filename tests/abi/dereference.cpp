// Reads a device address on the host, which must end the process as it would beside a real device.
#include <cstdio>

#include "acl/acl.h"
#include "check.hpp"

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    void *device = nullptr;
    OK(aclrtMalloc(&device, 4, ACL_MEM_MALLOC_HUGE_FIRST));
    std::puts("about to read");
    std::fflush(stdout);
    std::printf("read %d\n", *static_cast<volatile int *>(device));
    return 0;
}
