// Findings that the program's author knows of and does not want to see.
//
// A file with one suppression a line; # begins a comment. A line holds the rule, and may narrow it to an API and to a
// place, either of the creating or of the breaking call; all are shell patterns:
//
//     leak api=aclCreateTensorList where=*vendor/attention.py:*
//     unordered-access where=*: launchTwice*
//     ignored-operand
#pragma once

#include <string>

#include "checker/finding.hpp"

namespace sim {

bool isSuppressed(const Finding &finding);

// Adds the suppressions of a file; empty, or what is wrong with it. The file that CANN_MLA_SIM_SUPPRESSIONS names is
// read at first use.
std::string loadSuppressions(const std::string &path);

}  // namespace sim
