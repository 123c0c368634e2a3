// One condition for every task and every host thread that waits for an event, a notify or a callback.
//
// Such waits are rare and short; one process-wide condition keeps their state (who recorded what) consistent.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "runtime/stream.hpp"

namespace sim {

// Guards all state that waits look at.
std::mutex &waitMutex();

// Wakes every wait so that it looks at its condition again.
void wakeWaitingTasks();

// Waits on the host. Call with waitMutex() locked by `lock`; false when the deadline passed first.
bool waitOnHost(std::unique_lock<std::mutex> &lock, Deadline deadline, const std::function<bool()> &ready);

// Waits in a task of a stream. Also ends (false) when the stream is aborted, and when it is being destroyed while
// `hopeless` says that nothing queued anywhere could end the wait: a real device would hang there for ever,
// which is reported unless `tell` is false.
bool waitInTask(std::unique_lock<std::mutex> &lock, Stream &stream, Deadline deadline,
                const std::function<bool()> &ready, const std::function<bool()> &hopeless, bool tell = true);

}  // namespace sim
