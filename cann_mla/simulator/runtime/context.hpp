// Contexts, and which one a thread works in.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "acl/acl_base.h"
#include "core/error.hpp"
#include "core/handles.hpp"
#include "runtime/stream.hpp"

namespace sim __attribute__((visibility("default"))) {

class Context : public Object, public std::enable_shared_from_this<Context> {
   public:
    explicit Context(int32_t device) : device_(device) {}
    ~Context() override { endStreams(true); }

    int32_t device() const { return device_; }
    // The stream that a null handle means; made at first use.
    std::shared_ptr<Stream> defaultStream();
    // A handle for the default stream.
    void *defaultStreamHandle();
    void *addStream(const char *api, uint32_t priority, uint32_t flags);
    void forgetStream(const Stream *stream);
    std::vector<std::shared_ptr<Stream>> streams();
    // Ends every stream of the context, the handles too.
    void endStreams(bool force);

    // Stop on failure: asked for on one stream, it holds for all of the context. The first fault ends all work, and stays
    // for as long as the context lives.
    void stopOnFailure() { stopsOnFailure_ = true; }
    void fail(const Fault &fault);  // nothing unless failures stop
    std::optional<Fault> failure();

    // Options set by aclrtCtxSetSysParamOpt.
    std::mutex optionMutex;
    std::map<int, int64_t> options;

   private:
    struct Entry {
        std::shared_ptr<Stream> stream;
        void *handle;
    };
    const Entry &defaultEntry();

    const int32_t device_;
    std::atomic<bool> stopsOnFailure_{false};
    std::mutex failureMutex_;
    std::optional<Fault> failure_;
    std::mutex mutex_;
    std::vector<Entry> streams_;
    Entry default_{};
};

// The context of the calling thread; nullptr when it has none, or when it was destroyed meanwhile.
std::shared_ptr<Context> currentContext();
void *currentContextHandle();
void setCurrentContext(void *handle);

// The default context of a device (retained by aclrtSetDevice).
void *retainDefaultContext(int32_t device, const char *api);
// False when the device was not set.
bool releaseDefaultContext(int32_t device, bool force);
bool defaultContextActive(int32_t device);
// Ends all contexts and their streams (aclFinalize).
void endAllContexts();

enum class Purpose : uint8_t { Work, Other };

// The stream that a handle means: null is the default stream of the current context. Rejects a thread without context
// (107002), a dead or foreign handle (107017), a stream of another context (107003), and work for a context that has
// stopped on a failure, with that failure.
struct StreamChoice {
    std::shared_ptr<Stream> stream;
    int32_t status = 0;
    std::string text;
    explicit operator bool() const { return stream != nullptr; }
};
StreamChoice chooseStream(const void *handle, Purpose purpose = Purpose::Work);

// The text for 107002.
extern const char *const kNoContextText;
// The same, for a function that needs a context: in strict mode, its call is a finding.
std::string noContext();

}  // namespace sim
