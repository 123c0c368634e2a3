// A small pool of threads shared by all kernels of the process.
#pragma once

#include <cstddef>
#include <functional>

namespace sim::numeric {

// Threads that work on one loop, the caller included: the processors this process may use.
size_t parallelWidth();

// Calls body(i) once for every i in [0, count), on up to parallelWidth() threads; the caller works too, and the call
// returns when all are done. Indices are handed out one by one in rising order, so uneven work balances itself.
// Any thread may call, several at once; a call from inside a body runs on that thread alone. The first exception
// that a body throws stops the hand-out and is rethrown to the caller.
void parallelFor(size_t count, const std::function<void(size_t)> &body);

}  // namespace sim::numeric
