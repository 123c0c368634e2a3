#include "checker/tasks.hpp"

#include <algorithm>
#include <utility>

#include "checker/conflicts.hpp"
#include "checker/unrecorded_waits.hpp"
#include "checker/world.hpp"

namespace sim::checker {
namespace {

thread_local std::shared_ptr<Task> running;

Access accessOf(const Task &task, const Use &use) {
    return {use.where.movedBy(use.memory->offsetOf(use.address)), use.writes, use.workspace, task.epoch, task.actor,
            use.name, use.tensor};
}

// Memory that was freed meanwhile was reported then.
bool isWatched(const Use &use) { return use.memory && !use.memory->gone; }

void markWritten(const Task &task, const Use &use) {
    Access access = accessOf(task, use);
    if (use.copyOf < 0) return use.memory->written.add(access.where);
    const Use &source = task.uses[static_cast<size_t>(use.copyOf)];
    if (!source.memory || source.memory->device == kHostMemory) return use.memory->written.add(access.where);
    copyState(source, use);
}

}  // namespace

Lane::~Lane() {
    std::lock_guard lock(world().mutex);
    world().discharge(*this);
}

Actor currentActor() {
    if (running) return *running->actor;
    return {captureOrigin(), 0, true};
}

std::shared_ptr<Task> prepare(Lane &lane, const Origin &origin, TaskNote note) {
    auto task = std::make_shared<Task>();
    Actor actor{origin, 0, false};
    task->lane = &lane;
    task->kind = note.kind;
    task->uses = std::move(note.uses);
    Findings findings;
    {
        std::lock_guard lock(world().mutex);
        world().refresh();
        world().enlist(lane);
        task->generation = world().generation();
        actor.number = world().nextNumber();
        task->actor = std::make_shared<const Actor>(actor);
        for (Use &use : task->uses) resolve(use, *task->actor, &lane, findings);
    }
    reportAll(findings);
    return task;
}

void queued(Task &task) {
    std::lock_guard lock(world().mutex);
    world().refresh();
    if (task.generation != world().generation()) return;
    Lane &lane = *task.lane;
    task.epoch = {lane.place, ++lane.queued};
    task.host = world().host();
    if (task.kind == TaskKind::Work || task.kind == TaskKind::HostCode) {
        lane.lastWork = task.epoch;
        lane.lastWorker = task.actor;
    }
    lane.pending.push_back(task.shared_from_this());
}

void begin(const std::shared_ptr<Task> &task) {
    Findings findings;
    {
        std::lock_guard lock(world().mutex);
        world().refresh();
        if (task->generation != world().generation()) return;
        running = task;
        task->begun = true;
        Lane &lane = *task->lane;
        lane.now.join(*task->host);
        lane.now.advance(task->epoch);
        checkFreedByStream(*task, findings);
        for (const Use &use : task->uses) {
            if (isWatched(use) && !use.sparse && use.reads >= Reads::Some) checkWritten(use, use.where, *task->actor, findings);
        }
        for (const Use &use : task->uses) {
            if (isWatched(use) && !use.sparse) enter(*use.memory, accessOf(*task, use), lane.now, task->toldOf, findings);
        }
    }
    reportAll(findings);
}

void end(const std::shared_ptr<Task> &task) {
    running = nullptr;
    std::lock_guard lock(world().mutex);
    world().refresh();
    if (task->generation != world().generation()) return;
    for (const Use &use : task->uses) {
        if (isWatched(use) && use.writes && !use.sparse && !use.workspace) markWritten(*task, use);
    }
    Lane &lane = *task->lane;
    lane.done = lane.now;
    if (!lane.pending.empty() && lane.pending.front() == task) lane.pending.pop_front();
}

void dropped(const std::shared_ptr<Task> &task) {
    std::lock_guard lock(world().mutex);
    world().refresh();
    if (task->generation != world().generation()) return;
    Lane &lane = *task->lane;
    lane.pending.erase(std::remove(lane.pending.begin(), lane.pending.end(), task), lane.pending.end());
    lane.done.advance(task->epoch);
}

std::shared_ptr<const Clock> knowledge() {
    if (!running) return nullptr;
    std::lock_guard lock(world().mutex);
    return std::make_shared<const Clock>(running->lane->now);
}

std::shared_ptr<const Clock> either(const std::shared_ptr<const Clock> &one, const std::shared_ptr<const Clock> &other) {
    if (!one || !other) return one ? one : other;
    auto joined = std::make_shared<Clock>(*one);
    joined->join(*other);
    return joined;
}

void learn(const std::shared_ptr<const Clock> &clock) {
    if (!running || !clock) return;
    std::lock_guard lock(world().mutex);
    running->lane->now.join(*clock);
}

void learnFromHost() {
    if (!running) return;
    std::lock_guard lock(world().mutex);
    running->lane->now.join(*world().host());
}

void hostLearns(const std::shared_ptr<const Clock> &clock) {
    if (!clock) return;
    std::lock_guard lock(world().mutex);
    world().refresh();
    world().hostLearns(*clock);
}

void hostPasses(Lane &lane) {
    std::lock_guard lock(world().mutex);
    world().refresh();
    world().hostLearns(lane.done);
}

void aborted(Lane &lane) {
    std::lock_guard lock(world().mutex);
    world().refresh();
    if (lane.place == kHost) return;
    lane.done.join(lane.now);
    lane.done.advance({lane.place, lane.queued});
    world().hostLearns(lane.done);
}

HostCode::HostCode() {
    hostLearns(knowledge());
    task_ = std::exchange(running, nullptr);
}

HostCode::~HostCode() {
    running = std::move(task_);
    learnFromHost();
}

void touched(size_t index, const Footprint &where, bool writes) {
    if (!running || where.isEmpty()) return;
    const Use &use = running->uses.at(index);
    if (!use.memory || !use.sparse) return;
    Findings findings;
    {
        std::lock_guard lock(world().mutex);
        world().refresh();
        if (running->generation != world().generation() || !isWatched(use)) return;
        if (!writes) checkWritten(use, where, *running->actor, findings);
        Access access = accessOf(*running, use);
        access.where = where.movedBy(use.memory->offsetOf(use.address));
        access.writes = writes;
        if (writes) {
            use.memory->written.add(access.where);
            use.memory->scattered = true;
        }
        enter(*use.memory, std::move(access), running->lane->now, running->toldOf, findings);
    }
    reportAll(findings);
}

void streamEnds(Lane &lane, const Origin &made) {
    tellUnrecordedWaits(lane.stream);
    const Origin broken = captureOrigin(lane.stream);
    Findings findings;
    {
        std::lock_guard lock(world().mutex);
        world().refresh();
        if (!lane.lastWorker || world().host()->covers(lane.lastWork)) return;
        findings.push_back(workLost(lane, made, broken));
    }
    reportAll(findings);
}

}  // namespace sim::checker
