#include "checker/world.hpp"

#include <algorithm>
#include <utility>

#include "core/settings.hpp"

namespace sim::checker {

World &world() {
    static World &instance = *new World;  // workers may still run while the process ends
    return instance;
}

void reportAll(Findings &findings) {
    if (strict()) {  // what is found of a task that was queued before strict mode was switched off comes too late
        for (Finding &finding : findings) report(std::move(finding));
    }
    findings.clear();
}

void World::refresh() {
    uint64_t now = strictGeneration();
    if (generation_ == now) return;
    generation_ = now;
    memories.clear();
    Clock everything = *host_;
    for (Lane *lane : lanes_) {
        lane->pending.clear();
        lane->lastWorker = nullptr;
        everything.advance({lane->place, lane->queued});
    }
    hostLearns(everything);
}

void World::hostLearns(const Clock &clock) {
    auto joined = std::make_shared<Clock>(*host_);
    joined->join(clock);
    host_ = std::move(joined);
}

Epoch World::hostActs() {
    Epoch epoch{kHost, ++hostTime_};
    auto advanced = std::make_shared<Clock>(*host_);
    advanced->advance(epoch);
    host_ = std::move(advanced);
    return epoch;
}

void World::enlist(Lane &lane) {
    if (lane.place != kHost) return;
    if (freePlaces_.empty()) {
        lane.place = ++places_;
    } else {
        lane.place = freePlaces_.back().number;
        lane.queued = freePlaces_.back().time;
        freePlaces_.pop_back();
    }
    lanes_.push_back(&lane);
}

void World::discharge(Lane &lane) {
    if (lane.place == kHost) return;
    freePlaces_.push_back({lane.place, lane.queued});
    lanes_.erase(std::find(lanes_.begin(), lanes_.end(), &lane));
    lane.place = kHost;
}

Clock World::commonKnowledge() const {
    Clock common = *host_;
    for (const Lane *lane : lanes_) {
        if (lane->pending.empty()) continue;
        Clock oldest = *lane->pending.front()->host;
        oldest.join(lane->now);
        common.meet(oldest);
    }
    return common;
}

}  // namespace sim::checker
