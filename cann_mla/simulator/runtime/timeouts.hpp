// The timeouts that programs set for operators and waits. 0: none.
#pragma once

#include <atomic>
#include <cstdint>

namespace sim {

struct Timeouts {
    std::atomic<uint32_t> waitSeconds{0};
    std::atomic<uint64_t> executeMicroseconds{0};  // stored for its getter: simulated kernels are never cut short
};

Timeouts &timeouts();

}  // namespace sim
