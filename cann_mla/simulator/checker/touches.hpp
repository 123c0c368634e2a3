// What a kernel says of the bytes it touches, for operands of which it touches only some: rows of a cache, sequences
// that are shorter than the room they have.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "checker/footprint.hpp"

namespace sim::checker {

class Touches {
   public:
    explicit Touches(size_t operands) : of_(operands) {}

    // Bytes of the operand, from its first element. Any thread of the kernel may call it.
    void add(size_t operand, Range bytes, bool writes);
    // Hands each operand's footprints over to the checker: what was read, then what was written.
    void tell() const;

   private:
    struct Ranges {
        std::vector<Range> read, written;
    };
    std::mutex mutex_;
    std::vector<Ranges> of_;
};

}  // namespace sim::checker
