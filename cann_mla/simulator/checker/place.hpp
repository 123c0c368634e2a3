// Places in the caller's code: found when a call is remembered, put into words when a finding shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/entry.hpp"
#include "sim/cann_mla_sim.h"

namespace sim {

// Words that name the frames of a call, innermost first: return addresses, or texts of a locator.
struct Place {
    std::vector<uintptr_t> words;
    bool named;  // texts of a locator
};

// `insidePackage` says whether the locator found the call to be one of its own package.
struct Located {
    const Place *place = nullptr;
    bool insidePackage = false;
};
// The place that called an exported function.
Located locate(const Caller &caller);

void setLocator(cannMlaSimLocator locator);

}  // namespace sim
