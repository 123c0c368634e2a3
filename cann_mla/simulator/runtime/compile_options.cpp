// Compile options. The simulator compiles nothing: it keeps what was set, for the getters.
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "acl/acl_op_compiler.h"
#include "core/entry.hpp"
#include "core/error.hpp"

using sim::fail;

namespace {

struct CompileOptions {
    std::mutex mutex;
    std::map<int, std::string> values;
};

CompileOptions &compileOptions() {
    static CompileOptions &instance = *new CompileOptions;
    return instance;
}

bool isOption(aclCompileOpt opt) { return opt >= ACL_PRECISION_MODE && opt <= ACL_OP_DEBUG_OPTION; }

}  // namespace

aclError aclSetCompileopt(aclCompileOpt opt, const char *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    if (!isOption(opt)) {
        return fail(__func__, ACL_ERROR_INVALID_PARAM, "opt is " + std::to_string(opt) + "; 0 to 16 exist");
    }
    std::lock_guard lock(compileOptions().mutex);
    compileOptions().values[opt] = value;
    return ACL_SUCCESS;
}

size_t aclGetCompileoptSize(aclCompileOpt opt) {
    SIM_API_WITHOUT_STATUS;
    std::lock_guard lock(compileOptions().mutex);
    auto found = compileOptions().values.find(opt);
    return found == compileOptions().values.end() ? 0 : found->second.size() + 1;
}

aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    std::lock_guard lock(compileOptions().mutex);
    auto found = compileOptions().values.find(opt);
    if (found == compileOptions().values.end()) {
        return fail(__func__, ACL_ERROR_INVALID_PARAM, "option " + std::to_string(opt) + " was never set");
    }
    if (length <= found->second.size()) {
        return fail(__func__, ACL_ERROR_INVALID_PARAM,
                    "length is " + std::to_string(length) + ", the value takes " +
                        std::to_string(found->second.size() + 1) + " characters with its end");
    }
    std::memcpy(value, found->second.c_str(), found->second.size() + 1);
    return ACL_SUCCESS;
}

aclError aclopSetCompileFlag(aclOpCompileFlag flag) {
    SIM_API;
    if (flag == ACL_OP_COMPILE_DEFAULT || flag == ACL_OP_COMPILE_FUZZ) return ACL_SUCCESS;
    return fail(__func__, ACL_ERROR_INVALID_PARAM, "flag is " + std::to_string(flag) + "; 0 and 1 exist");
}
