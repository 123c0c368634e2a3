#include "core/findings.hpp"

#include <cstdio>
#include <deque>
#include <mutex>

#include "core/settings.hpp"

namespace sim {
namespace {

constexpr size_t kKept = 1000;

struct Findings {
    std::mutex mutex;
    std::deque<std::string> texts;  // a deque: references stay valid
    size_t count = 0;
};

Findings &findings() {
    static Findings &instance = *new Findings;
    return instance;
}

}  // namespace

void report(const std::string &text) {
    Findings &all = findings();
    std::lock_guard lock(all.mutex);
    ++all.count;
    if (all.texts.size() < kKept) all.texts.push_back(text);
    if (strict()) std::fprintf(stderr, "cann_mla simulator: %s\n", text.c_str());
}

size_t findingCount() {
    std::lock_guard lock(findings().mutex);
    return findings().count;
}

const char *findingText(size_t index) {
    std::lock_guard lock(findings().mutex);
    return index < findings().texts.size() ? findings().texts[index].c_str() : nullptr;
}

}  // namespace sim
