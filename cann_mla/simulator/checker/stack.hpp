// The C stack above a call, cheaply: strict mode looks at it in every call that makes or ends something.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sim {

constexpr size_t kFrames = 4;

// Return addresses, innermost first.
struct Stack {
    std::array<uintptr_t, kFrames> frames{};
    size_t count = 0;
};

// The frames above a function that returns to `returnAddress`, by way of the unwind tables: right, and slow.
Stack unwind(const void *returnAddress);

// The same by what unwind() learned in this thread of the sizes of frames; `frameEnd` is the canonical frame address of
// the function. A guess: a function whose frame has no fixed
// size may lead astray, so take it only if unwind() found the same stack before. Empty where there is nothing to go by.
Stack guess(const void *returnAddress, const void *frameEnd);

}  // namespace sim
