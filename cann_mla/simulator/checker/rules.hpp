// The rules that a program can break.
#pragma once

namespace sim __attribute__((visibility("default"))) {

struct Rule {
    const char *id;     // stable: suppressions and tools go by it
    const char *group;  // "lifetime", "memory", "order", "process" or "semantic"
    const char *text;   // what CANN demands
    const char *fix;    // what to do, when the finding does not say better
    bool advice = false;  // legal, though hardly meant: does not fail the program
};

// A rule that nobody listed has the group "semantic" and no text.
Rule ruleOf(const char *id);

}  // namespace sim
