#include "checker/lifetimes.hpp"

#include <cstring>

#include "checker/finding.hpp"
#include "core/entry.hpp"

namespace sim::checker {
namespace {

ObjectText objectText(const void *handle, Kind kind, const HandleRecord &record) {
    return {kindName(kind), handle, record.text};
}

// Functions that end a handle say so in their name.
bool isDestroying() { return std::strstr(currentApi(), "Destroy") != nullptr; }

// Destroyed as the member of a list.
bool endedWithList(const Ending &ending) { return std::strstr(ending.by, "List") != nullptr; }

std::string endingText(const Ending &ending) {
    if (*ending.by == '\0') return "ended some time before";
    Origin at = ending.at;
    at.api = ending.by;
    return std::string(ending.consumed ? "was used up by " : "was destroyed by ") + callText(at);
}

}  // namespace

std::string callText(const Origin &origin) {
    const std::vector<std::string> frames = textOf(origin.place);
    return frames.empty() ? origin.api : std::string(origin.api) + " (" + frames.front() + ")";
}

void tellDeadHandle(const void *handle, Kind kind, const void *address) {
    const HandleRecord record = recordOf(handle);
    const bool again = isDestroying();
    std::string what = std::string("a dead ") + kindName(kind) + (again ? " is destroyed again: it " : " is used: it ") +
                       endingText(record.ending);
    std::string fix;
    if (record.ending.consumed) fix = "phase two frees the executor; leave it alone afterwards";
    report({again ? "double-destroy" : "use-after-destroy", what, {kindName(kind), address == nullptr ? handle : address, record.text}, record.made, {}, {}, fix});
}

void tellDeadMember(const void *list, Kind listKind, size_t index, const void *member, Kind memberKind) {
    const HandleRecord record = recordOf(member);
    if (endedWithList(record.ending)) {
        const bool again = isDestroying();
        report({again ? "double-destroy" : "use-after-destroy",
                "member " + std::to_string(index) + " of an " + kindName(listKind) +
                    (again ? " is destroyed again: it " : " is used: it ") + endingText(record.ending) +
                    ", with a list that has it too",
                objectText(member, memberKind, record), record.made, {}, {}, "put each member into one list, once"});
        return;
    }
    Origin broken = record.ending.at;
    if (!broken.isKnown()) broken = captureOrigin();
    const HandleRecord ofList = recordOf(list);
    report({"destroyed-list-member",
            "member " + std::to_string(index) + " of an " + kindName(listKind) + " was destroyed on its own; the list, " +
                "made by " + callText(ofList.made) + ", is then " + (isDestroying() ? "destroyed by " : "used by ") +
                callText(captureOrigin()),
            objectText(member, memberKind, record), record.made, broken});
}

void checkTensorsLive(const Executor &executor) {
    const Operand *told = nullptr;
    for (const Operand &operand : executor.operands) {
        if (operand.handle == nullptr || stateOf(operand.handle, Kind::Tensor) != State::Dead) continue;
        const HandleRecord record = recordOf(operand.handle);
        if (operand.inList) {
            // A list that goes takes all of its members along; one that goes alone is told of when the list goes.
            const bool sameList = told != nullptr && told->parameter == operand.parameter;
            if (sameList || !endedWithList(record.ending)) continue;
        }
        told = &operand;
        Origin broken = record.ending.at;
        if (!broken.isKnown()) broken = captureOrigin();
        Origin made = record.made;
        if (!made.isKnown()) made = operand.tensor->made;
        report({"tensor-destroyed-between-phases",
                std::string(operand.name) + " was destroyed before phase two of " + executor.api + ", which needs it; " +
                    "phase two is called by " + callText(captureOrigin()),
                {kindName(Kind::Tensor), operand.handle, operand.tensor->text()}, made, broken});
    }
}

void tellUsedUp(const aclOpExecutor *executor) {
    const HandleRecord record = recordOf(executor);
    report({"executor-used-twice",
            "phase two is given an executor that " + endingText(record.ending) + ", and computes nothing",
            objectText(executor, Kind::Executor, record), record.made});
}

void tellNullOperand(const aclOpExecutor *executor, const std::string &operand) {
    const HandleRecord record = recordOf(executor);
    report({"refresh-of-null-operand", operand + " was null in phase one, so that no address can be set for it",
            objectText(executor, Kind::Executor, record), record.made});
}

void tellRepeatedInit(const Origin &first) {
    report({"init-twice", "aclInit is called though the same program did so before", {"process", nullptr, ""}, first});
}

}  // namespace sim::checker
