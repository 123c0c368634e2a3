// Versions, the chip, and options of the process.
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "acl/acl_rt.h"
#include "core/entry.hpp"
#include "core/product.hpp"
#include "runtime/context.hpp"

using sim::fail;

namespace {

// The CANN release whose interface the simulator imitates, and the version of its ACL interface.
constexpr const char *kMajor = "9", *kMinor = "1", *kRelease = "0";
constexpr const char *kVersion = "9.1.0";
constexpr int32_t kVersionNumber = 90100000;
constexpr int32_t kAclMajor = 1, kAclMinor = 17, kAclPatch = 0;

template <size_t Size>
void copyText(char (&target)[Size], const char *text) {
    std::snprintf(target, Size, "%s", text);
}

}  // namespace

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion) {
    SIM_API;
    if (majorVersion == nullptr || minorVersion == nullptr || patchVersion == nullptr) {
        return fail(__func__, ACL_ERROR_INVALID_PARAM, "an output pointer is null");
    }
    *majorVersion = kAclMajor;
    *minorVersion = kAclMinor;
    *patchVersion = kAclPatch;
    return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version) {
    SIM_API;
    if (version == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "version is null");
    if (name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER) {
        return fail(__func__, ACL_ERROR_INVALID_PARAM, "name is " + std::to_string(name) + "; 0 to 7 exist");
    }
    *version = aclCANNPackageVersion{};
    copyText(version->version, kVersion);
    copyText(version->majorVersion, kMajor);
    copyText(version->minorVersion, kMinor);
    copyText(version->releaseVersion, kRelease);
    return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(char *pkgName, char *versionStr) {
    SIM_API;
    if (pkgName == nullptr || versionStr == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "a pointer is null");
    std::memcpy(versionStr, kVersion, std::strlen(kVersion) + 1);
    return ACL_SUCCESS;
}

aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum) {
    SIM_API;
    if (pkgName == nullptr || versionNum == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "a pointer is null");
    *versionNum = kVersionNumber;
    return ACL_SUCCESS;
}

const char *aclrtGetSocName(void) {
    SIM_API_WITHOUT_STATUS;
    return sim::socName(sim::product());
}

namespace {

struct Options {
    std::mutex mutex;
    std::map<int, int64_t> values;
};

Options &processOptions() {
    static Options &instance = *new Options;
    return instance;
}

aclError checkOption(const char *api, aclSysParamOpt opt, bool ofContext) {
    aclSysParamOpt last = ofContext ? ACL_OPT_STRONG_CONSISTENCY : ACL_OPT_ENABLE_KERNEL_EARLY_START;
    if (opt >= ACL_OPT_DETERMINISTIC && opt <= last) return ACL_SUCCESS;
    return fail(api, ACL_ERROR_INVALID_PARAM,
                "opt is " + std::to_string(opt) + "; 0 to " + std::to_string(last) + " exist here");
}

aclError setProcessOption(const char *api, aclSysParamOpt opt, int64_t value) {
    int64_t largest = opt == ACL_OPT_DETERMINISTIC ? 3 : 1;
    if (value < 0 || value > largest) {
        return fail(api, ACL_ERROR_RT_PARAM_INVALID,
                    "value is " + std::to_string(value) + "; option " + std::to_string(opt) + " takes 0 to " +
                        std::to_string(largest));
    }
    std::lock_guard lock(processOptions().mutex);
    processOptions().values[opt] = value;
    return ACL_SUCCESS;
}

}  // namespace

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    SIM_API;
    if (aclError status = checkOption(__func__, opt, false)) return status;
    return setProcessOption(__func__, opt, value);
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    if (aclError status = checkOption(__func__, opt, false)) return status;
    std::lock_guard lock(processOptions().mutex);
    *value = processOptions().values[opt];  // 0 while it was never set
    return ACL_SUCCESS;
}

// The value of a context is the value of the process, too: the last writer wins.
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    SIM_API;
    if (aclError status = checkOption(__func__, opt, true)) return status;
    auto context = sim::currentContext();
    if (!context) return fail(__func__, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    if (aclError status = setProcessOption(__func__, opt, value)) return status;
    std::lock_guard lock(context->optionMutex);
    context->options[opt] = value;
    return ACL_SUCCESS;
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    if (aclError status = checkOption(__func__, opt, true)) return status;
    auto context = sim::currentContext();
    if (!context) return fail(__func__, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    std::lock_guard lock(context->optionMutex);
    auto found = context->options.find(opt);
    if (found == context->options.end()) {
        return fail(__func__, ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
                    "option " + std::to_string(opt) + " was never set in this context");
    }
    *value = found->second;
    return ACL_SUCCESS;
}

aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num) {
    SIM_API;
    static constexpr std::array<aclCannAttr, 3> all = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16,
                                                       ACL_CANN_ATTR_JIT_COMPILE};
    if (cannAttrList == nullptr || num == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "a pointer is null");
    *cannAttrList = all.data();
    *num = all.size();
    return ACL_SUCCESS;
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value) {
    SIM_API;
    if (value == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "value is null");
    if (cannAttr < ACL_CANN_ATTR_INF_NAN || cannAttr > ACL_CANN_ATTR_JIT_COMPILE) {
        return fail(__func__, ACL_ERROR_INVALID_PARAM, "attribute " + std::to_string(cannAttr) + " does not exist");
    }
    *value = 1;
    return ACL_SUCCESS;
}
