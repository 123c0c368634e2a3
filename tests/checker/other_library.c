/* A library that knows nothing of the program it is loaded into. */
#include "acl/acl.h"

int initialise(void) {
    aclError status = aclInit(0);
    return status;
}
