#include "checker/unrecorded_waits.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sim::checker {
namespace {

struct Waits {
    std::mutex mutex;
    std::vector<UnrecordedWait> all;
};

Waits &waits() {
    static Waits &instance = *new Waits;
    return instance;
}

Finding findingOf(const UnrecordedWait &wait) {
    Finding finding;
    finding.rule = "event-never-recorded";
    finding.what = "stream " + std::to_string(wait.stream) + " waits for " + (wait.kind == Kind::Event ? "an " : "a ") + kindName(wait.kind) + " that has no record";
    finding.object = {kindName(wait.kind), wait.event, ""};
    finding.made = wait.made;
    finding.broken = wait.wait;
    return finding;
}

// Reports the waits that still have no record, and forgets them and those that have one.
template <typename Match>
void tell(Match matches) {
    std::vector<UnrecordedWait> told;
    {
        std::lock_guard lock(waits().mutex);
        std::vector<UnrecordedWait> kept;
        for (UnrecordedWait &wait : waits().all) {
            if (*wait.recorded) continue;
            (matches(wait) ? told : kept).push_back(std::move(wait));
        }
        waits().all = std::move(kept);
    }
    for (const UnrecordedWait &wait : told) report(findingOf(wait));
}

}  // namespace

void keep(UnrecordedWait wait) {
    std::lock_guard lock(waits().mutex);
    waits().all.push_back(std::move(wait));
}

void tellUnrecordedWaits(int32_t stream) {
    tell([stream](const UnrecordedWait &wait) { return wait.stream == stream; });
}

void tellUnrecordedWaits(const void *event) {
    tell([event](const UnrecordedWait &wait) { return wait.event == event; });
}

}  // namespace sim::checker
