#include "checker/finding.hpp"

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "acl/acl_base.h"
#include "checker/findings.hpp"
#include "checker/report_file.hpp"
#include "checker/report_text.hpp"
#include "checker/rules.hpp"
#include "checker/suppressions.hpp"
#include "core/settings.hpp"

namespace sim {
namespace {

constexpr size_t kKept = 1000;

// What is equal in two findings that are the same mistake, met again: rule, creating call, breaking call, and the kind of
// the object or else what is said.
using Mistake = std::tuple<std::string, std::string, const Place *, std::string, const Place *, std::string>;

// Findings since the process, or a watch, began.
struct Scope {
    std::vector<KeptFinding> kept;    // the first ones
    std::map<Mistake, size_t> known;  // all; with their places in `kept`
    FindingTotals totals;
    std::optional<Failure> firstFailure;
};

struct State {
    std::mutex mutex;
    std::vector<Scope> scopes{1};
};

State &state() {
    static State &instance = *new State;
    return instance;
}

// Null: calls whose places are not known are never taken for the same.
std::optional<Mistake> mistakeIn(const Finding &finding) {
    const Origin &made = finding.made, &broken = finding.broken;
    if (made.place == nullptr && broken.place == nullptr) return std::nullopt;
    const std::string &about = finding.object.kind.empty() ? finding.what : finding.object.kind;
    return Mistake{finding.rule, made.api, made.place, broken.api, broken.place, about};
}

// Failing is one of the answers of such a call.
bool isQuestion(const char *api, int32_t status) {
    const bool asksForContext = std::strcmp(api, "aclrtGetCurrentContext") == 0 || std::strcmp(api, "aclrtGetDevice") == 0;
    return status == ACL_ERROR_REPEAT_INITIALIZE || (status == ACL_ERROR_RT_CONTEXT_NULL && asksForContext);
}

void complete(Finding &finding) {
    const Rule rule = ruleOf(finding.rule);
    if (!finding.broken.isKnown()) finding.broken = captureOrigin();
    if (finding.ruleText.empty()) finding.ruleText = rule.text;
    if (finding.fix.empty()) finding.fix = rule.fix;
}

// Returns what is to be told, if the finding is new.
std::optional<KeptFinding> keep(Finding finding, size_t count) {
    State &all = state();
    std::lock_guard lock(all.mutex);
    Scope &scope = all.scopes.back();
    scope.totals.occurrences[finding.rule] += count;
    if (!ruleOf(finding.rule).advice) scope.totals.failing += count;
    if (auto mistake = mistakeIn(finding)) {
        auto [known, isNew] = scope.known.try_emplace(*mistake, scope.kept.size());
        if (!isNew) {
            if (known->second < kKept) scope.kept[known->second].count += count;
            return std::nullopt;
        }
    }
    ++scope.totals.findings;
    KeptFinding kept{std::move(finding), count, scope.firstFailure};
    if (scope.kept.size() < kKept) scope.kept.push_back(kept);
    if (all.scopes.size() > 1) return std::nullopt;  // whoever watches tells it
    return kept;
}

}  // namespace

void report(Finding finding, size_t count) {
    complete(finding);
    if (isSuppressed(finding)) {
        std::lock_guard lock(state().mutex);
        state().scopes.back().totals.suppressed += count;
        return;
    }
    std::optional<KeptFinding> told = keep(std::move(finding), count);
    if (!told || !strict()) return;
    std::fprintf(stderr, "%s", textOf(*told).c_str());
    writeReportNow();
}

void report(const char *rule, std::string what, std::string fix) {
    report(Finding{rule, std::move(what), {}, {}, {}, {}, std::move(fix)});
}

void noteFailure(const char *api, int32_t status, const std::string &text) {
    if (!strict() || isQuestion(api, status)) return;
    Failure failure{originOf(api), status, text};
    std::lock_guard lock(state().mutex);
    Scope &scope = state().scopes.back();
    if (!scope.firstFailure) scope.firstFailure = std::move(failure);
}

size_t findingCount() { return findingTotals().findings; }

FindingTotals findingTotals() {
    std::lock_guard lock(state().mutex);
    return state().scopes.back().totals;
}

std::optional<KeptFinding> findingAt(size_t index) {
    std::lock_guard lock(state().mutex);
    const auto &kept = state().scopes.back().kept;
    return index < kept.size() ? std::make_optional(kept[index]) : std::nullopt;
}

void clearFindings() {
    std::lock_guard lock(state().mutex);
    state().scopes.back() = {};
}

void beginWatch() {
    std::lock_guard lock(state().mutex);
    state().scopes.emplace_back();
}

void endWatch() {
    std::lock_guard lock(state().mutex);
    if (state().scopes.size() > 1) state().scopes.pop_back();
}

}  // namespace sim
