// Notifies: flags that one stream sets and another waits for and clears.
#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <utility>

#include "acl/acl_rt.h"
#include "checker/unrecorded_waits.hpp"
#include "core/entry.hpp"
#include "core/handles.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"
#include "runtime/waiting.hpp"

using sim::fail;
using sim::Kind;
using sim::StreamChoice;

namespace {

// Guarded by waitMutex(), all but what it is.
struct Notify : sim::Object {
    bool set = false;
    int64_t queuedRecords = 0;
    // In strict mode: records that were queued before the wait they serve, and waits that were queued before theirs.
    int64_t sparedRecords = 0;
    std::deque<std::shared_ptr<std::atomic<bool>>> earlyWaits;
    std::shared_ptr<const sim::checker::Clock> knows;  // what set it knew, in strict mode
};

// Each record ends one wait. Waits and records are paired in the order of their calls.
void pairRecord(Notify &notify) {
    if (notify.earlyWaits.empty()) {
        ++notify.sparedRecords;
    } else {
        *notify.earlyWaits.front() = true;
        notify.earlyWaits.pop_front();
    }
}

void pairWait(aclrtNotify handle, Notify &notify, int32_t stream) {
    if (notify.sparedRecords > 0) {
        --notify.sparedRecords;
        return;
    }
    auto recorded = std::make_shared<std::atomic<bool>>(false);
    notify.earlyWaits.push_back(recorded);
    sim::checker::keep({stream, Kind::Notify, handle, notify.made, sim::captureOrigin(stream), recorded});
}

}  // namespace

aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag) {
    SIM_API;
    if (notify == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "notify is null");
    if (flag != ACL_NOTIFY_DEFAULT) {
        return fail(__func__, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "device-only notifies are not simulated");
    }
    if (!sim::currentContext()) return fail(__func__, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    *notify = sim::makeHandle(Kind::Notify, std::make_shared<Notify>(), __func__);
    return ACL_SUCCESS;
}

aclError aclrtDestroyNotify(aclrtNotify notify) {
    SIM_API;
    if (notify == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "notify is null");
    if (sim::strict()) sim::checker::tellUnrecordedWaits(notify);
    if (sim::retire(notify, Kind::Notify, {__func__})) return ACL_SUCCESS;
    return fail(__func__, ACL_ERROR_RT_INVALID_HANDLE, sim::badHandle(notify, Kind::Notify));
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
    SIM_API;
    auto object = sim::lookupAs<Notify>(notify, Kind::Notify);
    if (!object) return fail(__func__, ACL_ERROR_RT_INVALID_HANDLE, sim::badHandle(notify, Kind::Notify));
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(__func__, choice.status, choice.text);
    std::lock_guard queueLock(sim::waitMutex());
    ++object->queuedRecords;
    pairRecord(*object);
    choice.stream->enqueue(__func__, [object] {
        {
            std::lock_guard lock(sim::waitMutex());
            object->set = true;
            object->knows = sim::checker::either(object->knows, sim::checker::knowledge());
            --object->queuedRecords;
        }
        sim::wakeWaitingTasks();
    }, {sim::checker::TaskKind::Mark});
    return ACL_SUCCESS;
}

aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout) {
    SIM_API;
    auto object = sim::lookupAs<Notify>(notify, Kind::Notify);
    if (!object) return fail(__func__, ACL_ERROR_RT_INVALID_HANDLE, sim::badHandle(notify, Kind::Notify));
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(__func__, choice.status, choice.text);
    sim::Stream *worker = choice.stream.get();
    if (sim::strict()) {
        std::lock_guard lock(sim::waitMutex());
        pairWait(notify, *object, worker->id());
    }
    choice.stream->enqueue(__func__, [object, worker, timeout] {
        std::unique_lock lock(sim::waitMutex());
        sim::Deadline deadline;
        if (timeout > 0) deadline = sim::Clock::now() + std::chrono::milliseconds(timeout);
        if (sim::waitInTask(
                lock, *worker, deadline, [&] { return object->set; }, [&] { return object->queuedRecords == 0; },
                !sim::strict())) {
            object->set = false;
            sim::checker::learn(std::exchange(object->knows, nullptr));
        } else if (deadline && sim::Clock::now() >= *deadline) {
            throw sim::KernelFault(ACL_ERROR_RT_WAIT_TIMEOUT,
                                   "the notify was not recorded within " + std::to_string(timeout) + " ms");
        }
    }, {sim::checker::TaskKind::Wait});
    return ACL_SUCCESS;
}
