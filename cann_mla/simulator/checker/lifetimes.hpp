// What strict mode says about the lifetimes of handles. The call is the one that the thread is in.
#pragma once

#include <string>

#include "core/executor.hpp"
#include "core/handles.hpp"

namespace sim::checker {

// "aclDestroyTensor (sample.py:12 in main)".
std::string callText(const Origin &origin);

// A handle that was destroyed before is destroyed again, or used. `address` is what the program knows it by, where that
// is not the handle.
__attribute__((visibility("default"))) void tellDeadHandle(const void *handle, Kind kind,
                                                           const void *address = nullptr);

// A member of a list was destroyed on its own; the call destroys the list, or uses it.
void tellDeadMember(const void *list, Kind listKind, size_t index, const void *member, Kind memberKind);

// Phase two runs an executor: its tensors must live.
void checkTensorsLive(const Executor &executor);

// Phase two is given an executor that did its work already.
void tellUsedUp(const aclOpExecutor *executor);

// An address is set for an operand that phase one did not get.
void tellNullOperand(const aclOpExecutor *executor, const std::string &operand);

// aclInit was called though the process is initialised, by the program that did so itself.
void tellRepeatedInit(const Origin &first);

}  // namespace sim::checker
