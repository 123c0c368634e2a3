#include "core/entry.hpp"

#include "checker/place.hpp"
#include "core/handles.hpp"
#include "core/settings.hpp"

namespace sim {
namespace {

thread_local CurrentCall current;

}  // namespace

ApiCall::ApiCall(const char *api, const Caller &caller) : api_(api), outermost_(!current.origin.isKnown()) {
    if (!outermost_) return;
    current.origin.api = api;
    current.caller = caller;
}

ApiCall::~ApiCall() {
    if (outermost_) current = {};
}

UserCode::UserCode() : interrupted_(current) { current = {}; }

UserCode::~UserCode() { current = interrupted_; }

TaskCall::TaskCall(const Origin &origin) { current = {origin, {}, true}; }

TaskCall::~TaskCall() { current = {}; }

const char *currentApi() { return current.origin.api; }

const void *currentReturnAddress() { return current.caller.returnAddress; }

Origin captureOrigin() {
    if (current.origin.thread == 0) current.origin.thread = static_cast<uint32_t>(threadNumber());
    if (!current.located && current.caller.returnAddress != nullptr && strict()) {
        Located found = locate(current.caller);
        current.origin.place = found.place;
        current.origin.ofPackage = found.insidePackage;
        current.located = true;
    }
    return current.origin;
}

Origin captureOrigin(int32_t stream) {
    captureOrigin();
    if (current.origin.stream < 0) current.origin.stream = stream;
    return current.origin;
}

Origin originOf(const char *api) {
    Origin origin = captureOrigin();
    if (!origin.isKnown()) origin.api = api;
    return origin;
}

}  // namespace sim
