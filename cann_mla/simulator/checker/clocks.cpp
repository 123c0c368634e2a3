#include "checker/clocks.hpp"

#include <algorithm>

namespace sim::checker {

void Clock::advance(Epoch epoch) {
    if (epoch.place >= times_.size()) times_.resize(epoch.place + size_t{1});
    times_[epoch.place] = std::max(times_[epoch.place], epoch.time);
}

void Clock::join(const Clock &other) {
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
    for (size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
}

void Clock::meet(const Clock &other) {
    if (times_.size() > other.times_.size()) times_.resize(other.times_.size());
    for (size_t i = 0; i < times_.size(); ++i) times_[i] = std::min(times_[i], other.times_[i]);
}

}  // namespace sim::checker
