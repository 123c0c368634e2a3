// What a kernel says of the bytes it touches, for operands of which it touches only some: rows of a cache, sequences
// that are shorter than the room they have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "checker/footprint.hpp"

namespace sim::checker {

class Touches {
   public:
    // The kernel finds the operand (the use of that number) at this address.
    void watch(size_t use, const void *address, size_t bytes);
    // Bytes of any watched operand; others are ignored. Any thread of the kernel may call it.
    void add(const void *address, size_t bytes, bool writes);
    // Hands the footprints over to the checker: first what was read, then what was written.
    void tell() const;

   private:
    struct Watched {
        size_t use;
        uintptr_t begin;
        size_t bytes;
        std::vector<Range> read, written;
    };
    std::mutex mutex_;
    std::vector<Watched> operands_;
};

}  // namespace sim::checker
