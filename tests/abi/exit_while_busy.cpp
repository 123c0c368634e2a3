// Ends while a kernel runs and others wait: the running one ends, the rest is dropped, the exit code is the program's.
#include <chrono>
#include <cstdio>
#include <thread>

#include "acl/acl.h"
#include "check.hpp"

static void sayDone(void *) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::puts("one host function ran");
    std::fflush(stdout);
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    for (int i = 0; i < 3; ++i) OK(aclrtLaunchHostFunc(nullptr, sayDone, nullptr));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return 7;
}
