#include "runtime/waiting.hpp"

#include <string>

#include "checker/finding.hpp"

namespace sim {
namespace {

std::condition_variable &condition() {
    static std::condition_variable &instance = *new std::condition_variable;
    return instance;
}

}  // namespace

std::mutex &waitMutex() {
    static std::mutex &instance = *new std::mutex;
    return instance;
}

void wakeWaitingTasks() {
    // The lock makes sure that no wait is between looking at its condition and going to sleep.
    std::lock_guard lock(waitMutex());
    condition().notify_all();
}

bool waitOnHost(std::unique_lock<std::mutex> &lock, Deadline deadline, const std::function<bool()> &ready) {
    if (deadline) return condition().wait_until(lock, *deadline, ready);
    condition().wait(lock, ready);
    return true;
}

bool waitInTask(std::unique_lock<std::mutex> &lock, Stream &stream, Deadline deadline,
                const std::function<bool()> &ready, const std::function<bool()> &hopeless, bool tell) {
    bool givenUp = false;
    bool ended = waitOnHost(lock, deadline, [&] {
        if (ready()) return true;
        givenUp = stream.aborting() || (stream.ending() && hopeless());
        return givenUp;
    });
    if (givenUp && !stream.aborting() && tell) {
        report("event-never-recorded", "stream " + std::to_string(stream.id()) + " was destroyed while it waited for "
               "something that nobody recorded; a device would hang here");
    }
    return ended && !givenUp;
}

}  // namespace sim
