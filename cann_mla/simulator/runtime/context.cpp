#include "runtime/context.hpp"

#include <algorithm>
#include <utility>

#include "checker/finding.hpp"
#include "core/settings.hpp"

namespace sim {

const char *const kNoContextText =
    "the thread has no context; call aclrtSetDevice or aclrtSetCurrentContext in this thread first";

namespace {

thread_local void *currentHandle = nullptr;

struct DefaultContext {
    void *handle = nullptr;
    int64_t users = 0;
};

struct DefaultContexts {
    std::mutex mutex;
    std::vector<DefaultContext> byDevice{static_cast<size_t>(settings().devices)};
};

DefaultContexts &defaultContexts() {
    static DefaultContexts &instance = *new DefaultContexts;
    return instance;
}

void endContext(void *handle, const char *api, bool force) {
    auto object = std::static_pointer_cast<Context>(retire(handle, Kind::Context, {api}));
    if (object) object->endStreams(force);
}

}  // namespace

const Context::Entry &Context::defaultEntry() {
    std::lock_guard lock(mutex_);
    if (!default_.stream) {
        default_.stream = std::make_shared<Stream>(weak_from_this(), device_, 0, 0);
        default_.stream->implicit = true;
        default_.handle = makeHandle(Kind::Stream, default_.stream, "aclrtSetDevice (default stream)");
    }
    return default_;
}

std::shared_ptr<Stream> Context::defaultStream() { return defaultEntry().stream; }

void *Context::defaultStreamHandle() { return defaultEntry().handle; }

void *Context::addStream(const char *api, uint32_t priority, uint32_t flags) {
    auto stream = std::make_shared<Stream>(weak_from_this(), device_, priority, flags);
    void *handle = makeHandle(Kind::Stream, stream, api);
    std::lock_guard lock(mutex_);
    streams_.push_back({std::move(stream), handle});
    return handle;
}

void Context::forgetStream(const Stream *stream) {
    std::lock_guard lock(mutex_);
    auto isIt = [&](const Entry &entry) { return entry.stream.get() == stream; };
    streams_.erase(std::remove_if(streams_.begin(), streams_.end(), isIt), streams_.end());
}

std::vector<std::shared_ptr<Stream>> Context::streams() {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Stream>> all;
    for (const Entry &entry : streams_) all.push_back(entry.stream);
    if (default_.stream) all.push_back(default_.stream);
    return all;
}

void Context::endStreams(bool force) {
    std::vector<Entry> ended;
    {
        std::lock_guard lock(mutex_);
        ended.swap(streams_);
        if (default_.stream) ended.push_back(std::exchange(default_, Entry{}));
    }
    for (const Entry &entry : ended) {
        retire(entry.handle, Kind::Stream, {"the end of its context"});
        entry.stream->shutDown(force);
    }
}

std::shared_ptr<Context> currentContext() { return lookupAs<Context>(currentHandle, Kind::Context); }

void *currentContextHandle() { return currentHandle; }

void setCurrentContext(void *handle) { currentHandle = handle; }

void *retainDefaultContext(int32_t device, const char *api) {
    DefaultContexts &all = defaultContexts();
    std::lock_guard lock(all.mutex);
    DefaultContext &entry = all.byDevice[static_cast<size_t>(device)];
    if (entry.users++ == 0) {
        auto context = std::make_shared<Context>(device);
        context->implicit = true;
        entry.handle = makeHandle(Kind::Context, std::move(context), api);
    }
    return entry.handle;
}

bool releaseDefaultContext(int32_t device, bool force) {
    DefaultContexts &all = defaultContexts();
    void *ended = nullptr;
    {
        std::lock_guard lock(all.mutex);
        DefaultContext &entry = all.byDevice[static_cast<size_t>(device)];
        if (entry.users == 0) return false;
        entry.users = force ? 0 : entry.users - 1;
        if (entry.users == 0) ended = std::exchange(entry.handle, nullptr);
    }
    if (ended != nullptr) endContext(ended, "aclrtResetDevice", force);
    return true;
}

bool defaultContextActive(int32_t device) {
    std::lock_guard lock(defaultContexts().mutex);
    return defaultContexts().byDevice[static_cast<size_t>(device)].users > 0;
}

void endAllContexts() {
    for (int32_t device = 0; device < settings().devices; ++device) releaseDefaultContext(device, true);
    std::vector<void *> rest;
    forEachHandle([&](Kind kind, void *handle, const Object &) {
        if (kind == Kind::Context) rest.push_back(handle);
    });
    for (void *handle : rest) endContext(handle, "aclFinalize", true);
}

std::string noContext() {
    if (strict()) report("thread-without-device", "a thread without device or context calls the runtime");
    return kNoContextText;
}

void Context::fail(const Fault &fault) {
    std::lock_guard lock(failureMutex_);
    if (stopsOnFailure_ && !failure_) failure_ = fault;
}

std::optional<Fault> Context::failure() {
    if (!stopsOnFailure_) return std::nullopt;
    std::lock_guard lock(failureMutex_);
    return failure_;
}

StreamChoice chooseStream(const void *handle, Purpose purpose) {
    std::shared_ptr<Context> context = currentContext();
    if (!context) return {nullptr, ACL_ERROR_RT_CONTEXT_NULL, noContext()};
    if (purpose == Purpose::Work) {
        if (auto failure = context->failure()) return {nullptr, failure->status, failure->text};
    }
    if (handle == nullptr) return {context->defaultStream(), 0, ""};
    auto stream = lookupAs<Stream>(handle, Kind::Stream);
    if (!stream) return {nullptr, ACL_ERROR_RT_INVALID_HANDLE, badHandle(handle, Kind::Stream)};
    if (stream->context() != context) {
        return {nullptr, ACL_ERROR_RT_STREAM_CONTEXT,
                "the stream belongs to another context (device " + std::to_string(stream->device()) +
                    ") than the current one (device " + std::to_string(context->device()) +
                    "); make its context current with aclrtSetCurrentContext or aclrtSetDevice"};
    }
    return {stream, 0, ""};
}

}  // namespace sim
