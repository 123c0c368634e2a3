#include "core/entry.hpp"

#include "core/handles.hpp"
#include "core/settings.hpp"

namespace sim {
namespace {

struct CurrentCall {
    const char *api = "";
    const void *returnAddress = nullptr;
};

thread_local CurrentCall current;

}  // namespace

ApiCall::ApiCall(const char *api, const void *returnAddress) : api_(api), outermost_(*current.api == '\0') {
    if (outermost_) current = {api, returnAddress};
}

ApiCall::~ApiCall() {
    if (outermost_) current = {};
}

UserCode::UserCode() : api_(current.api), returnAddress_(current.returnAddress) { current = {}; }

UserCode::~UserCode() { current = {api_, returnAddress_}; }

const char *currentApi() { return current.api; }

Origin captureOrigin() { return captureOrigin(-1); }

Origin captureOrigin(int32_t stream) {
    return {current.api, static_cast<uint32_t>(threadNumber()), stream, nullptr};
}

Origin originOf(const char *api) {
    Origin origin = captureOrigin();
    if (!origin.isKnown()) origin.api = api;
    return origin;
}

}  // namespace sim
