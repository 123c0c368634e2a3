#include "core/entry.hpp"
#include "runtime/timeouts.hpp"

#include "acl/acl_rt.h"
#include "core/error.hpp"

using sim::fail;
using sim::timeouts;

namespace sim {

Timeouts &timeouts() {
    static Timeouts &instance = *new Timeouts;
    return instance;
}

}  // namespace sim

aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
    SIM_API;
    timeouts().waitSeconds = timeout;
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
    SIM_API;
    timeouts().executeMicroseconds = uint64_t{timeout} * 1'000'000;
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
    SIM_API;
    timeouts().executeMicroseconds = uint64_t{timeout} * 1'000;
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout) {
    SIM_API;
    if (actualTimeout == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "actualTimeout is null");
    timeouts().executeMicroseconds = timeout;
    *actualTimeout = timeout;
    return ACL_SUCCESS;
}

aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs) {
    SIM_API;
    if (timeoutMs == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "timeoutMs is null");
    *timeoutMs = static_cast<uint32_t>(timeouts().executeMicroseconds / 1'000);
    return ACL_SUCCESS;
}

aclError aclrtGetOpTimeOutInterval(uint64_t *interval) {
    SIM_API;
    if (interval == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "interval is null");
    *interval = 1;  // microseconds: every value can be set exactly
    return ACL_SUCCESS;
}
