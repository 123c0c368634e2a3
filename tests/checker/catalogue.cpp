// The catalogue of defects in C++: `catalogue PROGRAM wrong|right`. Each program is wrong in one way when asked to be,
// and right otherwise. No status is looked at, as many a program does. The functions have C linkage, so that a backtrace
// of them reads as their name.
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_cast.h"

namespace {

constexpr size_t kBytes = 128;  // of a tensor of 4 x 8 in FP32

void *allocate(size_t bytes = kBytes, bool written = true) {
    void *address = nullptr;
    aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    if (written) aclrtMemset(address, bytes, 0, bytes);
    return address;
}

aclTensor *tensorAt(void *address = nullptr) {
    const int64_t shape[2] = {4, 8};
    return aclCreateTensor(shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 2, address);
}

aclrtStream newStream() {
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    return stream;
}

aclrtEvent newEvent() {
    aclrtEvent event = nullptr;
    aclrtCreateEvent(&event);
    return event;
}

// A copy from one memory to another, as an operator: from FP32 to FP32 aclnnCast needs no workspace.
struct Copying {
    Copying(void *from, void *to) : x(tensorAt(from)), y(tensorAt(to)) {}
    ~Copying() {
        for (aclTensor *tensor : {x, y}) {
            if (tensor != nullptr) aclDestroyTensor(tensor);
        }
    }
    aclOpExecutor *plan() const {
        uint64_t size = 0;
        aclOpExecutor *executor = nullptr;
        aclnnCastGetWorkspaceSize(x, ACL_FLOAT, y, &size, &executor);
        return executor;
    }
    void run(aclrtStream stream) const { aclnnCast(nullptr, 0, plan(), stream); }
    aclTensor *x, *y;
};

// Two memories and a stream, which end in order.
struct Bench {
    ~Bench() {
        aclrtSynchronizeStream(stream);
        aclrtDestroyStream(stream);
        aclrtFree(a);
        aclrtFree(b);
    }
    void *a = allocate(), *b = allocate();
    aclrtStream stream = newStream();
};

}  // namespace

extern "C" {

void double_destroy(bool wrong) {
    aclTensor *tensor = tensorAt();
    aclDestroyTensor(tensor);
    if (wrong) aclDestroyTensor(tensor);
}

void use_after_destroy(bool wrong) {
    Bench bench;
    Copying copying(bench.a, bench.b);
    if (wrong) aclDestroyTensor(copying.x);
    aclOpExecutor *executor = copying.plan();
    if (wrong) copying.x = nullptr;
    else aclDestroyAclOpExecutor(executor);
}

void destroyed_list_member(bool wrong) {
    aclTensor *members[2] = {tensorAt(), tensorAt()};
    aclTensorList *list = aclCreateTensorList(members, 2);
    if (wrong) aclDestroyTensor(members[0]);
    aclDestroyTensorList(list);
}

void leaked_list(bool wrong) {
    aclTensor *member = tensorAt();
    aclTensorList *list = aclCreateTensorList(&member, 1);
    if (wrong) aclDestroyTensor(member);
    else aclDestroyTensorList(list);
}

void tensor_destroyed_between_phases(bool wrong) {
    Bench bench;
    Copying copying(bench.a, bench.b);
    aclOpExecutor *executor = copying.plan();
    if (wrong) aclDestroyTensor(std::exchange(copying.x, nullptr));
    aclnnCast(nullptr, 0, executor, bench.stream);
}

void executor_used_twice(bool wrong) {
    Bench bench;
    Copying copying(bench.a, bench.b);
    aclOpExecutor *executor = copying.plan();
    aclnnCast(nullptr, 0, executor, bench.stream);
    aclnnCast(nullptr, 0, wrong ? executor : copying.plan(), bench.stream);
}

void executor_never_run(bool wrong) {
    Bench bench;
    Copying copying(bench.a, bench.b);
    aclOpExecutor *executor = copying.plan();
    if (!wrong) aclDestroyAclOpExecutor(executor);
}

void freed_in_use(bool wrong) {
    Bench bench;
    void *source = allocate();
    Copying(source, bench.b).run(bench.stream);
    if (!wrong) aclrtSynchronizeStream(bench.stream);
    aclrtFree(source);
}

void use_after_free(bool wrong) {
    Bench bench;
    void *source = allocate();
    if (wrong) aclrtFree(source);
    Copying(source, bench.b).run(bench.stream);
    aclrtSynchronizeStream(bench.stream);
    if (!wrong) aclrtFree(source);
}

void double_free(bool wrong) {
    void *address = allocate();
    aclrtFree(address);
    if (wrong) aclrtFree(address);
}

void host_pointer_for_device(bool wrong) {
    Bench bench;
    std::vector<char> host(kBytes);
    Copying(wrong ? host.data() : bench.a, bench.b).run(bench.stream);
    aclrtSynchronizeStream(bench.stream);
}

void uninitialised_read(bool wrong) {
    Bench bench;
    void *source = allocate(kBytes, !wrong);
    Copying(source, bench.b).run(bench.stream);
    aclrtSynchronizeStream(bench.stream);
    aclrtFree(source);
}

void overlapping_copy(bool wrong) {
    char *address = static_cast<char *>(allocate(2 * kBytes));
    aclrtMemcpy(address + (wrong ? 64 : kBytes), kBytes, address, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE);
    aclrtFree(address);
}

void copy_exceeds_buffer(bool wrong) {
    std::vector<char> host(2 * kBytes);
    void *address = allocate();
    size_t size = wrong ? 2 * kBytes : kBytes;
    aclrtMemcpy(address, size, host.data(), size, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtFree(address);
}

void wrong_copy_direction(bool wrong) {
    std::vector<char> host(kBytes);
    void *address = allocate();
    aclrtMemcpyKind kind = wrong ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
    aclrtMemcpy(host.data(), kBytes, address, kBytes, kind);
    aclrtFree(address);
}

void unordered_access(bool wrong) {
    Bench bench;
    aclrtStream other = newStream();
    aclrtEvent event = newEvent();
    aclrtMemsetAsync(bench.a, kBytes, 1, kBytes, bench.stream);
    aclrtRecordEvent(event, bench.stream);
    if (!wrong) aclrtStreamWaitEvent(other, event);
    aclrtMemcpyAsync(bench.b, kBytes, bench.a, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, other);
    aclrtSynchronizeDevice();
    aclrtDestroyEvent(event);
    aclrtDestroyStream(other);
}

void read_before_writer(bool wrong) {
    Bench bench;
    std::vector<char> host(kBytes);
    Copying(bench.a, bench.b).run(bench.stream);
    if (!wrong) aclrtSynchronizeStream(bench.stream);
    aclrtMemcpy(host.data(), kBytes, bench.b, kBytes, ACL_MEMCPY_DEVICE_TO_HOST);
}

void event_never_recorded(bool wrong) {
    Bench bench;
    aclrtEvent event = newEvent();
    if (!wrong) aclrtRecordEvent(event, nullptr);
    aclrtStreamWaitEvent(bench.stream, event);
    if (wrong) {
        aclrtSynchronizeStreamWithTimeout(bench.stream, 10);
        aclrtRecordEvent(event, nullptr);  // or the stream would wait for ever
    }
    aclrtSynchronizeDevice();
    aclrtDestroyEvent(event);
}

void stream_destroyed_with_work(bool wrong) {
    Bench bench;
    aclrtStream stream = newStream();
    Copying(bench.a, bench.b).run(stream);
    if (!wrong) aclrtSynchronizeStream(stream);
    aclrtDestroyStream(stream);
}

void thread_without_device_elsewhere(bool wrong, aclrtContext context, const Bench *bench) {
    if (!wrong) aclrtSetCurrentContext(context);
    aclrtMemsetAsync(bench->a, kBytes, 0, kBytes, bench->stream);
}

void thread_without_device(bool wrong) {
    Bench bench;
    aclrtContext context = nullptr;
    aclrtGetCurrentContext(&context);
    std::thread(thread_without_device_elsewhere, wrong, context, &bench).join();
}

void leaked_memory(bool wrong) {
    void *address = allocate();
    if (!wrong) aclrtFree(address);
}

void init_twice(bool wrong) {
    if (wrong) aclInit(nullptr);
}

}  // extern "C"

#define PROGRAM(name) {#name, name}

int main(int argc, char **argv) {
    const std::map<std::string, void (*)(bool)> programs = {
        PROGRAM(double_destroy), PROGRAM(use_after_destroy), PROGRAM(destroyed_list_member), PROGRAM(leaked_list),
        PROGRAM(tensor_destroyed_between_phases), PROGRAM(executor_used_twice), PROGRAM(executor_never_run),
        PROGRAM(freed_in_use), PROGRAM(use_after_free), PROGRAM(double_free), PROGRAM(host_pointer_for_device),
        PROGRAM(uninitialised_read), PROGRAM(overlapping_copy), PROGRAM(copy_exceeds_buffer),
        PROGRAM(wrong_copy_direction), PROGRAM(unordered_access), PROGRAM(read_before_writer),
        PROGRAM(event_never_recorded), PROGRAM(stream_destroyed_with_work), PROGRAM(thread_without_device),
        PROGRAM(leaked_memory), PROGRAM(init_twice)};
    if (argc != 3 || programs.count(argv[1]) == 0) return 2;
    aclInit(nullptr);
    aclrtSetDevice(0);
    programs.at(argv[1])(std::strcmp(argv[2], "wrong") == 0);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
