// What the simulator noticed and real hardware would have answered with silence, or with a fault later on.
// A finding never changes a status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/origin.hpp"

namespace sim __attribute__((visibility("default"))) {

// The object that a finding is about.
struct ObjectText {
    std::string kind;  // "aclTensor", "device memory", ...; empty: no object
    const void *handle = nullptr;
    std::string text;  // "[2, 16] BF16", "4096 bytes"
};

struct Finding {
    const char *rule = "";  // an id of checker/rules.cpp
    std::string what;
    ObjectText object = {};
    Origin made = {};    // the call that made the object
    Origin broken = {};  // the call that broke the rule; the current call when not given
    std::string ruleText = {};  // of the rule when empty
    std::string fix = {};       // of the rule when empty
};

// Keeps the finding, which was met `count` times; in strict mode it is printed to stderr when it is new.
void report(Finding finding, size_t count = 1);
// A finding about a call's arguments rather than about an object.
void report(const char *rule, std::string what, std::string fix = "");

size_t findingCount();

}  // namespace sim
