#include "checker/touches.hpp"

#include "checker/tasks.hpp"

namespace sim::checker {

void Touches::add(size_t operand, Range bytes, bool writes) {
    if (bytes.isEmpty()) return;
    std::lock_guard lock(mutex_);
    std::vector<Range> &ranges = writes ? of_[operand].written : of_[operand].read;
    // Kernels mostly go forwards, row by row.
    if (!ranges.empty() && ranges.back().end == bytes.begin) {
        ranges.back().end = bytes.end;
    } else {
        ranges.push_back(bytes);
    }
}

void Touches::tell() const {
    for (size_t i = 0; i < of_.size(); ++i) touched(i, Footprint::of(of_[i].read), false);
    for (size_t i = 0; i < of_.size(); ++i) touched(i, Footprint::of(of_[i].written), true);
}

}  // namespace sim::checker
