// Programs whose findings are looked at in detail: `reports PROGRAM [ARGUMENT]`. The functions that findings have to name
// have C linkage, so that a backtrace of them reads as their name.
#include <alloca.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

#define NAMED extern "C" __attribute__((noinline, visibility("default")))

NAMED aclTensor *newTensor() {
    const int64_t shape[2] = {2, 16};
    aclTensor *tensor = aclCreateTensor(shape, 2, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, shape, 2, nullptr);
    asm volatile("" ::: "memory");  // no tail call: the frame stays
    return tensor;
}

NAMED void leakOne() {
    newTensor();
    asm volatile("" ::: "memory");
}

NAMED void leakAnother() {
    newTensor();
    asm volatile("" ::: "memory");
}

// Its frame has another size in each call.
NAMED void leakWithRoom(size_t bytes) {
    auto *room = static_cast<volatile char *>(alloca(bytes));
    room[0] = 1;
    newTensor();
    room[bytes - 1] = 1;
}

NAMED void destroyTwice() {
    aclTensor *tensor = newTensor();
    aclDestroyTensor(tensor);
    aclDestroyTensor(tensor);
    asm volatile("" ::: "memory");
}

NAMED void leakInThread() {
    leakOne();
    asm volatile("" ::: "memory");
}

// One helper, called from two functions in turn.
static int twoCallers(const char *) {
    for (volatile int i = 0; i < 100; i = i + 1) {
        leakOne();
        leakAnother();
    }
    return 0;
}

static int variableFrames(const char *) {
    for (volatile size_t bytes = 16; bytes <= 4096; bytes = bytes + 16) leakWithRoom(bytes);
    return 0;
}

static int repeated(const char *) {
    for (volatile int i = 0; i < 5; i = i + 1) destroyTwice();  // not unrolled: one place
    return 0;
}

static int ownStatus(const char *) {
    destroyTwice();
    return 3;
}

static int crash(const char *) {
    destroyTwice();
    std::abort();
}

static int finalised(const char *) {
    aclInit(nullptr);
    leakOne();
    aclFinalize();
    leakAnother();
    return 0;
}

NAMED void leakPinned() {
    void *memory = nullptr;
    aclrtMallocHost(&memory, 1 << 20);
    asm volatile("" ::: "memory");
}

// Freed after aclFinalize has told of it; then the same address leaks again.
static int finalisedTwice(const char *) {
    for (volatile int i = 0; i < 3; i = i + 1) {
        aclInit(nullptr);
        void *memory = nullptr;
        aclrtMallocHost(&memory, 1 << 20);
        aclFinalize();
        aclrtFreeHost(memory);
    }
    leakPinned();
    return 0;
}

static int manyThreads(const char *) {
    for (volatile int i = 0; i < 2; i = i + 1) std::thread(leakInThread).join();
    return 0;
}

static int failedBefore(const char *) {
    void *memory = nullptr;
    aclrtMalloc(&memory, 16, ACL_MEM_MALLOC_HUGE_FIRST);  // without a device
    destroyTwice();
    return 0;
}

// Another library of the process calls aclInit too, which each may do.
static int otherLibrary(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    auto initialise = reinterpret_cast<int (*)()>(dlsym(library, "initialise"));
    const bool expected = aclInit(nullptr) == ACL_SUCCESS && initialise() == ACL_ERROR_REPEAT_INITIALIZE;
    aclFinalize();
    return expected ? 0 : 1;
}

static int clean(const char *) {
    aclInit(nullptr);
    aclDestroyTensor(newTensor());
    aclFinalize();
    return 0;
}

int main(int count, char **arguments) {
    const std::map<std::string, int (*)(const char *)> programs = {
        {"twoCallers", twoCallers},     {"variableFrames", variableFrames}, {"repeated", repeated},
        {"ownStatus", ownStatus},       {"crash", crash},                   {"finalised", finalised},
        {"manyThreads", manyThreads},   {"failedBefore", failedBefore},     {"otherLibrary", otherLibrary},
        {"finalisedTwice", finalisedTwice}, {"clean", clean},
    };
    return programs.at(arguments[1])(count > 2 ? arguments[2] : nullptr);
}
