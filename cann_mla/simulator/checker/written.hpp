// Which bytes of an allocation somebody has written.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "checker/footprint.hpp"

namespace sim::checker {

class WrittenBytes {
   public:
    void add(Range range);
    void add(const Footprint &where);
    // Nothing is known of what happened before: every byte counts as written.
    void addEverything() { everything_ = true; }

    bool isEmpty() const { return !everything_ && ranges_.empty(); }
    bool any(Range range) const;
    // The first byte of the range that nobody wrote.
    std::optional<size_t> firstGap(Range range) const;
    std::optional<size_t> firstGap(const Footprint &where) const;
    // Bytes `to`, `to + 1`, ... become what `from.begin`, `from.begin + 1`, ... of the other allocation are.
    void copy(const WrittenBytes &source, Range from, size_t to);

   private:
    static constexpr size_t kLimit = size_t{1} << 16;  // so many pieces are not worth their memory: all counts as written

    void remove(Range range);

    std::map<size_t, size_t> ranges_;  // begin -> end, never two that touch each other
    bool everything_ = false;
};

}  // namespace sim::checker
