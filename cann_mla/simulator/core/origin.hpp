// Where a call came from: remembered for what it makes and what it ends, and shown in findings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sim __attribute__((visibility("default"))) {

// The places in the caller's code that lead to a call, innermost first. Each is kept once and for ever.
struct Place;

struct Origin {
    const char *api = "";  // the C function; "" when unknown
    uint32_t thread = 0;   // threadNumber() of the caller
    int32_t stream = -1;   // id of the stream that the call is about; -1: none
    const Place *place = nullptr;  // only in strict mode
    bool ofPackage = false;        // a call by the Python package rather than by its user; only in strict mode

    bool isKnown() const { return *api != '\0'; }
};

// The call that this thread is in. The place is looked for in strict mode only, once a call.
Origin captureOrigin();
// The same, for a call that is about a stream.
Origin captureOrigin(int32_t stream);
// The same, under the name `api` where the thread is in no exported function (a default stream made on the way).
Origin originOf(const char *api);

// "module.py:12 in load" or "sample.cpp: main+0x1a"; empty when unknown.
std::vector<std::string> textOf(const Place *place);

}  // namespace sim
