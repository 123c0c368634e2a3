// Which bytes something touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor.hpp"

namespace sim::checker {

struct Range {
    size_t begin = 0;
    size_t end = 0;  // behind the last byte
    bool isEmpty() const { return begin >= end; }
    bool contains(const Range &other) const { return begin <= other.begin && other.end <= end; }
};

// Sorted runs of bytes that do not touch each other. Where there are too many to keep, only the first are: then
// `complete` is false, and what is said about overlaps holds for those runs only.
class __attribute__((visibility("default"))) Footprint {
   public:
    Footprint() = default;
    Footprint(size_t begin, size_t bytes);
    // `height` rows of `width` bytes, `pitch` bytes apart.
    static Footprint rows(size_t begin, size_t width, size_t pitch, size_t height);
    // Any ranges, in any order.
    static Footprint of(std::vector<Range> ranges);

    const std::vector<Range> &runs() const { return runs_; }
    // From the first byte to the last, of runs that were not kept too.
    Range bounds() const { return bounds_; }
    bool isEmpty() const { return bounds_.isEmpty(); }
    bool complete() const { return complete_; }
    Footprint movedBy(size_t distance) const;
    // More runs follow up to byte `end`, which are not kept.
    Footprint cutOffBefore(size_t end) const;

    // The first range that both surely touch.
    std::optional<Range> overlap(const Footprint &other) const;
    // Touches every byte that the other touches.
    bool covers(const Footprint &other) const;

   private:
    std::vector<Range> runs_;
    Range bounds_;
    bool complete_ = true;
};

// The bytes of a tensor's view, from the address of its first element. `dense`: as if the strides were row-major.
Footprint footprintOf(const TensorDesc &desc, bool dense);

}  // namespace sim::checker
