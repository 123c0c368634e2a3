// What a kernel may not touch, and how its faults come back: at the next synchronisation, with the device's code.
#include <vector>

#include "acl/acl.h"
#include "check.hpp"
#include "sim/cann_mla_sim.h"
#include "toy_operator.hpp"

static const int64_t kLength = 16;
static const size_t kBytes = 64;

static void *allocate(size_t size) {
    void *address = nullptr;
    OK(aclrtMalloc(&address, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return address;
}

// Runs the toy operator on a tensor at `x` (+ offset) into `y`, and returns what the synchronisation says.
static aclError run(void *x, void *y, void *workspace, int64_t offset = 0) {
    aclTensor *in = aclCreateTensor(&kLength, 1, ACL_FLOAT, nullptr, offset, ACL_FORMAT_ND, &kLength, 1, x);
    aclTensor *out = aclCreateTensor(&kLength, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &kLength, 1, y);
    aclTensorList *xs = aclCreateTensorList(&in, 1);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    OK(toy::sumGetWorkspaceSize(xs, nullptr, nullptr, out, &size, &executor));
    OK(toy::sum(workspace, size, executor, nullptr));
    OK(aclDestroyTensorList(xs));
    OK(aclDestroyTensor(out));
    return aclrtSynchronizeStream(nullptr);
}

static void operands() {
    void *x = allocate(kBytes), *y = allocate(kBytes), *workspace = allocate(96);
    OK(run(x, y, workspace));
    float onHost[16];
    CHECK_EQ(run(onHost, y, workspace), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_TEXT("xs: ");
    CHECK_EQ(run(x, onHost, workspace), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_TEXT("host address");
    CHECK_EQ(run(x, y, onHost), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_TEXT("workspace: ");
    CHECK_EQ(run(nullptr, y, workspace), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(run(x, y, workspace, 1), ACL_ERROR_RT_AICORE_EXCEPTION);  // one element too far
    CHECK_TEXT("go past the end");
    void *small = allocate(kBytes - 4), *smallWorkspace = allocate(95);
    CHECK_EQ(run(x, small, workspace), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(run(x, y, smallWorkspace), ACL_ERROR_RT_AICORE_EXCEPTION);
    OK(aclrtFree(small));
    CHECK_EQ(run(x, small, workspace), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_TEXT("not allocated");
    OK(run(x, y, workspace));  // a fault is told once, and the stream goes on

    OK(aclrtSetDevice(1));
    void *elsewhere = allocate(kBytes);
    OK(aclrtSetDevice(0));
    CHECK_EQ(run(elsewhere, y, workspace), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_TEXT("device 1");
    for (void *address : {x, y, workspace, smallWorkspace, elsewhere}) OK(aclrtFree(address));
    OK(aclrtResetDevice(1));
    OK(aclrtResetDevice(0));
}

static void whereFaultsComeBack() {
    aclrtStream stream = nullptr;
    OK(aclrtCreateStream(&stream));
    aclrtStreamStatus status;
    OK(toy::failing(ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, stream));
    CHECK_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_VECTOR_CORE_EXCEPTION);
    CHECK_TEXT("aclnnToyFault failed on the device: made to fail");
    OK(toy::failing(ACL_ERROR_RT_AICORE_TIMEOUT, stream));
    aclError queried = ACL_SUCCESS;
    do queried = aclrtStreamQuery(stream, &status); while (queried == ACL_SUCCESS && status == ACL_STREAM_STATUS_NOT_READY);
    CHECK_EQ(queried, ACL_ERROR_RT_AICORE_TIMEOUT);

    // A copy tells of a fault that nobody was told of, and leaves it to the synchronisation.
    void *device = allocate(4);
    float value = 0;
    OK(toy::failing(ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    aclrtSynchronizeStreamWithTimeout(nullptr, 0);
    while (aclrtMemcpy(&value, 4, device, 4, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS) {}
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
    OK(aclrtMemcpy(&value, 4, device, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    OK(aclrtFree(device));

    // By default the tasks behind a failed one run.
    static int after;
    after = 0;
    aclrtHostFunc count = [](void *) { ++after; };
    OK(toy::failing(ACL_ERROR_RT_AICORE_EXCEPTION, stream));
    OK(aclrtLaunchHostFunc(stream, count, nullptr));
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(after, 1);
    OK(aclrtDestroyStream(stream));
}

// Set on one stream, it stops all work of the context at the first fault, which stays; other contexts go on.
static void stopOnFailure() {
    aclrtContext before, stopping;
    aclrtStream stream, other;
    static int after;
    after = 0;
    aclrtHostFunc count = [](void *) { ++after; };
    OK(aclrtGetCurrentContext(&before));
    OK(aclrtCreateContext(&stopping, 0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    OK(toy::failing(ACL_ERROR_RT_AICORE_EXCEPTION, other));
    CHECK_EQ(aclrtSynchronizeStream(other), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(aclrtLaunchHostFunc(stream, count, nullptr), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(toy::failing(ACL_ERROR_RT_AICORE_EXCEPTION, stream), ACLNN_ERR_RUNTIME_ERROR);
    CHECK_TEXT("507015");
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(aclrtSynchronizeStream(other), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(after, 0);
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    OK(aclrtSetCurrentContext(before));
    OK(aclrtDestroyContext(stopping));
    OK(aclrtLaunchHostFunc(nullptr, count, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK_EQ(after, 1);
}

static uint32_t toldStatus, toldDevice;

static void remember(aclrtExceptionInfo *info) {
    toldStatus = aclrtGetErrorCodeFromExceptionInfo(info);
    toldDevice = aclrtGetDeviceIdFromExceptionInfo(info);
}

static void exceptionCallbacks() {
    OK(aclrtSetExceptionInfoCallback(remember));
    OK(toy::failing(ACL_ERROR_RT_AICORE_EXCEPTION, nullptr));
    CHECK_EQ(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(toldStatus, static_cast<uint32_t>(ACL_ERROR_RT_AICORE_EXCEPTION));
    CHECK_EQ(toldDevice, 0u);
    OK(aclrtSetExceptionInfoCallback(nullptr));
    toldStatus = 0;
    OK(toy::failing(ACL_ERROR_RT_AICORE_EXCEPTION, nullptr));
    CHECK_EQ(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_AICORE_EXCEPTION);
    CHECK_EQ(toldStatus, 0u);
    CHECK_EQ(aclrtExceptionInfoCallbackUnregister(remember), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtGetTaskIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
}

static void wrongStreams() {
    int local = 0;
    CHECK_EQ(toy::failing(1, &local), ACLNN_ERR_RUNTIME_ERROR);
    CHECK_TEXT("not a handle");
    OK(aclrtResetDevice(0));
    CHECK_EQ(toy::failing(1, nullptr), ACLNN_ERR_RUNTIME_ERROR);
    CHECK_TEXT("107002");
    OK(aclrtSetDevice(0));
}

// The kernel writes behind its operand, which the checks cannot see and the guard band does.
static void guardBands() {
    void *y = allocate(40);
    aclTensor *tensor = aclCreateTensor(&kLength, 0, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, y);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    sim::PhaseOne call("aclnnToyOverrun", &size, &executor);
    call.output("yOut", tensor);
    OK(call.accept(0, [](const sim::Launch &launch) { launch.out<char>("yOut")[40] = 1; }));
    OK(sim::phaseTwo("aclnnToyOverrun", nullptr, 0, executor, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK_EQ(cannMlaSimCheckGuardBands(), 1);
    CHECK_EQ(cannMlaSimCheckGuardBands(), 0);  // told once
    CHECK(std::strstr(cannMlaSimFindingText(0), "behind the end") != nullptr);
    CHECK(cannMlaSimFindingText(1) == nullptr);
    OK(aclrtFree(y));
    OK(aclDestroyTensor(tensor));
    CHECK_EQ(cannMlaSimFindingCount(), 1);
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    operands();
    whereFaultsComeBack();
    stopOnFailure();
    exceptionCallbacks();
    wrongStreams();
    guardBands();
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
