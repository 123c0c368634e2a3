#include "checker/touches.hpp"

#include <algorithm>

#include "checker/tasks.hpp"

namespace sim::checker {

void Touches::watch(size_t use, const void *address, size_t bytes) {
    operands_.push_back({use, reinterpret_cast<uintptr_t>(address), bytes, {}, {}});
}

void Touches::add(const void *address, size_t bytes, bool writes) {
    if (bytes == 0) return;
    const auto at = reinterpret_cast<uintptr_t>(address);
    auto found = std::find_if(operands_.begin(), operands_.end(),
                              [at](const Watched &operand) { return at - operand.begin < operand.bytes; });
    if (found == operands_.end()) return;
    const Range range{at - found->begin, at - found->begin + bytes};
    std::lock_guard lock(mutex_);
    std::vector<Range> &ranges = writes ? found->written : found->read;
    // Kernels mostly go forwards, row by row.
    if (!ranges.empty() && ranges.back().end == range.begin) {
        ranges.back().end = range.end;
    } else {
        ranges.push_back(range);
    }
}

void Touches::tell() const {
    for (const Watched &operand : operands_) touched(operand.use, Footprint::of(operand.read), false);
    for (const Watched &operand : operands_) touched(operand.use, Footprint::of(operand.written), true);
}

}  // namespace sim::checker
