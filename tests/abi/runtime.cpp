// Initialisation, devices, contexts, options, versions.
#include <cmath>
#include <thread>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "aclnn/aclnn_base.h"
#include "check.hpp"

static void initialisation() {
    OK(aclInit(nullptr));
    CHECK_EQ(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
    uint64_t references = 0;
    OK(aclFinalizeReference(&references));
    CHECK_EQ(references, 1u);
    OK(aclFinalizeReference(&references));
    CHECK_EQ(references, 0u);
    CHECK_EQ(aclFinalizeReference(&references), ACL_ERROR_REPEAT_FINALIZE);
    CHECK_EQ(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    CHECK_EQ(aclInit("/no/such/file.json"), ACL_ERROR_INVALID_FILE);
    CHECK_TEXT("/no/such/file.json");
    OK(aclInit(nullptr));
    OK(aclnnInit(nullptr));
    OK(aclnnFinalize());
}

static void devices() {
    uint32_t count = 0;
    OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, 2u);
    int32_t device = -1;
    CHECK_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_TEXT("aclrtSetDevice");
    CHECK_EQ(aclrtSetDevice(2), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclrtSetDevice(1));
    OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);
    OK(aclrtSetDevice(1));  // counted: takes two resets
    OK(aclrtResetDevice(1));
    OK(aclrtGetDevice(&device));
    int32_t active = -1;
    OK(aclrtGetPrimaryCtxState(1, nullptr, &active));
    CHECK_EQ(active, 1);
    OK(aclrtResetDevice(1));
    CHECK_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_EQ(aclrtResetDevice(1), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclrtGetPrimaryCtxState(1, nullptr, &active));
    CHECK_EQ(active, 0);
    OK(aclrtSetDevice(0));
    OK(aclrtSetDevice(0));
    OK(aclrtResetDeviceForce(0));
    CHECK_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
}

static void contexts() {
    OK(aclrtSetDevice(0));
    aclrtContext first = nullptr, second = nullptr, current = nullptr;
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&second, 1));
    OK(aclrtGetCurrentContext(&current));
    CHECK_EQ(current, second);
    int32_t device = -1;
    OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);

    aclrtStream stream = nullptr;
    OK(aclrtCreateStream(&stream));
    OK(aclrtSetCurrentContext(first));
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK_TEXT("device 1");

    // A thread has no context of its own at first; threads that set the same device share one.
    std::thread([&] {
        CHECK_EQ(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL);
        OK(aclrtSetDevice(0));
        OK(aclrtGetCurrentContext(&current));
        CHECK_EQ(current, first);
        OK(aclrtResetDevice(0));
    }).join();

    OK(aclrtDestroyContext(second));
    CHECK_EQ(aclrtSetCurrentContext(second), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("aclrtDestroyContext");
    CHECK_EQ(aclrtDestroyContext(second), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);  // went with its context
    CHECK_EQ(aclrtSetCurrentContext(nullptr), ACL_ERROR_INVALID_PARAM);
    OK(aclrtResetDevice(0));
}

static void options() {
    int64_t value = -1;
    OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    CHECK_EQ(value, 0);
    OK(aclrtSetDevice(0));
    CHECK_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
    OK(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));  // the context's value is the process's, too
    CHECK_EQ(value, 1);
    OK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3));
    OK(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    CHECK_EQ(value, 1);
    CHECK_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 2), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
    OK(aclrtResetDevice(0));

    char text[8];
    OK(aclSetCompileopt(ACL_OP_JIT_COMPILE, "disable"));
    CHECK_EQ(aclGetCompileoptSize(ACL_OP_JIT_COMPILE), 8u);
    OK(aclGetCompileopt(ACL_OP_JIT_COMPILE, text, sizeof text));
    CHECK_EQ(std::string(text), "disable");
    CHECK_EQ(aclGetCompileopt(ACL_OP_JIT_COMPILE, text, 7), ACL_ERROR_INVALID_PARAM);
}

static void versions() {
    int32_t major = 0, minor = 0, patch = 0, number = 0;
    OK(aclrtGetVersion(&major, &minor, &patch));
    CHECK_EQ(major, 1);
    CHECK_EQ(minor, 17);
    char package[] = "runtime", text[ACL_PKG_VERSION_MAX_SIZE];
    OK(aclsysGetVersionStr(package, text));
    CHECK_EQ(std::string(text), "9.1.0");
    OK(aclsysGetVersionNum(package, &number));
    CHECK_EQ(number, 90100000);
    aclCANNPackageVersion version;
    OK(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
    CHECK_EQ(std::string(version.majorVersion) + "." + version.minorVersion, "9.1");
    aclrtRunMode mode;
    OK(aclrtGetRunMode(&mode));
    CHECK_EQ(mode, ACL_HOST);
}

static void errors() {
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    while (aclGetRecentErrMsg() != nullptr) {}
    CHECK_EQ(aclrtSetDevice(77), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
    std::thread([] {  // both are per thread
        CHECK(aclGetRecentErrMsg() == nullptr);
        OK(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    }).join();
    CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    CHECK_TEXT("device 77 does not exist");
    CHECK(aclGetRecentErrMsg() == nullptr);
    CHECK_EQ(aclmdlRICaptureBegin(nullptr, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_TEXT("not simulated");
}

static void sizes() {
    CHECK_EQ(aclDataTypeSize(ACL_BF16), 2u);
    CHECK_EQ(aclDataTypeSize(ACL_INT4), 1u);
    CHECK_EQ(aclDataTypeSize(ACL_FLOAT4_E2M1), 8u);  // CANN's answer for types it does not list
    CHECK_EQ(aclDataTypeSize(ACL_COMPLEX128), 16u);
    CHECK_EQ(aclDataTypeSize(ACL_DT_UNDEFINED), 0u);
    CHECK_EQ(aclDataTypeSize(ACL_STRING), 0u);
    CHECK_EQ(aclFloatToFloat16(1.0f), 0x3C00);
    CHECK_EQ(aclFloat16ToFloat(0xC000), -2.0f);
    CHECK(std::isnan(aclFloat16ToFloat(0x7E00)));
}

int main() {
    initialisation();
    devices();
    contexts();
    options();
    versions();
    errors();
    sizes();
    OK(aclFinalize());
    return 0;
}
