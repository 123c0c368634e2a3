#include "checker/accesses.hpp"

#include <algorithm>
#include <utility>

namespace sim::checker {

void AccessHistory::check(const Access &access, const Clock &known,
                          const std::function<void(const Access &, Range)> &conflict) const {
    std::vector<uint64_t> shown;
    for (const Access &other : accesses_) {
        if (!access.writes && !other.writes) continue;
        if (other.epoch.place == access.epoch.place || known.covers(other.epoch)) continue;
        if (std::find(shown.begin(), shown.end(), other.actor->number) != shown.end()) continue;
        std::optional<Range> common = access.where.overlap(other.where);
        if (!common) continue;
        shown.push_back(other.actor->number);
        conflict(other, *common);
    }
}

void AccessHistory::add(Access access, const Clock &known) {
    auto redundant = [&](const Access &old) {
        bool ordered = old.epoch.place == access.epoch.place || known.covers(old.epoch);
        return ordered && (access.writes || !old.writes) && access.where.complete() && access.where.covers(old.where);
    };
    accesses_.erase(std::remove_if(accesses_.begin(), accesses_.end(), redundant), accesses_.end());
    if (accesses_.size() >= kLimit) accesses_.erase(accesses_.begin(), accesses_.begin() + kLimit / 4);
    accesses_.push_back(std::move(access));
}

void AccessHistory::forget(const Clock &known) {
    auto over = [&](const Access &access) { return known.covers(access.epoch); };
    accesses_.erase(std::remove_if(accesses_.begin(), accesses_.end(), over), accesses_.end());
    forgetAt_ = std::max(kForgetAt, 2 * accesses_.size());
}

}  // namespace sim::checker
