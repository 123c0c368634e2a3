// Phase two: an executor put on a stream, and what happens when its turn comes.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "checker/fault_injection.hpp"
#include "checker/launch_rules.hpp"
#include "checker/lifetimes.hpp"
#include "checker/touches.hpp"
#include "core/device_memory.hpp"
#include "core/operator.hpp"
#include "core/settings.hpp"
#include "core/strided.hpp"
#include "runtime/context.hpp"

namespace sim {
namespace {

struct FreeDeleter {
    void operator()(void *memory) const { std::free(memory); }
};
using HostBuffer = std::unique_ptr<void, FreeDeleter>;

HostBuffer hostBuffer(int64_t bytes) {
    constexpr size_t alignment = 64;
    size_t size = (static_cast<size_t>(bytes) + alignment - 1) / alignment * alignment;
    HostBuffer buffer(std::aligned_alloc(alignment, size));
    if (!buffer) throw std::bad_alloc();
    return buffer;
}

}  // namespace

// One launch: addresses as they were when phase two was called, checked and translated when the task runs.
class Run {
   public:
    Run(std::shared_ptr<Executor> executor, void *workspace, uint64_t workspaceSize, int32_t device,
        NumericFaults faults)
        : executor_(std::move(executor)),
          workspace_(workspace),
          workspaceSize_(workspaceSize),
          device_(device),
          faults_(std::move(faults)) {
        std::lock_guard lock(executor_->mutex);
        operands_ = executor_->operands;
    }

    // What strict mode has to know of the launch before it is queued.
    checker::TaskNote note(const Stream &stream) {
        watched_ = strict();
        if (!watched_) return {};
        auto uses = checker::usesOf(operands_, workspace_, executor_->workspaceBytes, device_, stream.id());
        return {checker::TaskKind::Work, std::move(uses)};
    }

    void operator()() {
        Launch launch;
        if (executor_->workspaceBytes > 0) {
            launch.workspace_ = reach("workspace", workspace_, executor_->workspaceBytes);
            launch.workspaceSize_ = workspaceSize_;
        }
        if (faults_.any()) launch.faults_ = &faults_;
        std::optional<checker::Touches> touches;
        if (watched_) launch.touches_ = &touches.emplace();
        launch.addresses_.reserve(operands_.size());
        for (const Operand &operand : operands_) {
            void *address = bind(operand);
            if (touches && address != nullptr && operand.touch == Touch::Told) {
                touches->watch(launch.addresses_.size(), address, static_cast<size_t>(operand.touchedBytes()));
            }
            launch.addresses_.push_back({operand.name, address, operand.tensor != nullptr, operand.placeholder});
        }
        executor_->kernel(launch);
        faults_.restoreTails();
        for (const Copy &copy : copies_) {
            if (copy.operand->role == Role::Inplace) scatter(copy.operand->tensor->desc, copy.dense.get(), copy.base);
        }
        copies_.clear();
        misread_.clear();
        if (touches) touches->tell();
        if (watched_) checkGuards();
    }

   private:
    struct Copy {
        const Operand *operand;
        void *base;
        HostBuffer dense;
    };

    // What this launch wrote beyond its operands shows here first.
    void checkGuards() const {
        for (const Operand &operand : operands_) {
            if (operand.tensor && operand.role != Role::Input) checkGuardBandsOf(operand.address, executor_->api);
        }
    }

    void *bind(const Operand &operand) {
        void *address = place(operand);
        if (address == nullptr || !faults_.any()) return address;
        faults_.keepTail(operand, address);
        auto misread = faults_.misread(operand, address);
        if (!misread) return address;
        misread_.push_back(std::move(*misread));
        return misread_.back().data();
    }

    // The host alias of device memory, or the fault that the device would have.
    void *reach(const char *name, const void *address, size_t bytes) const {
        if (auto fault = rangeFault(address, bytes)) throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, name + (": " + *fault));
        std::optional<AllocationInfo> allocation = findAllocation(address);
        if (allocation && allocation->device != device_) {
            throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION,
                              std::string(name) + ": the memory lies on device " + std::to_string(allocation->device) +
                                  ", the stream on device " + std::to_string(device_));
        }
        return hostAlias(address);
    }

    // Where the kernel finds an operand.
    void *place(const Operand &operand) {
        if (!operand.tensor || operand.tensor->desc.isEmpty()) return nullptr;
        const TensorDesc &desc = operand.tensor->desc;
        void *first = checker::firstElement(operand);
        if (operand.view == View::Host) return first;
        void *base = reach(operand.name, first, static_cast<size_t>(operand.touchedBytes()));
        if (!operand.isCopied()) return base;
        copies_.push_back({&operand, base, hostBuffer(packedBytes(desc.numel(), desc.dtype))});
        gather(desc, base, copies_.back().dense.get());
        return copies_.back().dense.get();
    }

    std::shared_ptr<Executor> executor_;
    void *workspace_;
    uint64_t workspaceSize_;
    int32_t device_;
    bool watched_ = false;
    std::vector<Operand> operands_;
    std::vector<Copy> copies_;
    NumericFaults faults_;
    std::vector<std::vector<uint8_t>> misread_;  // what a numeric fault gives the kernel to read instead
};

const Launch::Address &Launch::find(const char *name) const {
    for (const Address &entry : addresses_) {
        if (entry.name == name || std::strcmp(entry.name, name) == 0) return entry;
    }
    throw std::logic_error(std::string("the kernel asks for operand ") + name + ", which phase one did not register");
}

std::vector<void *> Launch::list(const char *name) const {
    find(name);
    std::vector<void *> entries;
    for (const Address &entry : addresses_) {
        if (std::strcmp(entry.name, name) == 0 && !entry.placeholder) entries.push_back(entry.address);
    }
    return entries;
}

const void *Launch::in(const char *name) const { return find(name).address; }

void *Launch::out(const char *name) const { return find(name).address; }

void Launch::touch(const void *address, size_t bytes, bool writes) const { touches_->add(address, bytes, writes); }

bool Launch::has(const char *name) const { return find(name).present; }

std::vector<const void *> Launch::inList(const char *name) const {
    std::vector<void *> entries = list(name);
    return {entries.begin(), entries.end()};
}

std::vector<void *> Launch::outList(const char *name) const { return list(name); }

namespace {

// CANN does not notice a second phase two of an executor that the first one used up: it answers 0.
int32_t answerForDeadExecutor(const char *api, const aclOpExecutor *executor) {
    std::string text = describeBadHandle(executor, Kind::Executor);
    Ending ending = endingOf(executor);
    bool consumed = stateOf(executor, Kind::Executor) == State::Dead && (ending.consumed || *ending.by == '\0');
    if (!consumed) {
        badHandle(executor, Kind::Executor);
        return fail(api, ACLNN_ERR_PARAM_INVALID, text + "; call phase one again for a new executor");
    }
    checker::tellUsedUp(executor);
    return ACL_SUCCESS;
}

int32_t checkWorkspace(const char *api, const void *workspace, uint64_t given, const Executor &executor,
                       const void *handle) {
    const uint64_t needed = executor.workspaceBytes;
    if (workspace == nullptr && given > 0) {
        return fail(api, ACLNN_ERR_PARAM_NULLPTR,
                    "workspace is null, but workspaceSize is " + std::to_string(given) + "; allocate it on the device");
    }
    if (given < needed) {
        if (strict()) checker::tellSmallWorkspace(executor, handle, given);
        return fail(api, ACLNN_ERR_PARAM_INVALID,
                    "workspaceSize is " + std::to_string(given) + ", phase one asked for " + std::to_string(needed));
    }
    return ACL_SUCCESS;
}

}  // namespace

void enqueueRun(const char *api, std::shared_ptr<Executor> executor, void *workspace, uint64_t workspaceSize,
                Stream &stream) {
    auto run = std::make_shared<Run>(std::move(executor), workspace, workspaceSize, stream.device(),
                                     NumericFaults(numericFaults(api)));
    checker::TaskNote note = run->note(stream);
    if (auto strike = strikeKernel(api)) {
        stream.enqueue(api, [strike, &stream] { (*strike)(stream); }, std::move(note));
        return;
    }
    stream.enqueue(api, [run] { (*run)(); }, std::move(note));
}

int32_t phaseTwo(const char *api, void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                 aclrtStream stream) {
    if (executor == nullptr) return fail(api, ACLNN_ERR_PARAM_NULLPTR, "executor is null; phase one makes it");
    auto object = lookupAs<Executor>(executor, Kind::Executor);
    if (!object) return answerForDeadExecutor(api, executor);
    if (int32_t status = checkWorkspace(api, workspace, workspaceSize, *object, executor)) return status;
    StreamChoice choice;
    if (object->kernel) {
        choice = chooseStream(stream);
        if (!choice) {
            return fail(api, ACLNN_ERR_RUNTIME_ERROR,
                        "the launch failed with runtime error " + std::to_string(choice.status) + ": " + choice.text);
        }
    }
    if (strict()) checker::checkTensorsLive(*object);
    bool repeatable;
    {
        std::lock_guard lock(object->mutex);
        repeatable = object->repeatable;
    }
    if (!repeatable) retire(executor, Kind::Executor, {api, true});
    if (object->refusal) return fail(api, *object->refusal);
    if (choice) enqueueRun(api, object, workspace, workspaceSize, *choice.stream);
    return ACL_SUCCESS;
}

}  // namespace sim
