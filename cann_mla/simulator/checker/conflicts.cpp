#include "checker/conflicts.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "checker/words.hpp"

namespace sim::checker {
namespace {

const char *ruleFor(const Access &earlier, const Access &later) {
    if (earlier.workspace && later.workspace) return "shared-workspace";
    bool hostReads = later.actor->onHost && !later.writes;
    return hostReads ? "read-before-writer" : "unordered-access";
}

Finding conflictBetween(const Memory &memory, const Access &one, const Access &other, Range common) {
    bool swap = one.actor->number < other.actor->number;
    const Access &earlier = swap ? one : other, &later = swap ? other : one;
    Finding finding;
    finding.rule = ruleFor(earlier, later);
    finding.what = nameOf(*later.actor) + (later.writes ? " writes" : " reads") + roleOf(later) + " while " +
                   nameOf(*earlier.actor) + placeOf(*earlier.actor) + ", which " + (earlier.writes ? "writes" : "reads") +
                   " the same memory" + roleOf(earlier) + ", may still be running: nothing orders the two (bytes " +
                   std::to_string(common.begin) + " to " + std::to_string(common.end - 1) + ")";
    const Access &shown = later.tensor ? later : earlier;
    finding.object = textOf(memory, shown.operand, shown.tensor.get());
    finding.made = memory.made;
    finding.broken = later.actor->origin;
    return finding;
}

// The bytes that a queued task touches for sure; of sparse operands nothing is known before it runs.
Footprint sureBytes(const Use &use) {
    return use.sparse ? Footprint() : use.where.movedBy(use.memory->offsetOf(use.address));
}

// A task that may write some of the bytes is queued or running.
bool writerIsQueued(const Memory &memory, const Footprint &where, const Actor &reader) {
    for (const Lane *lane : world().lanes()) {
        for (const auto &task : lane->pending) {
            if (task->actor->number == reader.number) continue;
            for (const Use &use : task->uses) {
                if (use.memory.get() != &memory || !use.writes) continue;
                if (use.sparse || sureBytes(use).overlap(where)) return true;
            }
        }
    }
    return false;
}

// The last access of a place to memory that is freed.
struct User {
    std::shared_ptr<const Actor> actor;
    const char *operand = "";
    bool workspace = false;
    std::shared_ptr<const TensorObject> tensor;
};
using Users = std::map<uint32_t, User>;  // by place

void remember(Users &users, uint32_t place, User user) {
    User &last = users[place];
    if (!last.actor || last.actor->number < user.actor->number) last = std::move(user);
}

bool waits(const Task &task) { return task.kind == TaskKind::Wait || task.kind == TaskKind::HostCode; }

// Whoever frees the memory with `known` on its clock does not know that these are done.
Users usersOf(const Memory &memory, const Actor &freer, const Clock &known) {
    Users users;
    for (const Access &access : memory.accesses.all()) {
        if (known.covers(access.epoch) || access.actor->onHost) continue;
        remember(users, access.epoch.place, {access.actor, access.operand, access.workspace, access.tensor});
    }
    for (const Lane *lane : world().lanes()) {
        for (const auto &task : lane->pending) {
            // What comes after a wait may come after the free of a stream, which is seen when it begins.
            if (memory.freeing && waits(*task)) break;
            if (known.covers(task->epoch)) continue;
            for (const Use &use : task->uses) {
                if (use.memory.get() != &memory) continue;
                task->toldOf.push_back(freer.number);
                remember(users, lane->place, {task->actor, use.name, use.workspace, use.tensor});
            }
        }
    }
    return users;
}

Finding useAfterFree(const Use &use, const Memory &gone, const Actor &actor) {
    Finding finding;
    finding.rule = "use-after-free";
    finding.what = nameOf(actor) + " uses memory" + (*use.name ? std::string(" as ") + use.name : "") + " that " +
                   nameOf(Actor{gone.freed, 0, gone.freed.stream < 0}) + placeOf(Actor{gone.freed}) + " freed before";
    finding.object = textOf(gone, use.name, use.tensor.get());
    finding.made = gone.made;
    finding.broken = actor.origin;
    return finding;
}

}  // namespace

void resolve(Use &use, const Actor &actor, const Lane *lane, Findings &findings) {
    if (use.address == nullptr) return;
    use.memory = world().memories.find(use.address);
    std::shared_ptr<Memory> gone = use.memory ? nullptr : world().memories.findFreed(use.address);
    // Addresses of freed host memory may be the program's again.
    if (gone && gone->device == kHostMemory) gone = nullptr;
    bool byThisStream = use.memory && use.memory->freeing && lane != nullptr && use.memory->freeing->place == lane->place;
    if (byThisStream) gone = use.memory;
    if (!gone) return;
    findings.push_back(useAfterFree(use, *gone, actor));
    use.memory = nullptr;
}

void checkFreedByStream(const Task &task, Findings &findings) {
    for (const Use &use : task.uses) {
        if (!use.memory || !use.memory->gone || !use.memory->freeing) continue;
        if (std::count(task.toldOf.begin(), task.toldOf.end(), use.memory->freer) > 0) continue;
        findings.push_back(useAfterFree(use, *use.memory, *task.actor));
    }
}

void enter(Memory &memory, Access access, const Clock &known, const std::vector<uint64_t> &toldOf, Findings &findings) {
    memory.accesses.check(access, known, [&](const Access &other, Range common) {
        if (std::find(toldOf.begin(), toldOf.end(), other.actor->number) != toldOf.end()) return;
        findings.push_back(conflictBetween(memory, access, other, common));
    });
    if (memory.accesses.isLong()) memory.accesses.forget(world().commonKnowledge());
    memory.accesses.add(std::move(access), known);
}

void checkPending(const Memory &memory, const Access &access, Findings &findings) {
    for (const Lane *lane : world().lanes()) {
        for (const auto &task : lane->pending) {
            // What comes after a wait or a host function may come to know of this call.
            if (waits(*task)) break;
            if (task->begun || task->host->covers(access.epoch)) continue;
            for (const Use &use : task->uses) {
                if (use.memory.get() != &memory || !(use.writes || access.writes)) continue;
                bool covered = use.sparse && access.where.covers(use.where.movedBy(memory.offsetOf(use.address)));
                auto common = covered ? std::make_optional(access.where.bounds()) : sureBytes(use).overlap(access.where);
                if (!common) continue;
                Access theirs{{}, use.writes, use.workspace, task->epoch, task->actor, use.name, use.tensor};
                findings.push_back(conflictBetween(memory, access, theirs, *common));
                task->toldOf.push_back(access.actor->number);
                break;
            }
        }
    }
}

void checkWritten(const Use &use, const Footprint &where, const Actor &actor, Findings &findings) {
    const Memory &memory = *use.memory;
    if (memory.device == kHostMemory) return;
    Footprint bytes = where.movedBy(memory.offsetOf(use.address));
    const bool mayHaveHoles = (memory.scattered && actor.onHost) || use.reads == Reads::Some;
    std::optional<size_t> gap = memory.written.firstGap(bytes);
    if (!gap || (mayHaveHoles && memory.written.any(bytes.bounds())) || writerIsQueued(memory, bytes, actor)) return;
    Finding finding;
    finding.rule = "uninitialised-read";
    finding.what = nameOf(actor) + " reads" + (*use.name ? std::string(" ") + use.name : "") +
                   ", but nobody wrote byte " + std::to_string(*gap) + " of the allocation" +
                   (memory.written.any({0, memory.size}) ? "" : ", nor any other byte of it");
    finding.object = textOf(memory, use.name, use.tensor.get());
    finding.made = memory.made;
    finding.broken = actor.origin;
    findings.push_back(std::move(finding));
}

void copyState(const Use &source, const Use &destination) {
    const size_t from = source.memory->offsetOf(source.address), to = destination.memory->offsetOf(destination.address);
    const auto &read = source.where.runs();
    const auto &written = destination.where.runs();
    if (!source.where.complete() || !destination.where.complete()) {
        return destination.memory->written.add(destination.where.movedBy(to));
    }
    // Both sides hold the same bytes in the same order, in runs that may be cut differently.
    size_t i = 0, j = 0, doneI = 0, doneJ = 0;
    while (i < read.size() && j < written.size()) {
        size_t leftI = read[i].end - read[i].begin - doneI, leftJ = written[j].end - written[j].begin - doneJ;
        size_t piece = std::min(leftI, leftJ), start = from + read[i].begin + doneI;
        destination.memory->written.copy(source.memory->written, {start, start + piece}, to + written[j].begin + doneJ);
        doneI = piece == leftI ? 0 : doneI + piece;
        doneJ = piece == leftJ ? 0 : doneJ + piece;
        i += piece == leftI;
        j += piece == leftJ;
    }
}

void checkFree(const Memory &memory, const Actor &actor, const Clock &known, Findings &findings) {
    const Users users = usersOf(memory, actor, known);
    if (users.empty()) return;
    auto earlier = [](const auto &a, const auto &b) { return a.second.actor->number < b.second.actor->number; };
    const User &user = std::max_element(users.begin(), users.end(), earlier)->second;
    std::string role = *user.operand == '\0' ? "" : std::string(" as ") + user.operand;
    Finding finding;
    finding.rule = "freed-in-use";
    finding.what = std::string(user.workspace ? "the workspace of " : "memory") +
                   (user.workspace ? "" : " that ") + nameOf(*user.actor) + placeOf(*user.actor) +
                   (user.workspace ? " is freed while that may still be running" : " may still be using" + role + " is freed");
    if (users.size() > 1) {
        finding.what += "; work of " + std::to_string(users.size()) + " streams uses it";
    }
    finding.object = textOf(memory, user.operand, user.tensor.get());
    finding.made = memory.made;
    finding.broken = actor.origin;
    finding.fix = "synchronise stream " + std::to_string(user.actor->origin.stream) +
                  " (or wait for an event behind the launch) before the memory is freed" +
                  (user.workspace ? ", or keep the workspace" : "");
    findings.push_back(std::move(finding));
}

Finding workLost(const Lane &lane, const Origin &made, const Origin &broken) {
    Finding finding;
    finding.rule = "stream-destroyed-with-work";
    finding.what = std::string(broken.api) + " destroys stream " + std::to_string(lane.stream) +
                   " while its work may still be running; the last is " + nameOf(*lane.lastWorker) +
                   placeOf(*lane.lastWorker);
    finding.object = {"stream", nullptr, "number " + std::to_string(lane.stream)};
    finding.made = made;
    finding.broken = broken;
    return finding;
}

}  // namespace sim::checker
