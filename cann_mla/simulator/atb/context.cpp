#include "atb/context.hpp"

#include <cstdio>
#include <memory>
#include <string>

#include "atb/operation.hpp"
#include "checker/finding.hpp"
#include "core/entry.hpp"
#include "core/error.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"

namespace sim::atb {

::atb::Status Context::SetExecuteStream(aclrtStream stream) {
    SIM_API_NAMED("atb::Context::SetExecuteStream");
    std::lock_guard lock(mutex_);
    streams_[0] = stream;
    return ATB_NO_ERROR;
}

aclrtStream Context::GetExecuteStream() const { return stream(0); }

// Tiling data is not copied in the simulator: nothing depends on this.
::atb::Status Context::SetAsyncTilingCopyStatus(bool enable) {
    std::lock_guard lock(mutex_);
    asyncTilingCopy_ = enable;
    return ATB_NO_ERROR;
}

bool Context::GetAsyncTilingCopyStatus() const {
    std::lock_guard lock(mutex_);
    return asyncTilingCopy_;
}

::atb::Status Context::SetExecuteStreams(const std::vector<aclrtStream>& streams) {
    SIM_API_NAMED("atb::Context::SetExecuteStreams");
    if (streams.empty()) {
        return fail("atb::Context::SetExecuteStreams", ATB_ERROR_INVALID_PARAM, "streams is empty; give at least one");
    }
    std::lock_guard lock(mutex_);
    streams_ = streams;
    return ATB_NO_ERROR;
}

std::vector<aclrtStream> Context::GetExecuteStreams() {
    std::lock_guard lock(mutex_);
    return streams_;
}

::atb::Status Context::SetExecuteType(::atb::ExecuteType type) {
    if (type == ::atb::EXECUTE_NORMAL) return ATB_NO_ERROR;
    return fail("atb::Context::SetExecuteType", ATB_ERROR_INVALID_PARAM,
                "only EXECUTE_NORMAL is simulated, not type " + std::to_string(type));
}

::atb::ExecuteType Context::GetExecuteType() { return ::atb::EXECUTE_NORMAL; }

::atb::Status Context::SetLaunchMode(::atb::LaunchMode mode) {
    if (mode == ::atb::KERNEL_LAUNCH_MODE) return ATB_NO_ERROR;
    return fail("atb::Context::SetLaunchMode", ATB_ERROR_INVALID_PARAM,
                "only KERNEL_LAUNCH_MODE is simulated, not mode " + std::to_string(mode));
}

::atb::LaunchMode Context::GetLaunchMode() { return ::atb::KERNEL_LAUNCH_MODE; }

aclrtStream Context::stream(uint32_t number) const {
    std::lock_guard lock(mutex_);
    return number < streams_.size() ? streams_[number] : nullptr;
}

Context* findContext(::atb::Context* context) {
    return isAlive(Kind::AtbContext, context) ? static_cast<Context*>(context) : nullptr;
}

}  // namespace sim::atb

namespace atb {

// ATB allocates its tiling buffers here, which takes a device.
Status CreateContext(Context** context) {
    SIM_API_NAMED("atb::CreateContext");
    const char* api = "atb::CreateContext";
    if (context == nullptr) return sim::fail(api, ATB_ERROR_INVALID_PARAM, "context is null; give the address of one");
    if (!sim::currentContext()) {
        return sim::fail(api, ATB_ERROR_OUT_OF_DEVICE_MEMORY,
                         std::string("no device to allocate tiling buffers on: ") + sim::noContext());
    }
    *context = std::make_unique<sim::atb::Context>().release();
    return ATB_NO_ERROR;
}

// The functions would provide tiling buffers, which the simulator has no use for.
Status CreateContext(Context** context, const std::function<void*(size_t)>& alloc,
                     const std::function<void(void*)>& dealloc) {
    SIM_API_NAMED("atb::CreateContext");
    if (static_cast<bool>(alloc) != static_cast<bool>(dealloc)) {
        return sim::fail("atb::CreateContext", ATB_ERROR_INVALID_PARAM, "give both alloc and dealloc, or neither");
    }
    return CreateContext(context);
}

Status CreateContext(Context** context, uint32_t hostTilingBlockNum, uint32_t deviceTilingBlockNum) {
    SIM_API_NAMED("atb::CreateContext");
    const char* api = "atb::CreateContext";
    if (hostTilingBlockNum < 128 || hostTilingBlockNum > 1024) {
        return sim::fail(api, ATB_ERROR_INVALID_PARAM,
                         "hostTilingBlockNum is " + std::to_string(hostTilingBlockNum) + "; allowed are 128..1024");
    }
    if (deviceTilingBlockNum < 32 || deviceTilingBlockNum > 1024) {
        return sim::fail(api, ATB_ERROR_INVALID_PARAM,
                         "deviceTilingBlockNum is " + std::to_string(deviceTilingBlockNum) + "; allowed are 32..1024");
    }
    return CreateContext(context);
}

// Operations that were set up with the context and live on.
static void tellSurvivors(const Context* context) {
    for (const void* address : sim::atb::living(sim::Kind::AtbOperation)) {
        const auto* operation = static_cast<const sim::atb::Operation*>(static_cast<const Operation*>(address));
        if (operation->context() != context) continue;
        char text[64];
        std::snprintf(text, sizeof text, "atb::Context %p", static_cast<const void*>(context));
        sim::report({"operation-outlives-context",
                     std::string(text) + " is destroyed before " + operation->GetName() + ", which was set up with it",
                     {"atb::Operation", address, operation->GetName()},
                     sim::atb::originOfLiving(sim::Kind::AtbOperation, address)});
    }
}

// ATB answers 0 to null; to what is no context it would crash.
Status DestroyContext(Context* context) {
    SIM_API_NAMED("atb::DestroyContext");
    if (context == nullptr) return ATB_NO_ERROR;
    if (!sim::atb::findContext(context)) {
        return sim::fail("atb::DestroyContext", ATB_ERROR_INVALID_CONTEXT_ADDR,
                         "context is no living atb::Context; the real library crashes here");
    }
    if (sim::strict()) tellSurvivors(context);
    delete context;
    return ATB_NO_ERROR;
}

}  // namespace atb
