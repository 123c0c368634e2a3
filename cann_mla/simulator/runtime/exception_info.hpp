// The callbacks that a program registers to hear of device faults.
#pragma once

#include <cstdint>

namespace sim {

// Calls every registered callback in the calling (worker) thread.
void tellExceptionCallbacks(uint32_t task, uint32_t stream, uint32_t device, int32_t status);

}  // namespace sim
