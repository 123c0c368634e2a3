// Findings as JSON, for machines.
#pragma once

#include <string>

#include "checker/findings.hpp"

namespace sim {

// One finding as an object with the keys rule, group, what, object, made, broken, first_failure, rule_text, fix, count
// and advice.
std::string jsonOf(const KeptFinding &kept);

// Writes all findings to the file that CANN_MLA_SIM_REPORT names ("%p" in it is the process id), if it is set. While
// there are few findings, each new one is written at once: a program that breaks rules may well crash.
void writeReport();
void writeReportNow();

}  // namespace sim
