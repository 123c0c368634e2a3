// aclInit and its counterparts, for the runtime and for aclnn alone.
#include <dlfcn.h>

#include <fstream>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"
#include "checker/leaks.hpp"
#include "checker/lifetimes.hpp"
#include "core/device_memory.hpp"
#include "core/entry.hpp"
#include "core/error.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"

using sim::fail;

namespace {

// Who called aclInit. Libraries in one process that know nothing of each other may all do so.
struct Initialiser {
    sim::Origin origin;
    const void *module = nullptr;  // the executable or library
};

Initialiser currentCaller() {
    Dl_info info{};
    if (sim::currentReturnAddress() != nullptr) dladdr(sim::currentReturnAddress(), &info);
    return {sim::captureOrigin(), info.dli_fbase};
}

// The Python package calls aclInit once, whatever its user did.
bool isSameProgram(const Initialiser &a, const Initialiser &b) {
    return a.module != nullptr && a.module == b.module && !a.origin.ofPackage && !b.origin.ofPackage;
}

struct InitState {
    std::mutex mutex;
    uint64_t references = 0;
    bool finalized = false;
    Initialiser first;
};

InitState &state() {
    static InitState &instance = *new InitState;
    return instance;
}

// Of the configuration, only err_msg_mode means something to a simulator: "1" shares error texts in the process.
aclError applyConfig(const char *configPath) {
    std::ifstream file(configPath);
    if (!file) {
        return fail("aclInit", ACL_ERROR_INVALID_FILE, std::string("cannot read the configuration file ") + configPath);
    }
    std::stringstream text;
    text << file.rdbuf();
    std::smatch match;
    const std::string content = text.str();
    static const std::regex mode("\"err_msg_mode\"\\s*:\\s*\"?([01])");
    sim::shareErrorText(std::regex_search(content, match, mode) && match[1] == "1");
    return ACL_SUCCESS;
}

void finalize() {
    if (sim::strict()) sim::checker::reportLeakedHandles();
    sim::endAllContexts();
    if (sim::strict()) sim::checker::reportLeakedMemory();
    sim::checkGuardBands("aclFinalize");
    state().references = 0;
    state().finalized = true;
}

}  // namespace

aclError aclInit(const char *configPath) {
    SIM_API;
    std::lock_guard lock(state().mutex);
    if (state().references > 0) {
        ++state().references;
        if (sim::strict() && isSameProgram(state().first, currentCaller())) {
            sim::checker::tellRepeatedInit(state().first.origin);
        }
        return fail(__func__, ACL_ERROR_REPEAT_INITIALIZE, "the process is initialised already; go on, it is harmless");
    }
    if (configPath != nullptr && *configPath != '\0') {
        if (aclError status = applyConfig(configPath)) return status;
    }
    state().references = 1;
    if (sim::strict()) state().first = currentCaller();
    state().finalized = false;
    return ACL_SUCCESS;
}

aclError aclFinalize(void) {
    SIM_API;
    std::lock_guard lock(state().mutex);
    if (state().finalized) return fail(__func__, ACL_ERROR_REPEAT_FINALIZE, "the process is finalised already");
    finalize();
    return ACL_SUCCESS;
}

aclError aclFinalizeReference(uint64_t *refCount) {
    SIM_API;
    std::lock_guard lock(state().mutex);
    if (state().references == 0) {
        if (refCount != nullptr) *refCount = 0;
        return fail(__func__, ACL_ERROR_REPEAT_FINALIZE, "there is no aclInit left to take back");
    }
    if (state().references == 1) {
        finalize();
    } else {
        --state().references;
    }
    if (refCount != nullptr) *refCount = state().references;
    return ACL_SUCCESS;
}

// aclInit covers aclnn, and there is nothing that aclnn alone would have to set up.
aclnnStatus aclnnInit(const char *configPath) {
    SIM_API;
    if (configPath == nullptr || *configPath == '\0' || std::ifstream(configPath)) return ACL_SUCCESS;
    return fail(__func__, ACLNN_ERR_PARAM_INVALID, std::string("cannot read the configuration file ") + configPath);
}

aclnnStatus aclnnFinalize(void) {
    SIM_API;
    return ACL_SUCCESS;
}

const char *aclGetRecentErrMsg(void) {
    SIM_API_WITHOUT_STATUS;
    return sim::takeErrorText();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
    SIM_API;
    if (level != ACL_RT_THREAD_LEVEL) return fail(__func__, ACL_ERROR_INVALID_PARAM, "level must be 0");
    return sim::lastError(false);
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
    SIM_API;
    if (level != ACL_RT_THREAD_LEVEL) return fail(__func__, ACL_ERROR_INVALID_PARAM, "level must be 0");
    return sim::lastError(true);
}
