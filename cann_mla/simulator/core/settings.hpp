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
};

const Settings &settings();

bool strict();
void setStrict(bool on);

}  // namespace sim
