// Findings as text for people: one paragraph each.
#pragma once

#include <string>

#include "checker/findings.hpp"

namespace sim {

std::string textOf(const KeptFinding &kept);

// "cann_mla simulator: 2 findings: 1 double-destroy, 1 leak; 3 suppressed" for what findings.hpp speaks of.
std::string summaryLine();

}  // namespace sim
