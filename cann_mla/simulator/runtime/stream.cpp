#include "runtime/stream.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "acl/acl_base.h"
#include "core/entry.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"
#include "runtime/exception_info.hpp"
#include "runtime/waiting.hpp"

namespace sim {
namespace {

std::atomic<int32_t> nextStreamId{0};

// A process that ends without synchronising: what is queued is dropped, and a running kernel gets time to end before
// the libraries it uses are torn down. A worker that cannot end (a host function without its interpreter) is left.
void quietWorkers() {
    constexpr std::chrono::seconds patience{5};
    std::vector<std::shared_ptr<Stream>> streams;
    forEachHandle([&](Kind kind, void *handle, const Object &) {
        if (kind != Kind::Stream) return;
        if (auto stream = lookupAs<Stream>(handle, kind)) streams.push_back(std::move(stream));
    });
    for (const auto &stream : streams) stream->abort();
    const Deadline deadline = Clock::now() + patience;
    for (const auto &stream : streams) stream->waitIdle(deadline);
}

void quietWorkersAtExit() {
    static const pid_t process = getpid();
    static const int registered = std::atexit([] {
        if (getpid() == process) quietWorkers();  // a forked child has no workers to wait for
    });
    (void)registered;
}

}  // namespace

Deadline deadlineAfter(int32_t milliseconds) {
    if (milliseconds < 0) return std::nullopt;
    return Clock::now() + std::chrono::milliseconds(milliseconds);
}

Stream::Stream(std::weak_ptr<Context> context, int32_t device, uint32_t priority, uint32_t flags)
    : context_(std::move(context)),
      device_(device),
      id_(nextStreamId.fetch_add(1)),
      priority_(priority),
      flags_(flags),
      lane_(id_),
      worker_(&Stream::work, this) {
    quietWorkersAtExit();
}

Stream::~Stream() { shutDown(true); }

void Stream::enqueue(const char *api, std::function<void()> run, checker::TaskNote note) {
    Origin origin = captureOrigin(id_);
    if (!origin.isKnown()) origin.api = api;
    const bool isMark = note.kind == checker::TaskKind::Mark;
    std::shared_ptr<checker::Task> watched;
    if (strict()) watched = checker::prepare(lane_, origin, std::move(note));
    {
        std::lock_guard lock(mutex_);
        if (ending_) return;  // the caller looked the stream up while another thread destroyed it
        ++queued_;
        if (watched) checker::queued(*watched);
        queue_.push_back({api, std::move(run), static_cast<uint32_t>(queued_), isMark, origin, std::move(watched)});
    }
    workToDo_.notify_one();
}

bool Stream::waitIdle(Deadline deadline) {
    std::unique_lock lock(mutex_);
    auto reached = [this, target = queued_] { return done_ >= target; };
    if (!deadline) {
        progress_.wait(lock, reached);
    } else if (!progress_.wait_until(lock, *deadline, reached)) {
        return false;
    }
    if (strict()) checker::hostPasses(lane_);
    return true;
}

bool Stream::isIdle() {
    std::lock_guard lock(mutex_);
    bool idle = done_ == queued_;
    if (idle && strict()) checker::hostPasses(lane_);
    return idle;
}

std::optional<Fault> Stream::takeFault() {
    std::lock_guard lock(mutex_);
    return std::exchange(fault_, std::nullopt);
}

std::optional<Fault> Stream::peekFault() {
    std::lock_guard lock(mutex_);
    return fault_;
}

void Stream::abort() {
    std::unique_lock lock(mutex_);
    done_ += queue_.size();
    std::deque<Task> dropped;
    dropped.swap(queue_);
    aborting_ = running_;
    lock.unlock();
    for (const Task &task : dropped) {
        if (task.watched) checker::dropped(task.watched);
    }
    if (strict()) checker::aborted(lane_);
    progress_.notify_all();
    wakeWaitingTasks();
}

void Stream::shutDown(bool force) {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    if (force) abort();
    workToDo_.notify_one();
    wakeWaitingTasks();
    if (worker_.joinable()) worker_.join();
    if (strict()) checker::hostPasses(lane_);
}

bool Stream::aborting() {
    std::lock_guard lock(mutex_);
    return aborting_;
}

bool Stream::ending() {
    std::lock_guard lock(mutex_);
    return ending_;
}

void Stream::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        workToDo_.wait(lock, [this] { return ending_ || !queue_.empty(); });
        if (queue_.empty()) return;
        Task task = std::move(queue_.front());
        queue_.pop_front();
        running_ = true;
        lock.unlock();
        auto owner = context();
        bool skip = !task.isMark && owner && owner->failure();
        owner.reset();
        if (task.watched) checker::begin(task.watched);
        if (!skip) runTask(task);
        task.run = nullptr;  // what the task kept alive goes before anybody is told that it is done
        if (task.watched) checker::end(task.watched);
        lock.lock();
        running_ = false;
        aborting_ = false;
        ++done_;
        progress_.notify_all();
    }
}

void Stream::runTask(const Task &task) {
    const TaskCall call(task.origin);
    try {
        task.run();
    } catch (const KernelFault &fault) {
        recordFault(task, fault.status(), fault.what());
    } catch (const std::exception &error) {
        recordFault(task, ACL_ERROR_RT_AICORE_EXCEPTION, error.what());
    }
}

void Stream::recordFault(const Task &task, int32_t status, const std::string &text) {
    Fault fault{status, std::string(task.api) + " failed on the device: " + text, task.number};
    if (auto owner = context()) owner->fail(fault);
    {
        std::lock_guard lock(mutex_);
        // As in CANN, a later fault gives the status, and all that nobody was told of are in the text.
        constexpr size_t longText = 4096;
        if (fault_ && fault_->text.size() < longText) fault.text = fault_->text + "\n" + fault.text;
        fault_ = std::move(fault);
    }
    tellExceptionCallbacks(task.number, static_cast<uint32_t>(id_), static_cast<uint32_t>(device_), status);
}

}  // namespace sim
