// How the ranks of a communicator find each other: the root info names a meeting place, where every rank says what it
// listens at, and learns what the others listen at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hccl/hccl_types.h"
#include "hccl/socket.hpp"

namespace sim::hccl {

// HCCL_CONNECT_TIMEOUT and HCCL_EXEC_TIMEOUT. Throws Rejection (HCCL_E_PARA) for what CANN does not take.
struct Timeouts {
    std::chrono::seconds connect;
    std::chrono::milliseconds execute;  // 0: none
};
Timeouts timeoutsOfEnvironment();

// Opens a meeting place, which waits for the ranks in a thread of its own until all have come or time is up.
HcclRootInfo openMeeting(std::chrono::seconds timeout);

// The name that a root info carries. Throws Rejection (HCCL_E_PARA) when openMeeting did not make it.
std::string meetingOf(const HcclRootInfo &rootInfo);

// The names of all ranks' listeners; returns when all have come. Throws Rejection.
std::vector<std::string> meet(const std::string &meeting, uint32_t ranks, uint32_t rank, const std::string &listener,
                              Deadline deadline);

}  // namespace sim::hccl
