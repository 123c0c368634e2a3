// Thousands of random calls with live, dead and foreign handles and addresses: nothing crashes, every refusal has a text.
#include <random>
#include <vector>

#include "acl/acl.h"
#include "check.hpp"
#include "sim/cann_mla_sim.h"
#include "toy_operator.hpp"

// Freed memory under running kernels is a race by intention, which ThreadSanitizer would rightly report.
#ifdef __SANITIZE_THREAD__
constexpr bool kSynchronizeOften = true;
#else
constexpr bool kSynchronizeOften = false;
#endif

static std::mt19937 generator(20260729);

static size_t below(size_t limit) { return generator() % limit; }

// What was made, by kind, dead ones among them; kind 0 also holds what never was a handle.
enum Made { kForeign, kTensor, kList, kArray, kScalar, kExecutor, kEvent, kStream, kMemory, kKinds };
static std::vector<void *> pools[kKinds];

// Mostly of the kind that the call wants, sometimes of any other.
static void *pick(Made kind) {
    const std::vector<void *> &pool = below(8) > 0 && !pools[kind].empty() ? pools[kind] : pools[below(kKinds)];
    return pool.empty() ? nullptr : pool[below(pool.size())];
}

template <typename T>
static T *pickAs(Made kind) {
    return static_cast<T *>(pick(kind));
}

static void keep(Made kind, const void *handle) {
    if (handle == nullptr) return;
    std::vector<void *> &pool = pools[kind];
    if (pool.size() < 12) pool.push_back(const_cast<void *>(handle));
    else pool[below(pool.size())] = const_cast<void *>(handle);
}

static void makeSomething() {
    const int64_t dims[3] = {below(8) ? 4 : static_cast<int64_t>(below(5)), 3, 1};
    const int64_t strides[3] = {static_cast<int64_t>(below(20)) - 4, 3, 1};
    const aclTensor *members[2] = {pickAs<aclTensor>(kTensor), pickAs<aclTensor>(kTensor)};
    void *out = nullptr;
    switch (below(11)) {
        case 0:
        case 1:
            keep(kTensor, aclCreateTensor(dims, 1 + below(3), ACL_FLOAT, below(4) ? nullptr : strides,
                                 static_cast<int64_t>(below(3)), ACL_FORMAT_ND, dims, 1 + below(3), pick(kMemory)));
            break;
        case 2: keep(kList, aclCreateTensorList(members, below(3))); break;
        case 3: keep(kArray, aclCreateIntArray(dims, 3)); break;
        case 4: keep(kScalar, aclCreateScalar(members, ACL_DOUBLE)); break;
        case 5:
            if (aclrtCreateEvent(&out) == 0) keep(kEvent, out);
            break;
        case 6:
            if (cannMlaSimLiveHandles(CANN_MLA_SIM_STREAM) < 8 && aclrtCreateStream(&out) == 0) keep(kStream, out);
            break;
        default:
            if (aclrtMalloc(&out, 20 + below(300), ACL_MEM_MALLOC_HUGE_FIRST) == 0) keep(kMemory, out);
    }
}

static int32_t destroySomething() {
    switch (below(8)) {
        case 0: return aclDestroyTensor(pickAs<aclTensor>(kTensor));
        case 1: return aclDestroyTensorList(pickAs<aclTensorList>(kList));
        case 2: return aclDestroyIntArray(pickAs<aclIntArray>(kArray));
        case 3: return aclDestroyScalar(pickAs<aclScalar>(kScalar));
        case 4: return aclDestroyAclOpExecutor(pickAs<aclOpExecutor>(kExecutor));
        case 5: return aclrtDestroyEvent(pick(kEvent));
        case 6: return aclrtDestroyStreamForce(pick(kStream));
        default: return aclrtFree(pick(kMemory));
    }
}

static int32_t useSomething() {
    uint64_t size = 0;
    int64_t number = 0;
    float milliseconds = 0;
    aclrtEventRecordedStatus recorded;
    aclOpExecutor *executor = nullptr;
    int32_t status = 0;
    switch (below(12)) {
        case 0: return aclGetViewOffset(pickAs<aclTensor>(kTensor), &number);
        case 1: return aclGetTensorListSize(pickAs<aclTensorList>(kList), &size);
        case 2: return aclSetRawTensorAddr(pickAs<aclTensor>(kTensor), pick(kMemory));
        case 3:
            return aclSetInputTensorAddr(pickAs<aclOpExecutor>(kExecutor), below(4), pickAs<aclTensor>(kTensor),
                                         pick(kMemory));
        case 4:
            return aclSetDynamicTensorAddr(pickAs<aclOpExecutor>(kExecutor), below(2), below(2),
                                           pickAs<aclTensorList>(kList), pick(kMemory));
        case 5: return aclrtRecordEvent(pick(kEvent), pick(kStream));
        case 6: return aclrtQueryEventStatus(pick(kEvent), &recorded);
        case 7: return aclrtEventElapsedTime(&milliseconds, pick(kEvent), pick(kEvent));
        case 8: return aclrtMemsetAsync(pick(kMemory), 64, 1, below(64), pick(kStream));
        case 9: return aclSetAclOpExecutorRepeatable(pickAs<aclOpExecutor>(kExecutor));
        case 10:
            status = toy::sumGetWorkspaceSize(pickAs<aclTensorList>(kList),
                                              below(2) ? nullptr : pickAs<aclTensor>(kTensor),
                                              below(2) ? nullptr : pickAs<aclTensor>(kTensor),
                                              pickAs<aclTensor>(kTensor), &size, &executor);
            keep(kExecutor, executor);
            return status;
        default:
            return toy::sum(pick(kMemory), 90 + below(20), pickAs<aclOpExecutor>(kExecutor),
                            below(2) ? nullptr : pick(kStream));
    }
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    static int local[64];
    for (void *foreign : {static_cast<void *>(nullptr), static_cast<void *>(local), reinterpret_cast<void *>(8),
                          reinterpret_cast<void *>(UINTPTR_MAX), reinterpret_cast<void *>(0x5A07000001000000)}) {
        pools[kForeign].push_back(foreign);
    }
    int refused = 0, accepted = 0;
    for (int round = 0; round < 20000; ++round) {
        makeSomething();
        for (auto call : {useSomething, useSomething, useSomething, below(4) ? useSomething : destroySomething}) {
            while (aclGetRecentErrMsg() != nullptr) {}
            if (call() == 0) {
                ++accepted;
            } else {
                ++refused;
                CHECK(aclGetRecentErrMsg() != nullptr);
            }
            if (kSynchronizeOften) aclrtSynchronizeDevice();
        }
        if (round % 100 == 0) aclrtSynchronizeDevice();
    }
    CHECK(refused > 10000 && accepted > 10000);
    aclrtSynchronizeDevice();
    CHECK(toy::launches > 50);
    OK(aclrtResetDeviceForce(0));
    OK(aclFinalize());
    return 0;
}
