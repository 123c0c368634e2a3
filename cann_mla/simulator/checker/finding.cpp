#include "checker/finding.hpp"

#include <cstdio>
#include <deque>
#include <mutex>

#include "checker/rules.hpp"
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

std::string textOf(const Finding &finding) {
    std::string text = finding.what;
    if (!finding.object.kind.empty()) text += ": " + finding.object.kind + " " + finding.object.text;
    return text + " [" + finding.rule + "]";
}

}  // namespace

void report(Finding finding) {
    const Rule rule = ruleOf(finding.rule);
    if (!finding.broken.isKnown()) finding.broken = captureOrigin();
    if (finding.ruleText.empty()) finding.ruleText = rule.text;
    if (finding.fix.empty()) finding.fix = rule.fix;
    Findings &all = findings();
    std::lock_guard lock(all.mutex);
    ++all.count;
    if (all.texts.size() < kKept) all.texts.push_back(textOf(finding));
    if (strict()) std::fprintf(stderr, "cann_mla simulator: %s\n", all.texts.back().c_str());
}

void report(const char *rule, std::string what, std::string fix) {
    report(Finding{rule, std::move(what), {}, {}, {}, {}, std::move(fix)});
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
