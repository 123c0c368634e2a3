/* The header that samples include. */
#ifndef CANN_MLA_ACL_ACL_H
#define CANN_MLA_ACL_ACL_H

#include "acl/acl_rt.h"

#endif
