#include "checker/written.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace sim::checker {

void WrittenBytes::add(Range range) {
    if (everything_ || range.isEmpty()) return;
    auto first = ranges_.upper_bound(range.begin);
    if (first != ranges_.begin() && std::prev(first)->second >= range.begin) --first;
    auto last = first;
    while (last != ranges_.end() && last->first <= range.end) {
        range = {std::min(range.begin, last->first), std::max(range.end, last->second)};
        ++last;
    }
    ranges_.erase(first, last);
    ranges_[range.begin] = range.end;
    if (ranges_.size() <= kLimit) return;
    ranges_.clear();
    everything_ = true;
}

void WrittenBytes::add(const Footprint &where) {
    if (!where.complete()) return add(where.bounds());
    for (const Range &run : where.runs()) add(run);
}

bool WrittenBytes::any(Range range) const {
    if (range.isEmpty()) return false;
    if (everything_) return true;
    auto after = ranges_.lower_bound(range.end);
    return after != ranges_.begin() && std::prev(after)->second > range.begin;
}

std::optional<size_t> WrittenBytes::firstGap(Range range) const {
    if (everything_ || range.isEmpty()) return std::nullopt;
    auto after = ranges_.upper_bound(range.begin);
    if (after == ranges_.begin()) return range.begin;
    size_t end = std::prev(after)->second;
    return end >= range.end ? std::nullopt : std::make_optional(std::max(end, range.begin));
}

std::optional<size_t> WrittenBytes::firstGap(const Footprint &where) const {
    for (const Range &run : where.runs()) {
        if (auto gap = firstGap(run)) return gap;
    }
    return std::nullopt;
}

void WrittenBytes::remove(Range range) {
    if (range.isEmpty()) return;
    auto found = ranges_.upper_bound(range.begin);
    if (found != ranges_.begin() && std::prev(found)->second > range.begin) --found;
    while (found != ranges_.end() && found->first < range.end) {
        auto [begin, end] = *found;
        found = ranges_.erase(found);
        if (begin < range.begin) ranges_[begin] = range.begin;
        if (end > range.end) found = std::next(ranges_.emplace(range.end, end).first);
    }
}

void WrittenBytes::copy(const WrittenBytes &source, Range from, size_t to) {
    std::vector<Range> pieces;  // first all, then change: source may be this
    if (source.everything_) {
        pieces.push_back(from);
    } else {
        auto found = source.ranges_.upper_bound(from.begin);
        if (found != source.ranges_.begin()) --found;
        for (; found != source.ranges_.end() && found->first < from.end; ++found) {
            pieces.push_back({std::max(found->first, from.begin), std::min(found->second, from.end)});
        }
    }
    if (everything_) return;
    remove({to, to + (from.end - from.begin)});
    for (const Range &piece : pieces) {
        if (!piece.isEmpty()) add(Range{to + (piece.begin - from.begin), to + (piece.end - from.begin)});
    }
}

}  // namespace sim::checker
