// What the simulator noticed and real hardware would not have told. A finding never changes a status.
#pragma once

#include <cstddef>
#include <string>

namespace sim __attribute__((visibility("default"))) {

// Keeps the finding; in strict mode it is printed to stderr at once.
void report(const std::string &text);

size_t findingCount();

// nullptr when there are not so many. The text lives as long as the process.
const char *findingText(size_t index);

}  // namespace sim
