// What the environment asks of the simulator. Read once, at first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sim __attribute__((visibility("default"))) {

struct Settings {
    std::string soc = "Ascend910B";                  // CANN_MLA_SIM_SOC
    int32_t devices = 2;                             // CANN_MLA_SIM_DEVICES, 1..16
    size_t memory = size_t{64} << 30;                // CANN_MLA_SIM_MEMORY, bytes a device; suffixes K, M, G
    bool strict = false;                             // CANN_MLA_SIM_STRICT
    std::string report;                              // CANN_MLA_SIM_REPORT, a path; "%p" is the process id
    std::string suppressions;                        // CANN_MLA_SIM_SUPPRESSIONS, a path
};

const Settings &settings();

// Bytes with an optional K, M or G (powers of 1024); 0 when the text is not such a number.
size_t parseBytes(const char *text);

bool strict();
void setStrict(bool on);
// How often strict mode was switched on so far.
uint64_t strictGeneration();

}  // namespace sim
