// Streams as the C functions show them.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <string>

#include "acl/acl_rt.h"
#include "checker/unrecorded_waits.hpp"
#include "core/entry.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"

using sim::fail;
using sim::Kind;
using sim::StreamChoice;

namespace {

constexpr uint32_t kMaxStreams = 1984;  // what aclrtGetStreamAvailableNum counts down from

aclError create(const char *api, aclrtStream *stream, uint32_t priority, uint32_t flags) {
    if (stream == nullptr) return fail(api, ACL_ERROR_INVALID_PARAM, "stream is null");
    auto context = sim::currentContext();
    if (!context) return fail(api, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    if (sim::liveHandles(Kind::Stream) >= kMaxStreams) {
        return fail(api, ACL_ERROR_RT_NO_STREAM_RESOURCE,
                    "there are " + std::to_string(kMaxStreams) + " streams already; destroy those not needed");
    }
    *stream = context->addStream(api, priority, flags);
    return ACL_SUCCESS;
}

aclError destroy(const char *api, aclrtStream stream, bool force) {
    if (stream == nullptr) {
        return fail(api, ACL_ERROR_RT_PARAM_INVALID, "stream is null; the default stream ends with its context");
    }
    StreamChoice choice = sim::chooseStream(stream, sim::Purpose::Other);
    if (!choice) return fail(api, choice.status, choice.text);
    auto context = choice.stream->context();
    if (context && choice.stream == context->defaultStream()) {
        return fail(api, ACL_ERROR_RT_PARAM_INVALID, "the default stream ends with its context");
    }
    if (choice.stream->isOwnWorker()) {
        return fail(api, ACL_ERROR_RT_PARAM_INVALID, "a host function cannot destroy the stream that it runs on");
    }
    if (sim::strict()) sim::checker::streamEnds(choice.stream->lane(), choice.stream->made);
    sim::retire(stream, Kind::Stream, {api});
    choice.stream->shutDown(force);
    if (context) context->forgetStream(choice.stream.get());
    return ACL_SUCCESS;
}

// Reports the stream's pending fault as the status of `api`.
aclError takeFault(const char *api, sim::Stream &stream) {
    auto fault = stream.takeFault();
    return fault ? fail(api, fault->status, fault->text) : ACL_SUCCESS;
}

// The host waits for the stream. A wait that cannot end is reported, in strict mode, before it blocks for ever.
bool waitForHost(sim::Stream &stream, sim::Deadline deadline) {
    constexpr std::chrono::seconds patience{2};
    if (!sim::strict()) return stream.waitIdle(deadline);
    bool idle = stream.waitIdle(deadline ? *deadline : sim::Clock::now() + patience);
    sim::checker::tellUnrecordedWaits(stream.id());
    return idle || (!deadline && stream.waitIdle(deadline));
}

aclError synchronize(const char *api, aclrtStream stream, int32_t timeout) {
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(api, choice.status, choice.text);
    if (choice.stream->isOwnWorker()) {
        return fail(api, ACL_ERROR_RT_PARAM_INVALID, "a host function cannot wait for the stream that it runs on");
    }
    if (!waitForHost(*choice.stream, sim::deadlineAfter(timeout))) {
        return fail(api, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                    "tasks still run on stream " + std::to_string(choice.stream->id()) + " after " +
                        std::to_string(timeout) + " ms");
    }
    return takeFault(api, *choice.stream);
}

// Runs `use` on the stream, or fails for a bad handle.
template <typename Use>
aclError withStream(const char *api, aclrtStream stream, Use use) {
    StreamChoice choice = sim::chooseStream(stream, sim::Purpose::Other);
    if (!choice) return fail(api, choice.status, choice.text);
    return use(*choice.stream);
}

template <typename Value, typename Get>
aclError getFromStream(const char *api, aclrtStream stream, Value *out, Get get) {
    if (out == nullptr) return fail(api, ACL_ERROR_INVALID_PARAM, "the output pointer is null");
    return withStream(api, stream, [&](sim::Stream &object) {
        *out = get(object);
        return ACL_SUCCESS;
    });
}

std::set<const aclrtStreamConfigHandle *> &configHandles(std::unique_lock<std::mutex> &lock) {
    static std::mutex &mutex = *new std::mutex;
    static auto &handles = *new std::set<const aclrtStreamConfigHandle *>;
    lock = std::unique_lock(mutex);
    return handles;
}

}  // namespace

aclError aclrtCreateStream(aclrtStream *stream) {
    SIM_API;
    return create(__func__, stream, 0, 0);
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag) {
    SIM_API;
    return create(__func__, stream, priority, flag);
}

aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void) {
    SIM_API;
    auto *handle = new aclrtStreamConfigHandle{};
    std::unique_lock<std::mutex> lock;
    configHandles(lock).insert(handle);
    return handle;
}

aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr, const void *attrValue,
                                 size_t valueSize) {
    SIM_API;
    if (handle == nullptr || attrValue == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "a pointer is null");
    std::unique_lock<std::mutex> lock;
    if (configHandles(lock).count(handle) == 0) {
        return fail(__func__, ACL_ERROR_INVALID_PARAM, "handle is not from aclrtCreateStreamConfigHandle, or destroyed");
    }
    auto set = [&](auto &field) -> aclError {
        if (valueSize != sizeof field) {
            return fail(__func__, ACL_ERROR_INVALID_PARAM,
                        "valueSize is " + std::to_string(valueSize) + ", this attribute takes " +
                            std::to_string(sizeof field) + " bytes");
        }
        std::copy_n(static_cast<const char *>(attrValue), sizeof field, reinterpret_cast<char *>(&field));
        return ACL_SUCCESS;
    };
    switch (attr) {
        case ACL_RT_STREAM_WORK_ADDR_PTR: return set(handle->workptr);
        case ACL_RT_STREAM_WORK_SIZE: return set(handle->workSize);
        case ACL_RT_STREAM_FLAG: return set(handle->flag);
        case ACL_RT_STREAM_PRIORITY: return set(handle->priority);
        default: return fail(__func__, ACL_ERROR_INVALID_PARAM, "attr is " + std::to_string(attr) + "; 0 to 3 exist");
    }
}

aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle) {
    SIM_API;
    std::unique_lock<std::mutex> lock;
    if (configHandles(lock).erase(handle) == 0) {
        return fail(__func__, ACL_ERROR_INVALID_PARAM, "handle is not from aclrtCreateStreamConfigHandle, or destroyed");
    }
    delete handle;
    return ACL_SUCCESS;
}

aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle) {
    SIM_API;
    if (handle == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "handle is null");
    uint32_t priority, flag;
    {
        std::unique_lock<std::mutex> lock;
        if (configHandles(lock).count(handle) == 0) {
            return fail(__func__, ACL_ERROR_INVALID_PARAM,
                        "handle is not from aclrtCreateStreamConfigHandle, or destroyed");
        }
        priority = handle->priority;
        flag = static_cast<uint32_t>(handle->flag);
    }
    return create(__func__, stream, priority, flag);
}

aclError aclrtDestroyStream(aclrtStream stream) {
    SIM_API;
    return destroy(__func__, stream, false);
}
aclError aclrtDestroyStreamForce(aclrtStream stream) {
    SIM_API;
    return destroy(__func__, stream, true);
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    SIM_API;
    return synchronize(__func__, stream, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    SIM_API;
    if (timeout < -1) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "timeout is " + std::to_string(timeout) + "; give -1 or more");
    }
    return synchronize(__func__, stream, timeout);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status) {
    SIM_API;
    if (status == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "status is null");
    return withStream(__func__, stream, [&](sim::Stream &object) {
        bool idle = object.isIdle();
        *status = idle ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
        return idle ? takeFault("aclrtStreamQuery", object) : ACL_SUCCESS;
    });
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId) {
    SIM_API;
    return getFromStream(__func__, stream, streamId, [](sim::Stream &object) { return object.id(); });
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority) {
    SIM_API;
    return getFromStream(__func__, stream, priority, [](sim::Stream &object) { return object.priority(); });
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags) {
    SIM_API;
    return getFromStream(__func__, stream, flags, [](sim::Stream &object) { return object.flags(); });
}

aclError aclrtStreamAbort(aclrtStream stream) {
    SIM_API;
    return withStream(__func__, stream, [](sim::Stream &object) {
        object.abort();
        return ACL_SUCCESS;
    });
}

aclError aclrtStreamStop(aclrtStream stream) {
    SIM_API;
    return withStream(__func__, stream, [](sim::Stream &object) {
        object.abort();
        return ACL_SUCCESS;
    });
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
    SIM_API;
    if (mode > ACL_STOP_ON_FAILURE) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "mode is " + std::to_string(mode) + "; 0 and 1 exist");
    }
    return withStream(__func__, stream, [&](sim::Stream &object) {
        object.failureMode = static_cast<uint32_t>(mode);
        auto context = object.context();
        if (context && mode == ACL_STOP_ON_FAILURE) context->stopOnFailure();
        return ACL_SUCCESS;
    });
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
    SIM_API;
    return withStream(__func__, stream, [&](sim::Stream &object) {
        object.overflowSwitch = flag;
        return ACL_SUCCESS;
    });
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag) {
    SIM_API;
    return getFromStream(__func__, stream, flag, [](sim::Stream &object) { return object.overflowSwitch.load(); });
}

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    switch (stmAttrType) {
        case ACL_STREAM_ATTR_FAILURE_MODE: return aclrtSetStreamFailureMode(stream, value->failureMode);
        case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK: return aclrtSetStreamOverflowSwitch(stream, value->overflowSwitch);
        default:
            return fail(__func__, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                        "stream attribute " + std::to_string(stmAttrType) + " is not simulated");
    }
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    return withStream(__func__, stream, [&](sim::Stream &object) -> aclError {
        switch (stmAttrType) {
            case ACL_STREAM_ATTR_FAILURE_MODE: value->failureMode = object.failureMode; return ACL_SUCCESS;
            case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK: value->overflowSwitch = object.overflowSwitch; return ACL_SUCCESS;
            case ACL_STREAM_ATTR_PRIORITY: value->streamPriority = object.priority(); return ACL_SUCCESS;
            default:
                return fail("aclrtGetStreamAttribute", ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                            "stream attribute " + std::to_string(stmAttrType) + " is not simulated");
        }
    });
}

aclError aclrtGetStreamAvailableNum(uint32_t *streamCount) {
    SIM_API;
    if (streamCount == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "streamCount is null");
    *streamCount = kMaxStreams - static_cast<uint32_t>(std::min<int64_t>(sim::liveHandles(Kind::Stream), kMaxStreams));
    return ACL_SUCCESS;
}

namespace {

aclError synchronizeDevice(const char *api, int32_t timeout) {
    auto context = sim::currentContext();
    if (!context) return fail(api, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    auto streams = context->streams();
    sim::Deadline deadline = sim::deadlineAfter(timeout);
    for (const auto &stream : streams) {
        if (stream->isOwnWorker()) {
            return fail(api, ACL_ERROR_RT_PARAM_INVALID, "a host function cannot wait for the stream that it runs on");
        }
        if (!waitForHost(*stream, deadline)) {
            return fail(api, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                        "tasks still run on stream " + std::to_string(stream->id()) + " after " +
                            std::to_string(timeout) + " ms");
        }
    }
    aclError status = ACL_SUCCESS;
    for (const auto &stream : streams) {
        auto fault = stream->takeFault();
        if (fault && status == ACL_SUCCESS) status = fail(api, fault->status, fault->text);
    }
    if (auto stopped = context->failure()) return fail(api, stopped->status, stopped->text);
    return status;
}

}  // namespace

aclError aclrtSynchronizeDevice(void) {
    SIM_API;
    return synchronizeDevice(__func__, -1);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    SIM_API;
    if (timeout < -1) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "timeout is " + std::to_string(timeout) + "; give -1 or more");
    }
    return synchronizeDevice(__func__, timeout);
}
