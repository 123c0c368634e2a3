// The end of the process in strict mode: leaks, the summary, and an exit status that is not 0.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "checker/findings.hpp"
#include "checker/leaks.hpp"
#include "checker/report_file.hpp"
#include "checker/report_text.hpp"
#include "core/settings.hpp"

namespace sim {
namespace {

// The exit status of a program that would have returned 0, but has findings.
constexpr int kFindingsStatus = 99;

void concludeChecks(int status, void *process) {
    const bool forked = getpid() != static_cast<pid_t>(reinterpret_cast<intptr_t>(process));
    if (forked || !strict()) return;
    checker::reportLeaksAtExit();
    writeReport();
    std::fprintf(stderr, "%s\n", summaryLine().c_str());
    if (status != 0 || findingTotals().failing == 0) return;
    // Only here is the status known, and another one is given by exit() alone: glibc goes on with the handlers that are
    // left.
    std::exit(kFindingsStatus);
}

// Registered when the library is loaded, so that it comes after what the program itself does at its end. The library
// is never unloaded (see CMakeLists.txt).
[[gnu::constructor]] void concludeAtExit() {
    on_exit(concludeChecks, reinterpret_cast<void *>(static_cast<intptr_t>(getpid())));
}

}  // namespace
}  // namespace sim
