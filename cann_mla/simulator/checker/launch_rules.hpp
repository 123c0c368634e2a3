// What the checker sees in the operands of a launch.
#pragma once

#include <cstdint>
#include <vector>

#include "checker/uses.hpp"
#include "core/executor.hpp"

namespace sim::checker {

// One use for each operand in their order (an empty one for what touches no memory), and one for the workspace. Reports
// addresses that no kernel can work on. For the call that the thread is in, which launches on a stream of `device`.
Uses usesOf(const std::vector<Operand> &operands, const void *workspace, uint64_t workspaceBytes, int32_t device,
            int32_t stream);

// Where the first element of the operand lies.
void *firstElement(const Operand &operand);

// The caller gives less than phase one asked for.
__attribute__((visibility("default"))) void tellSmallWorkspace(const Executor &executor, const void *handle,
                                                               uint64_t given);

// A tensor that is read on the host has its data on the device.
__attribute__((visibility("default"))) void tellDevicePointer(const char *name, const TensorObject &tensor);

// A tensor is made whose view does not lie in its storage, or with a negative stride.
void checkView(const TensorObject &tensor);

}  // namespace sim::checker
