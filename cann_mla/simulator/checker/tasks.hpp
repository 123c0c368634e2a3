// Every queued task with what came before it: the order of a program, in which conflicts are looked for.
//
// Clocks move where tasks run, because only there it is known which record ended a wait. What they show does not depend
// on time: a task knows what its stream did before it, what the host knew when it queued the task, and what those
// records knew that its stream waited for. All of this is for strict mode.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "checker/clocks.hpp"
#include "checker/finding.hpp"
#include "checker/memory.hpp"
#include "checker/uses.hpp"

namespace sim::checker {

struct Task;

// What the checker knows of one stream. Guarded by the mutex of the world.
struct Lane {
    explicit Lane(int32_t id) : stream(id) {}
    ~Lane();
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;

    const int32_t stream;  // its id
    uint32_t place = kHost;  // in clocks; kHost while it has none
    uint64_t queued = 0;     // tasks; goes on where the last stream at this place stopped
    Clock now;               // what the running task knows
    Clock done;              // what the last task knew that ended
    Epoch lastWork;          // the last task that is more than a mark
    std::shared_ptr<const Actor> lastWorker;
    std::deque<std::shared_ptr<Task>> pending;  // the running task first
};

struct Task : std::enable_shared_from_this<Task> {
    std::shared_ptr<const Actor> actor;
    Lane *lane = nullptr;
    uint64_t generation = 0;
    Epoch epoch;
    TaskKind kind = TaskKind::Work;
    std::shared_ptr<const Clock> host;  // what the host knew when it queued the task
    Uses uses;
    bool begun = false;
    std::vector<uint64_t> toldOf;  // numbers of calls that were reported together with this task already
};

// A task before it stands in its queue: its memory is looked up, and what is wrong with it reported. Holds no locks.
std::shared_ptr<Task> prepare(Lane &lane, const Origin &origin, TaskNote note);
// Gives the task its place. Call in the order of the queue; reports nothing.
void queued(Task &task);
// Around the run of a task, in the worker thread.
void begin(const std::shared_ptr<Task> &task);
void end(const std::shared_ptr<Task> &task);
// The task will never run.
void dropped(const std::shared_ptr<Task> &task);

// In the thread that runs a task: what the task knows; null outside of tasks.
std::shared_ptr<const Clock> knowledge();
// The running task comes after what `clock` knows; null is ignored.
void learn(const std::shared_ptr<const Clock> &clock);
// What any of the two knows; either may be null.
std::shared_ptr<const Clock> either(const std::shared_ptr<const Clock> &one, const std::shared_ptr<const Clock> &other);
// The running task comes after all that the host did.
void learnFromHost();
// The host comes after what `clock` knows; null is ignored.
void hostLearns(const std::shared_ptr<const Clock> &clock);
// The host comes after all that ran on the stream.
void hostPasses(Lane &lane);
// The host has aborted the stream: the device has stopped what ran, however long the simulator goes on with it.
void aborted(Lane &lane);

// The program's own code in the middle of a task: the host knows what the task knows, and the task goes on knowing what
// the host does meanwhile.
class HostCode {
   public:
    HostCode();
    ~HostCode();
    HostCode(const HostCode &) = delete;
    HostCode &operator=(const HostCode &) = delete;

   private:
    std::shared_ptr<Task> task_;
};

// The running task has touched these bytes, from the address of the use, of an operand that it declared sparse.
void touched(size_t use, const Footprint &where, bool writes);

// The stream, made by `made`, is about to be destroyed by the call that the thread is in.
void streamEnds(Lane &lane, const Origin &made);

// The call that the thread works for: the one that queued the running task, or the one the thread is in.
Actor currentActor();

}  // namespace sim::checker
