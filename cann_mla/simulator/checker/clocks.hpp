// Who came after whom. The host and every stream have a place in a clock; a place counts what was done there.
//
// All threads of the program are one host: they synchronise with each other by means that the simulator cannot see.
#pragma once

#include <cstdint>
#include <vector>

namespace sim::checker {

constexpr uint32_t kHost = 0;  // the place of the host; streams have the others

// One thing done at one place.
struct Epoch {
    uint32_t place = kHost;
    uint64_t time = 0;
};

// What is known to be over: everything at a place up to the time that the clock shows for it.
class Clock {
   public:
    uint64_t at(uint32_t place) const { return place < times_.size() ? times_[place] : 0; }
    bool covers(Epoch epoch) const { return at(epoch.place) >= epoch.time; }
    // Never turns a place back.
    void advance(Epoch epoch);
    // Afterwards this knows what either knew.
    void join(const Clock &other);
    // Afterwards this knows only what both knew.
    void meet(const Clock &other);

   private:
    std::vector<uint64_t> times_;
};

}  // namespace sim::checker
