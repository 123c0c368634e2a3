#include "checker/report_text.hpp"

#include <cstdio>

namespace sim {
namespace {

std::string objectText(const ObjectText &object) {
    std::string text = object.kind;
    if (object.handle != nullptr) {
        char handle[32];
        std::snprintf(handle, sizeof handle, " %p", object.handle);
        text += handle;
    }
    return object.text.empty() ? text : text + " " + object.text;
}

std::string callLine(const char *label, const Origin &origin) {
    std::string text = std::string("  ") + label + origin.api;
    if (origin.thread != 0) text += ", thread " + std::to_string(origin.thread);
    if (origin.stream >= 0) text += ", stream " + std::to_string(origin.stream);
    text += "\n";
    for (const std::string &frame : textOf(origin.place)) text += "               at " + frame + "\n";
    return text;
}

std::string failureLine(const Failure &failure) {
    std::string text = "  failed first: " + std::string(failure.origin.api) + " returned " +
                       std::to_string(failure.status) + ": " + failure.text + "\n";
    for (const std::string &frame : textOf(failure.origin.place)) text += "               at " + frame + "\n";
    return text;
}

}  // namespace

std::string textOf(const KeptFinding &kept) {
    const Finding &finding = kept.finding;
    std::string text = std::string("cann_mla simulator: ") + finding.rule + ": " + finding.what;
    if (kept.count > 1) text += " (" + std::to_string(kept.count) + " times)";
    text += "\n";
    if (!finding.object.kind.empty()) text += "  object:      " + objectText(finding.object) + "\n";
    if (finding.made.isKnown()) text += callLine("created by:  ", finding.made);
    if (finding.broken.isKnown()) text += callLine("broken by:   ", finding.broken);
    if (!finding.ruleText.empty()) text += "  rule:        " + finding.ruleText + "\n";
    if (!finding.fix.empty()) text += "  fix:         " + finding.fix + "\n";
    if (kept.firstFailure) text += failureLine(*kept.firstFailure);
    return text;
}

std::string summaryLine() {
    const FindingTotals totals = findingTotals();
    std::string text = "cann_mla simulator: " + std::to_string(totals.findings) +
                       (totals.findings == 1 ? " finding" : " findings");
    const char *separator = ": ";
    for (const auto &[rule, count] : totals.occurrences) {
        text += separator + std::to_string(count) + " " + rule;
        separator = ", ";
    }
    if (totals.suppressed > 0) text += "; " + std::to_string(totals.suppressed) + " suppressed";
    return text;
}

}  // namespace sim
