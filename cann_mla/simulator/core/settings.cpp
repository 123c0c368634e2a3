#include "core/settings.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace sim {
namespace {

constexpr long kMaxDevices = 16;

void complain(const char *name, const char *value, const char *allowed) {
    std::fprintf(stderr, "cann_mla simulator: %s=%s is ignored: give %s\n", name, value, allowed);
}

Settings readEnvironment() {
    Settings result;
    if (const char *soc = std::getenv("CANN_MLA_SIM_SOC"); soc != nullptr && *soc != '\0') result.soc = soc;
    if (const char *devices = std::getenv("CANN_MLA_SIM_DEVICES")) {
        char *end = nullptr;
        long count = std::strtol(devices, &end, 10);
        if (end != devices && *end == '\0' && count >= 1 && count <= kMaxDevices) {
            result.devices = static_cast<int32_t>(count);
        } else {
            complain("CANN_MLA_SIM_DEVICES", devices, "a whole number from 1 to 16");
        }
    }
    if (const char *memory = std::getenv("CANN_MLA_SIM_MEMORY")) {
        size_t bytes = parseBytes(memory);
        if (bytes > 0 && bytes <= size_t{1} << 40) {
            result.memory = bytes;
        } else {
            complain("CANN_MLA_SIM_MEMORY", memory, "bytes a device, at most 1024G, such as 2147483648 or 2G");
        }
    }
    if (const char *report = std::getenv("CANN_MLA_SIM_REPORT")) result.report = report;
    if (const char *suppressions = std::getenv("CANN_MLA_SIM_SUPPRESSIONS")) result.suppressions = suppressions;
    const char *strictText = std::getenv("CANN_MLA_SIM_STRICT");
    result.strict = strictText != nullptr && *strictText != '\0' && std::string(strictText) != "0";
    if (result.strict && std::string(strictText) != "1") {
        std::fprintf(stderr, "cann_mla simulator: CANN_MLA_SIM_STRICT=%s is taken as 1: give 0 or 1\n", strictText);
    }
    return result;
}

std::atomic<uint64_t> generation{1};

std::atomic<bool> &strictFlag() {
    static std::atomic<bool> flag{settings().strict};
    return flag;
}

}  // namespace

size_t parseBytes(const char *text) {
    char *end = nullptr;
    errno = 0;
    unsigned long long count = std::strtoull(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift != 0) ++end;
    bool tooLarge = errno != 0 || count > (~0ULL >> shift);
    return end == text || *end != '\0' || *text == '-' || tooLarge ? 0 : static_cast<size_t>(count) << shift;
}

const Settings &settings() {
    static const Settings &instance = *new Settings(readEnvironment());
    return instance;
}

bool strict() { return strictFlag().load(std::memory_order_relaxed); }
void setStrict(bool on) {
    if (!strictFlag().exchange(on, std::memory_order_relaxed) && on) generation.fetch_add(1, std::memory_order_relaxed);
}
uint64_t strictGeneration() { return generation.load(std::memory_order_relaxed); }

}  // namespace sim
