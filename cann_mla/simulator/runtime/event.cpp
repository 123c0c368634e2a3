// Events: marks in one stream that another stream, or the host, waits for.
#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "acl/acl_rt.h"
#include "checker/unrecorded_waits.hpp"
#include "core/entry.hpp"
#include "core/handles.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"
#include "runtime/timeouts.hpp"
#include "runtime/waiting.hpp"

using sim::fail;
using sim::Kind;
using sim::StreamChoice;

namespace {

// One record of an event. All of it is guarded by waitMutex().
struct Record {
    std::atomic<bool> queued{false};
    bool done = false;
    uint64_t time = 0;  // microseconds, when done
    std::shared_ptr<const sim::checker::Clock> knows;  // in strict mode, when done
};

struct Event : sim::Object {
    Event(uint32_t flags, bool extended, uint32_t id) : flags(flags), extended(extended), id(id) {}
    const uint32_t flags;
    const bool extended;  // made by aclrtCreateEventExWithFlag
    const uint32_t id;
    // Guarded by waitMutex(). A wait holds on to the record it waits for, so that later records do not end it.
    std::shared_ptr<Record> latest;  // null: never recorded, or reset since
    std::shared_ptr<Record> next = std::make_shared<Record>();
    std::atomic<int64_t> pendingWaits{0};
};

// Counts a queued wait until its task is over, or dropped.
class PendingWait {
   public:
    explicit PendingWait(std::shared_ptr<Event> event) : event_(std::move(event)) { ++event_->pendingWaits; }
    ~PendingWait() { --event_->pendingWaits; }
    PendingWait(const PendingWait &) = delete;
    PendingWait &operator=(const PendingWait &) = delete;

   private:
    std::shared_ptr<Event> event_;
};

std::atomic<uint32_t> nextEventId{0};

uint64_t nowInMicroseconds() {
    auto now = sim::Clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

aclError create(const char *api, aclrtEvent *event, uint32_t flags, bool extended) {
    if (event == nullptr) return fail(api, ACL_ERROR_INVALID_PARAM, "event is null");
    if (!sim::currentContext()) return fail(api, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    constexpr uint32_t known = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                               ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
    if ((flags & ~known) != 0) {
        return fail(api, ACL_ERROR_RT_PARAM_INVALID, "flag " + std::to_string(flags) + " has unknown bits");
    }
    if ((flags & (ACL_EVENT_IPC | ACL_EVENT_DEVICE_USE_ONLY)) != 0) {
        return fail(api, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "IPC and device-only events are not simulated");
    }
    *event = sim::makeHandle(Kind::Event, std::make_shared<Event>(flags, extended, nextEventId.fetch_add(1)), api);
    return ACL_SUCCESS;
}

struct OpenEvent {
    std::shared_ptr<Event> event;
    aclError status;
};

OpenEvent open(const char *api, aclrtEvent event) {
    if (event == nullptr) return {nullptr, fail(api, ACL_ERROR_INVALID_PARAM, "event is null")};
    auto object = sim::lookupAs<Event>(event, Kind::Event);
    if (object) return {object, ACL_SUCCESS};
    return {nullptr, fail(api, ACL_ERROR_RT_INVALID_HANDLE, sim::badHandle(event, Kind::Event))};
}

// The calls that events of aclrtCreateEventExWithFlag do not take.
aclError refuseExtended(const char *api, const Event &event) {
    if (!event.extended) return ACL_SUCCESS;
    return fail(api, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "events of aclrtCreateEventExWithFlag do not take this call");
}

aclError wait(const char *api, aclrtStream stream, aclrtEvent event, int64_t timeoutMs) {
    auto [object, status] = open(api, event);
    if (!object) return status;
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(api, choice.status, choice.text);
    if (object->extended && (object->flags & ACL_EVENT_SYNC) == 0) {
        return fail(api, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "the event was made by aclrtCreateEventExWithFlag without ACL_EVENT_SYNC, so no stream can wait for it");
    }
    std::lock_guard lock(sim::waitMutex());
    // Such an event holds nothing to wait for before its first record; that is how loops of pipelines begin.
    if (!object->latest && object->extended) return ACL_SUCCESS;
    if (!object->latest && sim::strict()) {
        std::shared_ptr<const std::atomic<bool>> recorded(object->next, &object->next->queued);
        const int32_t id = choice.stream->id();
        sim::checker::keep({id, Kind::Event, event, object->made, sim::captureOrigin(id), std::move(recorded)});
    }
    // An event of aclrtCreateEvent that was not recorded blocks the stream until it is.
    std::shared_ptr<Record> awaited = object->latest ? object->latest : object->next;
    auto pending = std::make_shared<PendingWait>(object);
    sim::Stream *worker = choice.stream.get();
    choice.stream->enqueue(api, [pending, awaited, worker, timeoutMs] {
        std::unique_lock taskLock(sim::waitMutex());
        sim::Deadline deadline;
        if (timeoutMs > 0) deadline = sim::Clock::now() + std::chrono::milliseconds(timeoutMs);
        bool reached = sim::waitInTask(
            taskLock, *worker, deadline, [&] { return awaited->done; }, [&] { return !awaited->queued; }, !sim::strict());
        if (!reached && deadline && sim::Clock::now() >= *deadline) {
            throw sim::KernelFault(ACL_ERROR_RT_WAIT_TIMEOUT,
                                   "no record of the event came within " + std::to_string(timeoutMs) + " ms");
        }
        if (reached) sim::checker::learn(awaited->knows);
    }, {sim::checker::TaskKind::Wait});
    return ACL_SUCCESS;
}

aclError record(const char *api, aclrtEvent event, aclrtStream stream) {
    auto [object, status] = open(api, event);
    if (!object) return status;
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(api, choice.status, choice.text);
    std::lock_guard lock(sim::waitMutex());
    std::shared_ptr<Record> record = std::exchange(object->next, std::make_shared<Record>());
    record->queued = true;
    object->latest = record;
    choice.stream->enqueue(api, [record] {
        {
            std::lock_guard taskLock(sim::waitMutex());
            record->done = true;
            record->time = nowInMicroseconds();
            record->knows = sim::checker::knowledge();
        }
        sim::wakeWaitingTasks();
    }, {sim::checker::TaskKind::Mark});
    return ACL_SUCCESS;
}

aclError synchronize(const char *api, aclrtEvent event, int32_t timeout) {
    auto [object, status] = open(api, event);
    if (!object) return status;
    std::unique_lock lock(sim::waitMutex());
    std::shared_ptr<Record> awaited = object->latest;
    if (!awaited || sim::waitOnHost(lock, sim::deadlineAfter(timeout), [&] { return awaited->done; })) {
        if (awaited) sim::checker::hostLearns(awaited->knows);
        return ACL_SUCCESS;
    }
    return fail(api, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
                "the event's stream has not reached it after " + std::to_string(timeout) + " ms");
}

// The host has seen whether the latest record is done.
void hostSees(const Event &event) {
    if (event.latest && event.latest->done) sim::checker::hostLearns(event.latest->knows);
}

// Fails unless the latest record of the event is complete and timed.
aclError checkTimed(const char *api, const Event &event, const char *name) {
    if (!event.latest) {
        return fail(api, ACL_ERROR_RT_INTERNAL_ERROR, std::string(name) + " was never recorded");
    }
    if (event.extended && (event.flags & ACL_EVENT_TIME_LINE) == 0) {
        return fail(api, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                    std::string(name) + " takes no time: make it with ACL_EVENT_TIME_LINE");
    }
    if (!event.latest->done) {
        return fail(api, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                    std::string(name) + " is not reached yet: synchronise its stream or the event first");
    }
    hostSees(event);
    return ACL_SUCCESS;
}

}  // namespace

aclError aclrtCreateEvent(aclrtEvent *event) {
    SIM_API;
    return create(__func__, event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, false);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag) {
    SIM_API;
    return create(__func__, event, flag, false);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag) {
    SIM_API;
    return create(__func__, event, flag, true);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
    SIM_API;
    auto [object, status] = open(__func__, event);
    if (object && sim::strict()) sim::checker::tellUnrecordedWaits(event);
    if (object) sim::retire(event, Kind::Event, {__func__});
    return status;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    SIM_API;
    return record(__func__, event, stream);
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
    SIM_API;
    if (flag > ACL_EVENT_RECORD_EXTERNAL) return fail(__func__, ACL_ERROR_INVALID_PARAM, "flag must be 0 or 1");
    return record(__func__, event, stream);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
    SIM_API;
    auto [object, status] = open(__func__, event);
    if (!object) return status;
    if (aclError refused = refuseExtended(__func__, *object)) return refused;
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(__func__, choice.status, choice.text);
    std::lock_guard lock(sim::waitMutex());
    object->latest = nullptr;
    return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    SIM_API;
    return wait(__func__, stream, event, int64_t{1000} * sim::timeouts().waitSeconds);
}

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
    SIM_API;
    return wait(__func__, stream, event, timeout);
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag) {
    SIM_API;
    if (flag > ACL_EVENT_WAIT_EXTERNAL) return fail(__func__, ACL_ERROR_INVALID_PARAM, "flag must be 0 or 1");
    return wait(__func__, stream, event, timeout);
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status) {
    SIM_API;
    auto [object, opened] = open(__func__, event);
    if (!object) return opened;
    if (status == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "status is null");
    if (aclError refused = refuseExtended(__func__, *object)) return refused;
    std::lock_guard lock(sim::waitMutex());
    *status = !object->latest || object->latest->done ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    hostSees(*object);
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status) {
    SIM_API;
    auto [object, opened] = open(__func__, event);
    if (!object) return opened;
    if (status == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "status is null");
    std::lock_guard lock(sim::waitMutex());
    // Never recorded: complete for the new kind of event, not ready for the old.
    bool complete = object->latest ? object->latest->done : object->extended;
    *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    hostSees(*object);
    return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status) {
    SIM_API;
    auto [object, opened] = open(__func__, event);
    if (!object) return opened;
    if (status == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "status is null");
    if (aclError refused = refuseExtended(__func__, *object)) return refused;
    std::lock_guard lock(sim::waitMutex());
    *status = object->pendingWaits == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    if (object->pendingWaits == 0) hostSees(*object);
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    SIM_API;
    return synchronize(__func__, event, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
    SIM_API;
    if (timeout < -1) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "timeout is " + std::to_string(timeout) + "; give -1 or more");
    }
    return synchronize(__func__, event, timeout);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    SIM_API;
    if (ms == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "ms is null");
    auto [start, startStatus] = open(__func__, startEvent);
    if (!start) return startStatus;
    auto [end, endStatus] = open(__func__, endEvent);
    if (!end) return endStatus;
    std::lock_guard lock(sim::waitMutex());
    if (aclError status = checkTimed(__func__, *start, "startEvent")) return status;
    if (aclError status = checkTimed(__func__, *end, "endEvent")) return status;
    *ms = static_cast<float>(static_cast<double>(static_cast<int64_t>(end->latest->time - start->latest->time)) / 1e3);
    return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp) {
    SIM_API;
    auto [object, opened] = open(__func__, event);
    if (!object) return opened;
    if (timestamp == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "timestamp is null");
    std::lock_guard lock(sim::waitMutex());
    if (aclError status = checkTimed(__func__, *object, "event")) return status;
    *timestamp = object->latest->time;
    return ACL_SUCCESS;
}

aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId) {
    SIM_API;
    auto [object, opened] = open(__func__, event);
    if (!object) return opened;
    if (eventId == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "eventId is null");
    *eventId = object->id;
    return ACL_SUCCESS;
}
