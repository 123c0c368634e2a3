#include "checker/leaks.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "checker/finding.hpp"
#include "core/device_memory.hpp"
#include "core/entry.hpp"
#include "core/executor.hpp"
#include "runtime/host_memory.hpp"

namespace sim::checker {
namespace {

// Which of what lives is to be told.
using Wanted = std::function<bool(uint64_t thing, const Origin &made)>;

// A handle, which has high bits, or the serial number of an allocation. Neither is given out twice.
using Things = std::set<uint64_t>;
uint64_t nameOf(const void *handle) { return reinterpret_cast<uintptr_t>(handle); }

// What was told at aclFinalize is not told again later.
bool isNews(uint64_t thing) {
    static std::mutex &mutex = *new std::mutex;
    static Things &told = *new Things;
    std::lock_guard lock(mutex);
    return told.insert(thing).second;
}

struct Leak {
    Finding finding;
    size_t count = 0;
    size_t bytes = 0;
};

// Leaks of one creating call together, in the order of the first of each.
class Leaks {
   public:
    void add(Finding finding, size_t bytes = 0) {
        Leak &leak = byCall_[{finding.rule, finding.object.kind, finding.made.api, finding.made.place}];
        if (leak.count++ == 0) leak.finding = std::move(finding);
        leak.bytes += bytes;
    }

    // `end` names the moment, where the thread is in no exported function.
    void tell(const char *end) {
        for (auto &[call, leak] : byCall_) {
            std::string what = leak.finding.object.kind + " was not given back by then";
            if (leak.count > 1 && leak.bytes > 0) what += ", " + std::to_string(leak.bytes) + " bytes in all";
            leak.finding.what = leak.finding.what.empty() ? what : leak.finding.what;
            leak.finding.broken = originOf(end);
            report(std::move(leak.finding), leak.count);
        }
    }

   private:
    std::map<std::tuple<std::string, std::string, std::string, const Place *>, Leak> byCall_;
};

const char *destroyerOf(Kind kind) {
    switch (kind) {
        case Kind::Tensor: return "call aclDestroyTensor";
        case Kind::TensorList: return "call aclDestroyTensorList, which destroys the members too";
        case Kind::Scalar: return "call aclDestroyScalar";
        case Kind::ScalarList: return "call aclDestroyScalarList, which destroys the members too";
        case Kind::IntArray: return "call aclDestroyIntArray";
        case Kind::FloatArray: return "call aclDestroyFloatArray";
        case Kind::BoolArray: return "call aclDestroyBoolArray";
        case Kind::Context: return "call aclrtDestroyContext";
        case Kind::Stream: return "call aclrtDestroyStream";
        case Kind::Event: return "call aclrtDestroyEvent";
        case Kind::Notify: return "call aclrtDestroyNotify";
        case Kind::AtbContext: return "call atb::DestroyContext, after the operations were destroyed";
        case Kind::AtbOperation: return "call atb::DestroyOperation";
        case Kind::HcclComm: return "call HcclCommDestroy";
        default: return "";  // of the rule
    }
}

template <typename Members>
bool hasDeadMember(const Members &members, Kind kind) {
    for (const auto *member : members) {
        if (stateOf(member, kind) == State::Dead) return true;
    }
    return false;
}

// The rule that an object broke by living on.
const char *ruleFor(Kind kind, const Object &object) {
    if (kind == Kind::Executor) {
        const auto &executor = static_cast<const Executor &>(object);
        return executor.repeatable ? "repeatable-executor-leaked" : "executor-never-run";
    }
    bool dead = (kind == Kind::TensorList &&
                 hasDeadMember(static_cast<const TensorListObject &>(object).members, Kind::Tensor)) ||
                (kind == Kind::ScalarList &&
                 hasDeadMember(static_cast<const ScalarListObject &>(object).members, Kind::Scalar));
    return dead ? "leaked-list" : "leak";
}

std::string whatFor(const std::string &rule) {
    if (rule == "executor-never-run") return "an executor was made and phase two never called";
    if (rule == "repeatable-executor-leaked") return "a repeatable executor was never destroyed";
    if (rule == "leaked-list") return "the members of a list were destroyed on their own, and the list never";
    return "";
}

// Members go with their list: who destroys that has no more to do.
Things membersOfLists() {
    Things members;
    auto add = [&](const auto &list) {
        for (const auto *member : list.members) members.insert(nameOf(member));
    };
    forEachHandle([&](Kind kind, void *, const Object &object) {
        if (kind == Kind::TensorList) add(static_cast<const TensorListObject &>(object));
        if (kind == Kind::ScalarList) add(static_cast<const ScalarListObject &>(object));
    });
    return members;
}

void reportHandles(const Wanted &wanted, const char *end) {
    Leaks leaks;
    const Things members = membersOfLists();
    forEachHandle([&](Kind kind, void *handle, const Object &object) {
        if (object.implicit || members.count(nameOf(handle)) > 0 || !wanted(nameOf(handle), object.made)) return;
        const char *rule = ruleFor(kind, object);
        const bool plain = std::string(rule) == "leak";
        leaks.add({rule, whatFor(rule), {kindName(kind), handle, object.text()}, object.made, {}, {},
                   plain ? destroyerOf(kind) : ""});
    });
    leaks.tell(end);
}

void reportMemory(const Wanted &wanted, const char *end) {
    Leaks leaks;
    auto add = [&](const char *kind, const auto &memory, const char *fix) {
        if (!wanted(memory.serial, memory.made)) return;
        leaks.add({"leak", "", {kind, memory.address, std::to_string(memory.size) + " bytes"}, memory.made, {}, {}, fix},
                  memory.size);
    };
    for (const AllocationInfo &memory : liveAllocations()) add("device memory", memory, "call aclrtFree");
    for (const PinnedRange &memory : pinnedAllocations()) add("pinned host memory", memory, "call aclrtFreeHost");
    leaks.tell(end);
}

Things everythingLiving() {
    Things all;
    forEachHandle([&](Kind, void *handle, const Object &) { all.insert(nameOf(handle)); });
    for (const AllocationInfo &memory : liveAllocations()) all.insert(memory.serial);
    for (const PinnedRange &memory : pinnedAllocations()) all.insert(memory.serial);
    return all;
}

struct Marks {
    std::mutex mutex;
    uint64_t last = 0;
    std::map<uint64_t, Things> living;
};

Marks &marks() {
    static Marks &instance = *new Marks;
    return instance;
}

}  // namespace

void reportLeakedHandles() {
    reportHandles([](uint64_t handle, const Origin &) { return isNews(handle); }, "aclFinalize");
}

void reportLeakedMemory() {
    reportMemory([](uint64_t serial, const Origin &) { return isNews(serial); }, "aclFinalize");
}

void reportLeaksAtExit() {
    auto wanted = [](uint64_t thing, const Origin &made) { return !made.ofPackage && isNews(thing); };
    reportHandles(wanted, "the end of the process");
    reportMemory(wanted, "the end of the process");
}

uint64_t markLiving() {
    Things living = everythingLiving();
    std::lock_guard lock(marks().mutex);
    marks().living[++marks().last] = std::move(living);
    return marks().last;
}

bool reportLeaksSince(uint64_t mark) {
    Things before;
    {
        std::lock_guard lock(marks().mutex);
        auto found = marks().living.find(mark);
        if (found == marks().living.end()) return false;
        before = std::move(found->second);
        marks().living.erase(found);
    }
    auto wanted = [&](uint64_t thing, const Origin &) { return before.count(thing) == 0; };
    reportHandles(wanted, "the end of the watch");
    reportMemory(wanted, "the end of the watch");
    return true;
}

}  // namespace sim::checker
