// What can be wrong between an access and everything else, and how it is told. Call with the world locked.
#pragma once

#include <cstdint>
#include <vector>

#include "checker/world.hpp"

namespace sim::checker {

// Finds the memory of a use. Reports one of freed memory, and one that a stream will have freed by then. `lane` is that
// of the task, null for the host.
void resolve(Use &use, const Actor &actor, const Lane *lane, Findings &findings);

// Reports what a task uses that a stream has freed since the task was queued, where the free did not tell of it.
void checkFreedByStream(const Task &task, Findings &findings);

// Reports what the access conflicts with, but for calls in `toldOf`, and keeps it.
void enter(Memory &memory, Access access, const Clock &known, const std::vector<uint64_t> &toldOf, Findings &findings);

// Reports an access of the host that conflicts with a task that is queued and certainly knows nothing of it.
void checkPending(const Memory &memory, const Access &access, Findings &findings);

// Reports bytes of a use that are read though nobody wrote them. `where` counts from the address of the use.
void checkWritten(const Use &use, const Footprint &where, const Actor &actor, Findings &findings);

// Which bytes of the source were written is now true of the destination.
void copyState(const Use &source, const Use &destination);

// Reports memory that is freed while work may still use it. `known` is the clock of whoever frees it.
void checkFree(const Memory &memory, const Actor &actor, const Clock &known, Findings &findings);

// The stream of the lane is destroyed before its work is known to be over.
Finding workLost(const Lane &lane, const Origin &made, const Origin &broken);

}  // namespace sim::checker
