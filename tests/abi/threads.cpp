// Eight threads with two streams each: handles, memory, launches and events at once. Meant for ThreadSanitizer.
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "check.hpp"
#include "sim/cann_mla_sim.h"
#include "toy_operator.hpp"

constexpr int kThreads = 8;
constexpr int kRounds = 60;
constexpr int64_t kLength = 64;

static void work(int device) {
    OK(aclrtSetDevice(device));
    aclrtStream producer = nullptr, consumer = nullptr;
    OK(aclrtCreateStream(&producer));
    OK(aclrtCreateStream(&consumer));
    aclrtEvent event = nullptr;
    OK(aclrtCreateEvent(&event));
    const size_t bytes = kLength * sizeof(float);
    std::vector<float> host(kLength, 1.0f);
    for (int round = 0; round < kRounds; ++round) {
        void *x = nullptr, *y = nullptr, *z = nullptr, *workspace = nullptr;
        for (void **address : {&x, &y, &z, &workspace}) OK(aclrtMalloc(address, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtMemcpy(x, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
        auto launch = [&](void *from, void *to, aclrtStream stream) {
            aclTensor *in = aclCreateTensor(&kLength, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &kLength, 1, from);
            aclTensor *twice[2] = {in, in};
            aclTensorList *xs = aclCreateTensorList(twice, 2);
            aclTensor *out = aclCreateTensor(&kLength, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &kLength, 1, to);
            uint64_t size = 0;
            aclOpExecutor *executor = nullptr;
            OK(toy::sumGetWorkspaceSize(xs, nullptr, nullptr, out, &size, &executor));
            OK(toy::sum(workspace, size, executor, stream));
            CHECK_EQ(aclDestroyTensorList(xs), ACLNN_ERR_PARAM_INVALID);  // one tensor twice: destroyed once
            OK(aclDestroyTensor(out));
        };
        launch(x, y, producer);
        OK(aclrtRecordEvent(event, producer));
        OK(aclrtStreamWaitEvent(consumer, event));
        launch(y, z, consumer);
        OK(aclrtSynchronizeStream(consumer));
        std::vector<float> result(kLength);
        OK(aclrtMemcpy(result.data(), bytes, z, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_EQ(result[kLength - 1], 4.0f);
        for (void *address : {x, y, z, workspace}) OK(aclrtFree(address));
    }
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(producer));
    OK(aclrtDestroyStream(consumer));
    OK(aclrtResetDevice(device));
}

int main() {
    OK(aclInit(nullptr));
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i % 2);
    for (std::thread &thread : threads) thread.join();
    CHECK_EQ(toy::launches, kThreads * kRounds * 2);
    for (int kind = CANN_MLA_SIM_TENSOR; kind <= CANN_MLA_SIM_ATB_OPERATION; ++kind) {
        CHECK_EQ(cannMlaSimLiveHandles(static_cast<cannMlaSimKind>(kind)), 0);
    }
    CHECK_EQ(cannMlaSimDeviceBytes(0) + cannMlaSimDeviceBytes(1), 0);
    CHECK_EQ(cannMlaSimFindingCount(), 0);
    OK(aclFinalize());
    return 0;
}
