#include "checker/fault_injection.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "acl/acl_base.h"
#include "core/error.hpp"
#include "runtime/stream.hpp"
#include "runtime/timeouts.hpp"
#include "runtime/waiting.hpp"

namespace sim {

std::atomic<bool> faultsArmed{false};

namespace {

struct Counted {
    CallFault fault;
    uint64_t seen = 0;
};

// The faults of one text.
struct FaultSet {
    int64_t id;
    std::vector<Counted> calls;
    size_t memory;
    std::vector<NumericChoice> numeric;
    std::vector<std::string> struck;
};

// Everything that is in force. Faults are for tests, so one lock around all of it is quick enough.
struct InForce {
    std::mutex mutex;
    int64_t lastId = 0;
    std::vector<FaultSet> sets;
};

InForce &inForce() {
    static InForce &instance = *new InForce;
    return instance;
}

std::atomic<size_t> leastMemory{SIZE_MAX};
std::atomic<bool> numericArmed{false};

// After the sets have changed; the lock is held.
void rearm(const InForce &all) {
    size_t memory = SIZE_MAX;
    bool calls = false, numeric = false;
    for (const FaultSet &set : all.sets) {
        memory = std::min(memory, set.memory);
        calls = calls || !set.calls.empty();
        numeric = numeric || !set.numeric.empty();
    }
    leastMemory.store(memory, std::memory_order_relaxed);
    faultsArmed.store(calls, std::memory_order_relaxed);
    numericArmed.store(numeric, std::memory_order_relaxed);
}

// The first fault that strikes this call, or launch; all that match count it.
std::optional<CallFault> strike(const char *api, bool kernel, uint64_t *number) {
    std::lock_guard lock(inForce().mutex);
    std::optional<CallFault> result;
    for (FaultSet &set : inForce().sets) {
        for (Counted &counted : set.calls) {
            const CallFault &fault = counted.fault;
            if (fault.kernel != kernel || !matches(fault.name, api)) continue;
            uint64_t seen = ++counted.seen;
            if (result || seen < fault.first || seen > fault.last) continue;
            result = fault;
            *number = seen;
            set.struck.push_back(std::string(api) + (kernel ? ", launch " : ", call ") + std::to_string(seen) + ": " +
                                 (fault.hangs ? "hang" : std::to_string(fault.status)));
        }
    }
    return result;
}

// Before the program calls anything.
const bool environmentRead = [] {
    const char *text = std::getenv("CANN_MLA_SIM_FAULTS");
    if (text == nullptr || *text == '\0') return false;
    try {
        injectFaults(text);
    } catch (const std::invalid_argument &error) {
        std::fprintf(stderr, "cann_mla simulator: CANN_MLA_SIM_FAULTS is ignored, all of it: %s\n", error.what());
    }
    return true;
}();

}  // namespace

int64_t injectFaults(const std::string &text) {
    Faults faults = parseFaults(text);
    std::lock_guard lock(inForce().mutex);
    FaultSet set{++inForce().lastId, {}, faults.memory.value_or(SIZE_MAX), std::move(faults.numeric), {}};
    for (CallFault &fault : faults.calls) set.calls.push_back({std::move(fault)});
    inForce().sets.push_back(std::move(set));
    rearm(inForce());
    return inForce().lastId;
}

bool withdrawFaults(int64_t id) {
    std::lock_guard lock(inForce().mutex);
    auto &sets = inForce().sets;
    auto found = std::find_if(sets.begin(), sets.end(), [id](const FaultSet &set) { return set.id == id; });
    if (found == sets.end()) return false;
    sets.erase(found);
    rearm(inForce());
    return true;
}

void withdrawAllFaults() {
    std::lock_guard lock(inForce().mutex);
    inForce().sets.clear();
    rearm(inForce());
}

std::optional<std::vector<std::string>> struckFaults(int64_t id) {
    std::lock_guard lock(inForce().mutex);
    for (const FaultSet &set : inForce().sets) {
        if (set.id == id) return set.struck;
    }
    return std::nullopt;
}

size_t memoryLimit() { return leastMemory.load(std::memory_order_relaxed); }

std::optional<int32_t> injectedStatus(const char *api) {
    uint64_t number = 0;
    auto fault = strike(api, false, &number);
    if (!fault) return std::nullopt;
    return fail(api, fault->status, "injected fault '" + fault->text + "', call " + std::to_string(number));
}

std::optional<KernelStrike> strikeKernel(const char *api) {
    if (!faultsArmed.load(std::memory_order_relaxed)) return std::nullopt;
    uint64_t number = 0;
    auto fault = strike(api, true, &number);
    if (!fault) return std::nullopt;
    return KernelStrike{fault->status, fault->hangs, "injected fault '" + fault->text + "', launch " +
                                                         std::to_string(number)};
}

void KernelStrike::operator()(Stream &stream) const {
    if (!hangs) throw KernelFault(status, text);
    uint64_t limit = timeouts().executeMicroseconds;
    Deadline deadline;
    if (limit > 0) deadline = Clock::now() + std::chrono::microseconds(limit);
    std::unique_lock lock(waitMutex());
    waitOnHost(lock, deadline, [&] { return stream.aborting(); });
    if (!stream.aborting()) {
        throw KernelFault(ACL_ERROR_RT_AICORE_TIMEOUT,
                          text + ": it ran into the timeout of operators, " + std::to_string(limit) + " us");
    }
}

std::vector<NumericChoice> numericFaults(const char *api) {
    if (!numericArmed.load(std::memory_order_relaxed)) return {};
    std::lock_guard lock(inForce().mutex);
    std::vector<NumericChoice> result;
    for (FaultSet &set : inForce().sets) {
        for (const NumericChoice &choice : set.numeric) {
            if (choice.whereIsOperator() && !matches(choice.where, api)) continue;
            result.push_back(choice);
        }
    }
    return result;
}

}  // namespace sim
