// The state that all parts of the order checker share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "checker/tasks.hpp"

namespace sim::checker {

// Findings collected under the lock of the world, and reported after it is released.
using Findings = std::vector<Finding>;
void reportAll(Findings &findings);

class World {
   public:
    std::mutex mutex;  // guards all of it. Nothing else is locked while it is held, but the tables of memory
    Memories memories;

    // Starts anew when strict mode was switched on since the last call: nobody saw what happened in between.
    void refresh();
    uint64_t generation() const { return generation_; }
    uint64_t nextNumber() { return ++number_; }

    // The host's clock, shared by the tasks that are queued until it changes.
    const std::shared_ptr<const Clock> &host() const { return host_; }
    void hostLearns(const Clock &clock);
    // The host does something that tasks may come after.
    Epoch hostActs();

    const std::vector<Lane *> &lanes() const { return lanes_; }
    // Gives the lane a place in clocks, or a new start there.
    void enlist(Lane &lane);
    void discharge(Lane &lane);

    // What every task knows that is queued now or later.
    Clock commonKnowledge() const;

   private:
    struct Place {
        uint32_t number;
        uint64_t time;  // where its last stream stopped
    };

    uint64_t generation_ = 0;
    uint64_t number_ = 0;
    uint64_t hostTime_ = 0;
    std::shared_ptr<const Clock> host_ = std::make_shared<Clock>();
    std::vector<Lane *> lanes_;
    std::vector<Place> freePlaces_;
    uint32_t places_ = 0;  // ever used
};

World &world();

}  // namespace sim::checker
