/* atb::Context. C++ only. The order of the virtual functions is the ABI: SetExecuteStream is slot 2. */
#ifndef CANN_MLA_ATB_CONTEXT_H
#define CANN_MLA_ATB_CONTEXT_H

#ifdef __cplusplus

#include <cstddef>
#include <functional>
#include <vector>

#include "atb/types.h"

namespace atb {

enum ExecuteType : int { EXECUTE_NORMAL = 0, EXECUTE_PRELAUNCH = 1, EXECUTE_LAUNCH = 2 };
enum LaunchMode : int { KERNEL_LAUNCH_MODE = 0, GRAPH_LAUNCH_MODE = 1 };

class ATB_VISIBILITY Context {
public:
    Context() = default;
    virtual ~Context() = default;
    virtual Status SetExecuteStream(aclrtStream stream) = 0;
    virtual aclrtStream GetExecuteStream() const = 0;
    virtual Status SetAsyncTilingCopyStatus(bool enable) = 0;
    virtual bool GetAsyncTilingCopyStatus() const = 0;
    virtual Status SetExecuteStreams(const std::vector<aclrtStream> &streams) = 0;
    virtual std::vector<aclrtStream> GetExecuteStreams() = 0;
    virtual Status SetExecuteType(ExecuteType type) = 0;
    virtual ExecuteType GetExecuteType() = 0;
    virtual Status SetLaunchMode(LaunchMode mode) = 0;
    virtual LaunchMode GetLaunchMode() = 0;
};

ATB_VISIBILITY Status CreateContext(Context **context);
ATB_VISIBILITY Status CreateContext(
    Context **context, const std::function<void *(size_t)> &alloc, const std::function<void(void *)> &dealloc);
ATB_VISIBILITY Status CreateContext(Context **context, uint32_t hostTilingBlockNum, uint32_t deviceTilingBlockNum);
ATB_VISIBILITY Status DestroyContext(Context *context);

}  // namespace atb

#endif /* __cplusplus */

#endif
