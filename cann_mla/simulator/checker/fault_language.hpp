// The language in which faults are asked for, by CANN_MLA_SIM_FAULTS, cannMlaSimInject and cann_mla.simulator.inject:
//
//     aclrtMalloc#3=207001                     the third call returns 207001
//     aclCreate*#2+=500000                     so do all calls but the first; functions that make handles return null
//     kernel:aclnnRmsNorm#1=507015             the kernel of the first launch faults; a synchronisation tells of it
//     kernel:*#4=hang                          the kernel of the fourth launch of any operator never ends
//     memory=1G                                each device has 1 GiB
//     numeric:scale_dropped@aclnnMm            kernels compute wrongly (checker/numeric_faults.hpp)
//
// Several are separated by ";". Names may hold "*", which stands for any characters. "#3" is the third call or launch,
// "#3+" that and all later ones, "#3-5" the third to the fifth; without, all. Counting starts when the faults are set,
// over everything that the name matches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sim __attribute__((visibility("default"))) {

// A call that fails, or a launch whose kernel does.
struct CallFault {
    std::string text;  // as it was written
    bool kernel = false;
    std::string name;
    uint64_t first = 1, last = UINT64_MAX;
    int32_t status = 0;
    bool hangs = false;
};

enum class NumericFault : uint8_t { MaskPast512, UniformWithoutMask, NzAsNd, ScaleDropped, LastBlockUnwritten };

struct NumericChoice {
    std::string text;
    NumericFault fault;
    std::string where;  // an operator, or an operand; empty: anywhere
    bool whereIsOperator() const;
};

struct Faults {
    std::vector<CallFault> calls;
    std::optional<size_t> memory;
    std::vector<NumericChoice> numeric;
};

// Throws std::invalid_argument with what is wrong and what is allowed.
Faults parseFaults(const std::string &text);

// Whether a name, which may hold "*", stands for another.
bool matches(const std::string &pattern, const char *name);

}  // namespace sim
