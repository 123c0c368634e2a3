// Faults that are in force: who is struck by them, and how often they have struck.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checker/fault_language.hpp"
#include "core/entry.hpp"

namespace sim __attribute__((visibility("default"))) {

class Stream;

// Puts faults in force, beside those that are. Returns what withdrawFaults and struckFaults know them by.
// Throws std::invalid_argument as parseFaults does.
int64_t injectFaults(const std::string &text);
bool withdrawFaults(int64_t id);  // false: there are none of that id
void withdrawAllFaults();

// What faults have struck so far: "aclrtMalloc, call 3: 207001". nullopt for an unknown id.
std::optional<std::vector<std::string>> struckFaults(int64_t id);

// The smallest memory that faults leave a device; SIZE_MAX when they say nothing.
size_t memoryLimit();

// What befalls the kernel of a launch instead of its work.
struct KernelStrike {
    int32_t status;
    bool hangs;
    std::string text;

    // In the kernel's place on the stream: throws KernelFault, at once or, hanging, when the timeout of operators is
    // over; returns when the stream is aborted or destroyed.
    void operator()(Stream &stream) const;
};

// Counts a launch of an operator.
std::optional<KernelStrike> strikeKernel(const char *api);

// The numeric faults that a launch of an operator suffers.
std::vector<NumericChoice> numericFaults(const char *api);

}  // namespace sim
