#include "checker/suppressions.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <sstream>
#include <vector>

#include "core/settings.hpp"

namespace sim {
namespace {

struct Suppression {
    std::string rule;
    std::string api = "*";
    std::string where = "*";
};

struct Suppressions {
    std::mutex mutex;
    std::vector<Suppression> all;
};

Suppressions &suppressions() {
    static Suppressions &instance = *new Suppressions;
    return instance;
}

bool matches(const std::string &pattern, const std::string &text) {
    return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

bool matches(const Suppression &suppression, const Origin &origin) {
    if (!origin.isKnown() || !matches(suppression.api, origin.api)) return false;
    if (suppression.where == "*") return true;
    const auto frames = textOf(origin.place);
    return std::any_of(frames.begin(), frames.end(),
                       [&](const std::string &frame) { return matches(suppression.where, frame); });
}

// The suppression in a line, without a rule if there is none; `wrong` says what cannot be read.
Suppression parse(const std::string &line, std::string &wrong) {
    Suppression result;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    words >> result.rule;
    while (words >> word) {
        if (word.rfind("api=", 0) == 0) {
            result.api = word.substr(4);
        } else if (word.rfind("where=", 0) == 0) {
            std::string rest;
            std::getline(words, rest);  // a place may hold spaces
            result.where = word.substr(6) + rest;
            result.where.erase(result.where.find_last_not_of(" \t\r") + 1);
        } else {
            wrong = "'" + word + "' is neither api=PATTERN nor where=PATTERN";
        }
    }
    return result;
}

void loadFromEnvironment() {
    static const bool loaded = [] {
        if (settings().suppressions.empty()) return true;
        std::string wrong = loadSuppressions(settings().suppressions);
        if (!wrong.empty()) std::fprintf(stderr, "cann_mla simulator: CANN_MLA_SIM_SUPPRESSIONS: %s\n", wrong.c_str());
        return true;
    }();
    (void)loaded;
}

}  // namespace

bool isSuppressed(const Finding &finding) {
    loadFromEnvironment();
    std::lock_guard lock(suppressions().mutex);
    const auto &all = suppressions().all;
    return std::any_of(all.begin(), all.end(), [&](const Suppression &suppression) {
        return matches(suppression.rule, finding.rule) &&
               (matches(suppression, finding.made) || matches(suppression, finding.broken));
    });
}

std::string loadSuppressions(const std::string &path) {
    std::ifstream file(path);
    if (!file) return "cannot read " + path;
    std::vector<Suppression> found;
    std::string line, wrong;
    for (size_t number = 1; std::getline(file, line); ++number) {
        Suppression suppression = parse(line, wrong);
        if (!wrong.empty()) return path + ":" + std::to_string(number) + ": " + wrong;
        if (!suppression.rule.empty()) found.push_back(std::move(suppression));
    }
    if (file.bad()) return "cannot read " + path;  // a folder
    std::lock_guard lock(suppressions().mutex);
    auto &all = suppressions().all;
    all.insert(all.end(), found.begin(), found.end());
    return "";
}

}  // namespace sim
