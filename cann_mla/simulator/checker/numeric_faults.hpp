// Silent faults of kernels, as users have met them in public, for testing tools that compare results:
//
//     mask_past_512         attention sees every column from 512 on, whatever the mask says
//     uniform_without_mask  attention without a mask weighs all columns alike
//     nz_as_nd              operands in FRACTAL_NZ are read as if they were row-major
//     scale_dropped         the first operand with "scale" in its name counts as ones
//     last_block_unwritten  of each output but caches, the share of the last of 24 cores stays as it was
//
// The first two are up to the kernels of attention, which ask Launch::suffers. The others are played on the operands of
// any operator. A name behind @ confines them to an operator, or to an operand.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checker/fault_language.hpp"
#include "core/executor.hpp"

namespace sim __attribute__((visibility("default"))) {

// Those that one launch suffers.
class NumericFaults {
   public:
    explicit NumericFaults(std::vector<NumericChoice> choices) : choices_(std::move(choices)) {}

    bool any() const { return !choices_.empty(); }
    bool has(NumericFault fault) const;

    // What the kernel reads in place of an input's elements at `address`; nullopt: the elements.
    std::optional<std::vector<uint8_t>> misread(const Operand &operand, const void *address);
    // Remembers the end of an output, and puts it back after the kernel has run.
    void keepTail(const Operand &operand, void *address);
    void restoreTails();

   private:
    bool strikes(NumericFault fault, const Operand &operand) const;

    struct Tail {
        uint8_t *address;
        std::vector<uint8_t> before;
    };
    std::vector<NumericChoice> choices_;
    std::vector<Tail> tails_;
    bool scaleDropped_ = false;
};

}  // namespace sim
