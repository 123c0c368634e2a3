#include "checker/report_file.hpp"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <mutex>

#include "checker/rules.hpp"
#include "core/settings.hpp"

namespace sim {
namespace {

std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (unsigned char c : text) {
        char escaped[8];
        if (c == '"' || c == '\\') {
            result += '\\';
            result += static_cast<char>(c);
        } else if (c < 0x20) {
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            result += escaped;
        } else {
            result += static_cast<char>(c);
        }
    }
    return result + "\"";
}

std::string framesJson(const Place *place) {
    std::string text = "[";
    for (const std::string &frame : textOf(place)) text += (text.size() == 1 ? "" : ", ") + quoted(frame);
    return text + "]";
}

std::string originJson(const Origin &origin) {
    if (!origin.isKnown()) return "null";
    return "{\"api\": " + quoted(origin.api) + ", \"thread\": " + std::to_string(origin.thread) +
           ", \"stream\": " + (origin.stream < 0 ? "null" : std::to_string(origin.stream)) +
           ", \"where\": " + framesJson(origin.place) + "}";
}

std::string objectJson(const ObjectText &object) {
    if (object.kind.empty()) return "null";
    char handle[32];
    std::snprintf(handle, sizeof handle, "\"%p\"", object.handle);
    return "{\"kind\": " + quoted(object.kind) + ", \"handle\": " + (object.handle == nullptr ? "null" : handle) +
           ", \"text\": " + quoted(object.text) + "}";
}

std::string failureJson(const std::optional<Failure> &failure) {
    if (!failure) return "null";
    return "{\"api\": " + quoted(failure->origin.api) + ", \"status\": " + std::to_string(failure->status) +
           ", \"text\": " + quoted(failure->text) + ", \"where\": " + framesJson(failure->origin.place) + "}";
}

std::string reportPath() {
    std::string path = settings().report;
    if (size_t at = path.find("%p"); at != std::string::npos) path.replace(at, 2, std::to_string(getpid()));
    return path;
}

}  // namespace

std::string jsonOf(const KeptFinding &kept) {
    const Finding &finding = kept.finding;
    const Rule rule = ruleOf(finding.rule);
    return "{\"rule\": " + quoted(finding.rule) + ", \"group\": " + quoted(rule.group) +
           ", \"what\": " + quoted(finding.what) + ",\n \"object\": " + objectJson(finding.object) +
           ",\n \"made\": " + originJson(finding.made) + ",\n \"broken\": " + originJson(finding.broken) +
           ",\n \"first_failure\": " + failureJson(kept.firstFailure) +
           ",\n \"rule_text\": " + quoted(finding.ruleText) + ", \"fix\": " + quoted(finding.fix) +
           ", \"count\": " + std::to_string(kept.count) + ", \"advice\": " + (rule.advice ? "true" : "false") + "}";
}

void writeReport() {
    if (settings().report.empty()) return;
    static std::mutex &mutex = *new std::mutex;
    std::lock_guard lock(mutex);
    std::ofstream file(reportPath());
    const FindingTotals totals = findingTotals();
    file << "{\"suppressed\": " << totals.suppressed << ", \"findings\": [";
    for (size_t i = 0;; ++i) {
        auto kept = findingAt(i);
        if (!kept) break;
        file << (i == 0 ? "\n" : ",\n") << jsonOf(*kept);
    }
    file << "\n]}\n";
    file.flush();
    if (!file) std::fprintf(stderr, "cann_mla simulator: cannot write the report to %s\n", reportPath().c_str());
}

void writeReportNow() {
    constexpr size_t few = 50;
    if (findingTotals().findings <= few) writeReport();
}

}  // namespace sim
