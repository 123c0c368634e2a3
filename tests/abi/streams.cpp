// Streams, events, notifies, host functions and callbacks: order, waiting, timeouts.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "check.hpp"
#include "sim/cann_mla_sim.h"

static std::atomic<int> steps{0};

static void sleepAndCount(void *milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(*static_cast<int *>(milliseconds)));
    ++steps;
}

static int kShort = 20, kLong = 150;

static aclrtStream makeStream() {
    aclrtStream stream = nullptr;
    OK(aclrtCreateStream(&stream));
    return stream;
}

static void asynchrony() {
    aclrtStream stream = makeStream();
    steps = 0;
    OK(aclrtLaunchHostFunc(stream, sleepAndCount, &kLong));
    CHECK_EQ(steps, 0);  // queued, not run
    aclrtStreamStatus status;
    OK(aclrtStreamQuery(stream, &status));
    CHECK_EQ(status, ACL_STREAM_STATUS_NOT_READY);
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_TEXT("10 ms");
    OK(aclrtSynchronizeStreamWithTimeout(stream, -1));
    CHECK_EQ(steps, 1);
    OK(aclrtStreamQuery(stream, &status));
    CHECK_EQ(status, ACL_STREAM_STATUS_COMPLETE);
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, -2), ACL_ERROR_RT_PARAM_INVALID);

    // The whole device, with the default stream.
    OK(aclrtLaunchHostFunc(nullptr, sleepAndCount, &kShort));
    OK(aclrtLaunchHostFunc(stream, sleepAndCount, &kShort));
    OK(aclrtSynchronizeDevice());
    CHECK_EQ(steps, 3);

    // Destroying waits; by force it drops what has not begun.
    OK(aclrtLaunchHostFunc(stream, sleepAndCount, &kShort));
    OK(aclrtDestroyStream(stream));
    CHECK_EQ(steps, 4);
    CHECK_EQ(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_TEXT("aclrtDestroyStream");
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    stream = makeStream();
    for (int i = 0; i < 50; ++i) OK(aclrtLaunchHostFunc(stream, sleepAndCount, &kShort));
    OK(aclrtDestroyStreamForce(stream));
    CHECK(steps < 54);
}

static void selfDestruction(void *stream) {
    CHECK_EQ(aclrtSetDevice(0), 0);
    CHECK_EQ(aclrtDestroyStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtResetDevice(0), 0);
}

static void handles() {
    aclrtStream stream = makeStream();
    aclrtEvent event = nullptr;
    OK(aclrtCreateEvent(&event));
    int local = 0;
    CHECK_EQ(aclrtSynchronizeStream(&local), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_TEXT("not a handle");
    CHECK_EQ(aclrtSynchronizeStream(event), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_TEXT("kind event");
    CHECK_EQ(aclrtRecordEvent(stream, stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtSynchronizeEvent(nullptr), ACL_ERROR_INVALID_PARAM);
    aclrtStream standard = nullptr;
    OK(aclrtCtxGetCurrentDefaultStream(&standard));
    CHECK_EQ(aclrtDestroyStream(standard), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtLaunchHostFunc(stream, selfDestruction, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyEvent(event));
    CHECK_EQ(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtDestroyStream(stream));

    aclrtStreamConfigHandle *config = aclrtCreateStreamConfigHandle();
    uint32_t priority = 3, found = 0;
    OK(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_PRIORITY, &priority, sizeof priority));
    CHECK_EQ(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_PRIORITY, &priority, 2), ACL_ERROR_INVALID_PARAM);
    OK(aclrtCreateStreamV2(&stream, config));
    OK(aclrtStreamGetPriority(stream, &found));
    CHECK_EQ(found, 3u);
    OK(aclrtDestroyStreamConfigHandle(config));
    CHECK_EQ(aclrtDestroyStreamConfigHandle(config), ACL_ERROR_INVALID_PARAM);
    OK(aclrtDestroyStream(stream));
}

static void eventOrder() {
    aclrtStream first = makeStream(), second = makeStream();
    aclrtEvent begin = nullptr, end = nullptr;
    OK(aclrtCreateEvent(&begin));
    OK(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
    steps = 0;
    OK(aclrtRecordEvent(begin, first));
    OK(aclrtLaunchHostFunc(first, sleepAndCount, &kLong));
    OK(aclrtRecordEvent(end, first));
    OK(aclrtStreamWaitEvent(second, end));
    int seen = -1;
    OK(aclrtLaunchHostFunc(second, [](void *out) { *static_cast<int *>(out) = steps; }, &seen));
    aclrtEventStatus status;
    aclrtEventWaitStatus waitStatus;
    OK(aclrtQueryEvent(end, &status));
    CHECK_EQ(status, ACL_EVENT_STATUS_NOT_READY);
    OK(aclrtQueryEventWaitStatus(end, &waitStatus));
    CHECK_EQ(waitStatus, ACL_EVENT_WAIT_STATUS_NOT_READY);
    float milliseconds = 0;
    CHECK_EQ(aclrtEventElapsedTime(&milliseconds, begin, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK_EQ(aclrtSynchronizeEventWithTimeout(end, 5), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    OK(aclrtSynchronizeStream(second));
    CHECK_EQ(seen, 1);  // the second stream went on only after the first had counted
    OK(aclrtSynchronizeEvent(end));
    OK(aclrtQueryEvent(end, &status));
    CHECK_EQ(status, ACL_EVENT_STATUS_COMPLETE);
    OK(aclrtQueryEventWaitStatus(end, &waitStatus));
    CHECK_EQ(waitStatus, ACL_EVENT_WAIT_STATUS_COMPLETE);
    OK(aclrtEventElapsedTime(&milliseconds, begin, end));
    CHECK(milliseconds >= 149.0f && milliseconds < 5000.0f);
    OK(aclrtDestroyEvent(begin));
    OK(aclrtDestroyEvent(end));
    OK(aclrtDestroyStream(first));
    OK(aclrtDestroyStream(second));
}

static void laterRecordsDoNotEndAWait() {
    aclrtStream slow = makeStream(), quick = makeStream(), waiting = makeStream();
    aclrtEvent event = nullptr;
    OK(aclrtCreateEvent(&event));
    steps = 0;
    OK(aclrtLaunchHostFunc(slow, sleepAndCount, &kLong));
    OK(aclrtRecordEvent(event, slow));
    OK(aclrtStreamWaitEvent(waiting, event));
    OK(aclrtRecordEvent(event, quick));
    static int seen;
    OK(aclrtLaunchHostFunc(waiting, [](void *) { seen = steps; }, nullptr));
    OK(aclrtSynchronizeStream(waiting));
    CHECK_EQ(seen, 1);
    OK(aclrtDestroyEvent(event));
    for (aclrtStream stream : {slow, quick, waiting}) OK(aclrtDestroyStream(stream));
}

static void eventsNeverRecorded() {
    aclrtStream stream = makeStream(), other = makeStream();
    aclrtEvent classic = nullptr, modern = nullptr, untimed = nullptr;
    OK(aclrtCreateEvent(&classic));
    OK(aclrtCreateEventExWithFlag(&modern, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&untimed, ACL_EVENT_CAPTURE_STREAM_PROGRESS));
    aclrtEventRecordedStatus status;
    OK(aclrtQueryEventStatus(classic, &status));
    CHECK_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtQueryEventStatus(modern, &status));
    CHECK_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtSynchronizeEvent(classic));
    float milliseconds = 0;
    CHECK_EQ(aclrtEventElapsedTime(&milliseconds, classic, classic), ACL_ERROR_RT_INTERNAL_ERROR);

    // The new kind lets the stream pass, the old kind holds it until somebody records.
    OK(aclrtStreamWaitEvent(stream, modern));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtStreamWaitEvent(stream, classic));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclrtRecordEvent(classic, other));
    OK(aclrtSynchronizeStream(stream));
    // A reset takes the record back.
    OK(aclrtResetEvent(classic, stream));
    OK(aclrtStreamWaitEvent(stream, classic));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    int64_t findings = cannMlaSimFindingCount();
    OK(aclrtDestroyStream(stream));  // a device would hang here
    CHECK_EQ(cannMlaSimFindingCount(), findings + 1);

    aclrtEventStatus queried;
    CHECK_EQ(aclrtQueryEvent(modern, &queried), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtResetEvent(modern, other), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_EQ(aclrtStreamWaitEvent(other, untimed), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclrtRecordEvent(modern, other));
    OK(aclrtSynchronizeStream(other));
    CHECK_EQ(aclrtEventElapsedTime(&milliseconds, modern, modern), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK_TEXT("ACL_EVENT_TIME_LINE");
    for (aclrtEvent event : {classic, modern, untimed}) OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(other));
}

static void abortAndTimeouts() {
    aclrtStream stream = makeStream();
    aclrtEvent event = nullptr;
    OK(aclrtCreateEvent(&event));
    OK(aclrtStreamWaitEvent(stream, event));
    OK(aclrtStreamAbort(stream));  // ends the wait, and the stream can be used on
    OK(aclrtSynchronizeStream(stream));
    steps = 0;
    OK(aclrtLaunchHostFunc(stream, sleepAndCount, &kShort));
    OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(steps, 1);
    OK(aclrtStreamWaitEventWithTimeout(stream, event, 30));
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_WAIT_TIMEOUT);
    CHECK_TEXT("30 ms");
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(stream));
}

static void notifies() {
    aclrtStream first = makeStream(), second = makeStream();
    aclrtNotify notify = nullptr;
    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    steps = 0;
    OK(aclrtWaitAndResetNotify(notify, second, 0));
    OK(aclrtLaunchHostFunc(second, sleepAndCount, &kShort));
    CHECK_EQ(aclrtSynchronizeStreamWithTimeout(second, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclrtRecordNotify(notify, first));
    OK(aclrtSynchronizeStream(second));
    CHECK_EQ(steps, 1);
    OK(aclrtWaitAndResetNotify(notify, second, 30));  // the first wait used the record up
    CHECK_EQ(aclrtSynchronizeStream(second), ACL_ERROR_RT_WAIT_TIMEOUT);
    OK(aclrtDestroyNotify(notify));
    OK(aclrtDestroyStream(first));
    OK(aclrtDestroyStream(second));
}

static void callbacks() {
    aclrtStream stream = makeStream();
    CHECK_EQ(aclrtLaunchCallback(sleepAndCount, &kShort, ACL_CALLBACK_BLOCK, stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
    CHECK_EQ(aclrtProcessReport(1), ACL_ERROR_THREAD_NOT_SUBSCRIBE);
    std::promise<uint64_t> id;
    std::atomic<bool> stop{false};
    std::thread poller([&] {
        id.set_value(static_cast<uint64_t>(pthread_self()));
        while (!stop) aclrtProcessReport(10);
    });
    uint64_t thread = id.get_future().get();
    OK(aclrtSubscribeReport(thread, stream));
    CHECK_EQ(aclrtSubscribeReport(thread, stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    steps = 0;
    OK(aclrtLaunchCallback(sleepAndCount, &kLong, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(steps, 1);  // a blocking callback holds the stream
    OK(aclrtUnSubscribeReport(thread, stream));
    CHECK_EQ(aclrtUnSubscribeReport(thread, stream), ACL_ERROR_STREAM_NOT_SUBSCRIBE);
    stop = true;
    poller.join();
    OK(aclrtDestroyStream(stream));
}

static void asynchronousCopies() {
    aclrtStream stream = makeStream();
    void *pinned = nullptr, *device = nullptr;
    OK(aclrtMallocHost(&pinned, 64));
    OK(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    std::memset(pinned, 1, 64);
    uint8_t pageable[64] = {0};
    OK(aclrtLaunchHostFunc(stream, sleepAndCount, &kLong));
    OK(aclrtMemcpyAsync(device, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    std::memset(pinned, 2, 64);  // before the stream gets there: a pinned copy reads late
    OK(aclrtMemcpyAsync(pageable, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_EQ(static_cast<int>(pageable[63]), 2);  // a pageable copy is over when the call returns
    CHECK_EQ(aclrtMemcpyAsync(pageable, 64, pinned, 64, ACL_MEMCPY_HOST_TO_HOST, stream),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    OK(aclrtMemsetAsync(device, 64, 9, 64, stream));
    OK(aclrtMemcpyAsync(pinned, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(static_cast<int>(static_cast<uint8_t *>(pinned)[5]), 9);

    // Memory that is gone when the stream gets there: the device's fault, told at the synchronisation.
    OK(aclrtLaunchHostFunc(stream, sleepAndCount, &kLong));
    OK(aclrtMemsetAsync(device, 64, 1, 64, stream));
    OK(aclrtFree(device));
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
    CHECK_TEXT("aclrtMemsetAsync");
    OK(aclrtSynchronizeStream(stream));  // told once
    OK(aclrtFreeHost(pinned));
    OK(aclrtDestroyStream(stream));
}

int main() {
    OK(aclInit(nullptr));
    aclrtStream none = nullptr;
    CHECK_EQ(aclrtCreateStream(&none), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclrtSetDevice(0));
    asynchrony();
    handles();
    eventOrder();
    laterRecordsDoNotEndAWait();
    eventsNeverRecorded();
    abortAndTimeouts();
    notifies();
    callbacks();
    asynchronousCopies();
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_STREAM), 1);  // the default stream
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_EVENT), 0);
    OK(aclrtResetDevice(0));
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_STREAM), 0);
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_CONTEXT), 0);
    OK(aclFinalize());
    return 0;
}
