// Host functions in a stream: run by the stream's own thread, or by a thread of the program that polls for them.
#include <pthread.h>

#include <deque>
#include <map>
#include <string>

#include "acl/acl_rt.h"
#include "core/entry.hpp"
#include "core/handles.hpp"
#include "runtime/context.hpp"
#include "runtime/waiting.hpp"

using sim::fail;
using sim::StreamChoice;

namespace {

// One call that waits for the polling thread. Guarded by waitMutex().
struct Call {
    aclrtCallback function;
    void *userData;
    bool done = false;
    std::shared_ptr<const sim::checker::Clock> knows = nullptr;  // what the stream knew, in strict mode
};

// Who polls for which stream, and what waits for each polling thread. Guarded by waitMutex().
struct Reports {
    std::map<int32_t, uint64_t> threadOfStream;  // by stream id
    std::map<uint64_t, std::deque<std::shared_ptr<Call>>> waiting;
};

Reports &reports() {
    static Reports &instance = *new Reports;
    return instance;
}

aclError subscribe(const char *api, uint64_t threadId, aclrtStream stream) {
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(api, choice.status, choice.text);
    std::lock_guard lock(sim::waitMutex());
    if (!reports().threadOfStream.emplace(choice.stream->id(), threadId).second) {
        return fail(api, ACL_ERROR_RT_STREAM_SUBSCRIBE, "a thread is subscribed to the stream already");
    }
    reports().waiting[threadId];
    return ACL_SUCCESS;
}

aclError unsubscribe(const char *api, uint64_t threadId, aclrtStream stream) {
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(api, choice.status, choice.text);
    {
        std::lock_guard lock(sim::waitMutex());
        auto &threads = reports().threadOfStream;
        auto found = threads.find(choice.stream->id());
        if (found == threads.end() || found->second != threadId) {
            return fail(api, ACL_ERROR_STREAM_NOT_SUBSCRIBE, "the thread is not subscribed to the stream");
        }
        threads.erase(found);
    }
    sim::wakeWaitingTasks();
    return ACL_SUCCESS;
}

// Runs one waiting call of this thread.
aclError process(const char *api, int32_t timeout) {
    uint64_t self = static_cast<uint64_t>(pthread_self());
    std::unique_lock lock(sim::waitMutex());
    auto mine = reports().waiting.find(self);
    if (mine == reports().waiting.end()) {
        return fail(api, ACL_ERROR_THREAD_NOT_SUBSCRIBE,
                    "this thread is not subscribed to any stream; pass its pthread_self() to aclrtSubscribeReport");
    }
    auto &queue = mine->second;
    if (!sim::waitOnHost(lock, sim::deadlineAfter(timeout), [&] { return !queue.empty(); })) {
        return fail(api, ACL_ERROR_WAIT_CALLBACK_TIMEOUT, "no callback came within " + std::to_string(timeout) + " ms");
    }
    std::shared_ptr<Call> call = queue.front();
    queue.pop_front();
    lock.unlock();
    sim::checker::hostLearns(call->knows);
    {
        sim::UserCode outside;
        call->function(call->userData);
    }
    lock.lock();
    call->done = true;
    lock.unlock();
    sim::wakeWaitingTasks();
    return ACL_SUCCESS;
}

}  // namespace

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
    SIM_API;
    return subscribe(__func__, threadId, stream);
}
aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
    SIM_API;
    return unsubscribe(__func__, threadId, stream);
}
aclError aclrtProcessReport(int32_t timeout) {
    SIM_API;
    return process(__func__, timeout);
}

aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream) {
    SIM_API;
    return subscribe(__func__, hostFuncThreadId, exeStream);
}
aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream) {
    SIM_API;
    return unsubscribe(__func__, hostFuncThreadId, exeStream);
}
aclError aclrtProcessHostFunc(int32_t timeout) {
    SIM_API;
    return process(__func__, timeout);
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream) {
    SIM_API;
    if (fn == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "fn is null");
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(__func__, choice.status, choice.text);
    sim::Stream *worker = choice.stream.get();
    std::lock_guard lock(sim::waitMutex());
    auto subscribed = reports().threadOfStream.find(worker->id());
    if (subscribed == reports().threadOfStream.end()) {
        return fail(__func__, ACL_ERROR_RT_STREAM_NO_CB_REG,
                    "no thread is subscribed to the stream; call aclrtSubscribeReport, or use aclrtLaunchHostFunc");
    }
    bool block = blockType == ACL_CALLBACK_BLOCK;
    auto call = std::make_shared<Call>(Call{fn, userData});
    worker->enqueue(__func__, [call, worker, block, thread = subscribed->second] {
        {
            std::lock_guard taskLock(sim::waitMutex());
            call->knows = sim::checker::knowledge();
            reports().waiting[thread].push_back(call);
        }
        sim::wakeWaitingTasks();
        if (!block) return;
        std::unique_lock taskLock(sim::waitMutex());
        auto nobodyPolls = [&] { return reports().threadOfStream.count(worker->id()) == 0; };
        sim::waitInTask(taskLock, *worker, std::nullopt, [&] { return call->done; }, nobodyPolls);
        sim::checker::learnFromHost();
    }, {sim::checker::TaskKind::HostCode});
    return ACL_SUCCESS;
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args) {
    SIM_API;
    if (fn == nullptr) return fail(__func__, ACL_ERROR_INVALID_PARAM, "fn is null");
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(__func__, choice.status, choice.text);
    choice.stream->enqueue(__func__, [fn, args] {
        sim::checker::HostCode host;
        sim::UserCode outside;
        fn(args);
    }, {sim::checker::TaskKind::HostCode});
    return ACL_SUCCESS;
}
