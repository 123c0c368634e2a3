// What was found so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checker/finding.hpp"

namespace sim {

// A call that failed.
struct Failure {
    Origin origin;
    int32_t status;
    std::string text;
};

struct KeptFinding {
    Finding finding;
    size_t count;
    std::optional<Failure> firstFailure;  // of the process or watch, before the finding
};

struct FindingTotals {
    size_t findings = 0;     // each mistake once
    std::map<std::string, size_t> occurrences;  // by rule
    size_t failing = 0;      // occurrences that are more than advice
    size_t suppressed = 0;
};

// All of these speak of the watch that began last, or of the process.
FindingTotals findingTotals();
std::optional<KeptFinding> findingAt(size_t index);
void clearFindings();

// Until the watch ends, findings are kept apart: they are not printed and do not count for the process.
void beginWatch();
void endWatch();

// Remembers the first failing call of the process, or of the watch, in strict mode. What only asks whether there is a
// context or whether aclInit was called is no failure.
void noteFailure(const char *api, int32_t status, const std::string &text);

}  // namespace sim
