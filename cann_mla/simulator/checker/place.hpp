// Places in the caller's code: found when a call is remembered, put into words when a finding shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/origin.hpp"
#include "sim/cann_mla_sim.h"

namespace sim {

// Words that name the frames of a call, innermost first: return addresses, or texts of a locator.
struct Place {
    std::vector<uintptr_t> words;
    bool named;  // texts of a locator
};

// The place that called the function which will return to `returnAddress`; null when it cannot be told.
// `insidePackage` says whether the locator found the call to be one of its own package.
struct Located {
    const Place *place = nullptr;
    bool insidePackage = false;
};
Located locate(const void *returnAddress);

void setLocator(cannMlaSimLocator locator);

}  // namespace sim
