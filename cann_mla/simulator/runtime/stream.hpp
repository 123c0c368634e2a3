// A stream: a queue of tasks and the worker thread that runs them in order.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "checker/tasks.hpp"
#include "core/error.hpp"
#include "core/handles.hpp"

namespace sim __attribute__((visibility("default"))) {

class Context;

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>;  // nullopt: wait for ever

// Milliseconds as CANN takes them: negative means for ever.
Deadline deadlineAfter(int32_t milliseconds);

// What went wrong in a task, to be told at the next synchronisation.
struct Fault {
    int32_t status;
    std::string text;  // names the call that queued the task
    uint32_t task;
};

class Stream : public Object {
   public:
    Stream(std::weak_ptr<Context> context, int32_t device, uint32_t priority, uint32_t flags);
    ~Stream() override;

    // `api` names the queueing call in fault texts. Throwing KernelFault from `run` records the fault. `note` is for
    // strict mode.
    void enqueue(const char *api, std::function<void()> run, checker::TaskNote note = {});
    // Waits for everything queued before the call; false when the deadline passed first.
    bool waitIdle(Deadline deadline);
    bool isIdle();
    // The faults since the last call: the status of the latest, the texts of all.
    std::optional<Fault> takeFault();
    std::optional<Fault> peekFault();
    // Drops queued tasks and wakes a task that waits for an event. The stream can be used on.
    void abort();
    // Ends the worker, after the queued tasks or (force) without them.
    void shutDown(bool force);

    // Whether a task that waits should give up, and whether the stream is being destroyed.
    bool aborting();
    bool ending();
    // The caller is a task of this stream (a host function), which must not wait for the stream.
    bool isOwnWorker() const { return worker_.get_id() == std::this_thread::get_id(); }

    std::shared_ptr<Context> context() const { return context_.lock(); }
    int32_t device() const { return device_; }
    int32_t id() const { return id_; }
    uint32_t priority() const { return priority_; }
    uint32_t flags() const { return flags_; }
    checker::Lane &lane() { return lane_; }  // for strict mode

    std::atomic<uint32_t> overflowSwitch{0};  // stored for their getters only
    std::atomic<uint32_t> failureMode{0};

   private:
    struct Task {
        const char *api;
        std::function<void()> run;
        uint32_t number;
        bool isMark;    // of an event: reached even when a failure has stopped the work before it
        Origin origin;  // of the queueing call
        std::shared_ptr<checker::Task> watched;  // null out of strict mode
    };
    void work();
    void runTask(const Task &task);
    void recordFault(const Task &task, int32_t status, const std::string &text);

    const std::weak_ptr<Context> context_;
    const int32_t device_;
    const int32_t id_;
    const uint32_t priority_;
    const uint32_t flags_;
    checker::Lane lane_;

    std::mutex mutex_;
    std::condition_variable workToDo_;
    std::condition_variable progress_;
    std::deque<Task> queue_;
    uint64_t queued_ = 0;  // tasks ever queued
    uint64_t done_ = 0;    // tasks run or dropped
    bool running_ = false;
    bool ending_ = false;
    bool aborting_ = false;
    std::optional<Fault> fault_;
    std::thread worker_;
};

}  // namespace sim
