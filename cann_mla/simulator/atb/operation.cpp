#include "atb/operation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "atb/checks.hpp"
#include "atb/context.hpp"
#include "checker/finding.hpp"
#include "checker/launch_rules.hpp"
#include "core/entry.hpp"
#include "core/device_memory.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"

namespace sim::atb {

namespace {

// The tensor without its strides and offset.
std::shared_ptr<const TensorObject> asAtbSeesIt(const char* api, const char* name, const TensorObject& tensor) {
    auto seen = std::make_shared<TensorObject>();
    seen->desc = tensor.desc;
    seen->made = tensor.made;
    TensorDesc& desc = seen->desc;
    int64_t stride = 1;
    for (size_t axis = desc.shape.size(); axis-- > 0;) {
        desc.strides[axis] = stride;
        // Saturating: a tensor of absurd shape is refused by its size, later.
        if (__builtin_mul_overflow(stride, desc.shape[axis], &stride)) stride = INT64_MAX;
    }
    desc.storageShape = desc.shape;
    desc.offset = 0;
    if (tensor.desc.offset != 0 || !tensor.desc.isDense()) {
        report("ignored-strides", std::string(api) + ": " + name + " is a view with strides or an offset",
               "make the tensor dense, or give the address of its first element");
    }
    return seen;
}

// Operands of the launch. A parameter that is input and output counts once, updated in place.
std::vector<Operand> operandsOf(const Tensors& tensors) {
    std::vector<Operand> operands;
    auto add = [&](const Tensor& tensor, Role role) {
        for (Operand& known : operands) {
            if (std::strcmp(known.name, tensor.name) == 0) {
                known.role = Role::Inplace;
                return;
            }
        }
        auto parameter = static_cast<uint32_t>(operands.size());
        void* address = tensor.object ? tensor.object->desc.data : nullptr;
        View view = tensor.host ? View::Host : View::AsIs;
        operands.push_back({tensor.name, role, view, false, false, parameter, tensor.object, address, Touch::Some});
    };
    for (const Tensor& tensor : tensors.inputs) add(tensor, Role::Input);
    for (const Tensor& tensor : tensors.outputs) add(tensor, Role::Output);
    return operands;
}

std::optional<Rejection> checkWorkspace(const Executor& executor, const void* workspace, uint64_t given) {
    if (given < executor.workspaceBytes) {
        if (strict()) checker::tellSmallWorkspace(executor, nullptr, given);
        return Rejection{ATB_ERROR_INVALID_PARAM, "workspaceSize is " + std::to_string(given) + ", setup asked for " +
                                                      std::to_string(executor.workspaceBytes)};
    }
    if (executor.workspaceBytes != 0 && workspace == nullptr) {
        return Rejection{ATB_ERROR_INVALID_PARAM, "workspace is null, but setup asked for " +
                                                      std::to_string(executor.workspaceBytes) + " bytes"};
    }
    return std::nullopt;
}

// Once more what setup planned, for a launch with its own addresses.
std::shared_ptr<Executor> copyOf(Executor& planned) {
    auto executor = std::make_shared<Executor>();
    std::lock_guard lock(planned.mutex);
    executor->api = planned.api;
    executor->operands = planned.operands;
    executor->kernel = planned.kernel;
    executor->workspaceBytes = planned.workspaceBytes;
    return executor;
}

constexpr const char* usePairs =
    "the simulator reads this operation's tensors from no VariantPack; use AtbXxxGetWorkspaceSize and AtbXxx";

}  // namespace

const TensorDesc& Tensor::desc() const {
    static const TensorDesc empty;
    return object ? object->desc : empty;
}

bool Tensor::isEmpty() const {
    if (isNull()) return true;
    const std::vector<int64_t>& shape = object->desc.shape;
    return object->desc.data == nullptr && std::find(shape.begin(), shape.end(), 0) != shape.end();
}

const Tensor& Tensors::operator[](const char* name) const {
    static const Tensor absent{"", nullptr, false};
    for (const auto* list : {&inputs, &outputs}) {
        for (const Tensor& tensor : *list) {
            if (std::strcmp(tensor.name, name) == 0) return tensor;
        }
    }
    return absent;
}

int32_t Operation::setUp(Tensors tensors, uint64_t& workspaceSize, ::atb::Context* context) {
    std::lock_guard lock(mutex_);
    if (context == nullptr) return fail(api_, ATB_ERROR_INVALID_PARAM, "context is null; atb::CreateContext makes one");
    if (!findContext(context)) {
        return fail(api_, ATB_ERROR_INVALID_PARAM, "context is no living atb::Context; the real library crashes here");
    }
    executor_.reset();
    if (auto refusal = checkTensors(definition(), tensors)) return fail(api_, *refusal);
    if (auto refusal = checkShapes(tensors)) return fail(api_, *refusal);
    Plan planned = plan(tensors);
    if (planned.refusal) return fail(api_, *planned.refusal);
    auto executor = std::make_shared<Executor>();
    executor->api = api_;
    executor->operands = operandsOf(tensors);
    for (Operand& operand : executor->operands) {
        auto isIt = [&](const char* name) { return std::strcmp(name, operand.name) == 0; };
        if (std::any_of(planned.caches.begin(), planned.caches.end(), isIt)) operand.touch = Touch::Told;
    }
    executor->refusal = planned.tilingFailure;
    if (planned.tilingFailure) {
        report("swallowed-tiling",
               std::string(api_) + ": setup returns 0, but tiling failed and the launch will be refused: " +
                   planned.tilingFailure->text);
    } else {
        executor->workspaceBytes = planned.workspace;
        executor->kernel = std::move(planned.kernel);
    }
    workspaceSize = executor->workspaceBytes;
    executor_ = std::move(executor);
    context_ = context;
    return ATB_NO_ERROR;
}

int32_t Operation::execute(void* workspace, uint64_t workspaceSize, ::atb::Context* context,
                           const Readdress& readdress) {
    std::lock_guard lock(mutex_);
    Context* found = findContext(context);
    if (!found) {
        return fail(api_, ATB_ERROR_INVALID_PARAM,
                    "context is null or no living atb::Context; the real library crashes here");
    }
    if (!executor_) return fail(api_, ATB_ERROR_INVALID_PARAM, "the last setup of the operation did not succeed");
    void* handle = found->stream(streamNumber);
    if (handle == nullptr) {
        return fail(api_, ATB_ERROR_INVALID_PARAM, "the context has no stream; call context->SetExecuteStream first");
    }
    if (context != context_) return fail(api_, ATB_ERROR_INVALID_PARAM, "context is another one than in setup");
    if (auto refusal = checkWorkspace(*executor_, workspace, workspaceSize)) return fail(api_, *refusal);
    std::shared_ptr<Executor> executor = executor_;
    if (readdress) {
        executor = copyOf(*executor_);
        if (auto refusal = readdress(executor->operands)) return fail(api_, *refusal);
    }
    if (executor_->refusal) return fail(api_, *executor_->refusal);
    StreamChoice choice = chooseStream(handle);
    if (!choice) return fail(api_, ATB_ERROR_RT_FAIL, "the launch failed: " + choice.text);
    enqueueRun(api_, executor, workspace, workspaceSize, *choice.stream);
    return ATB_NO_ERROR;
}

::atb::Status Operation::InferShape(const ::atb::SVector<::atb::TensorDesc>&,
                                    ::atb::SVector<::atb::TensorDesc>&) const {
    return fail(api_, ATB_ERROR_INVALID_PARAM, std::string("InferShape: ") + usePairs);
}

::atb::Status Operation::Setup(const ::atb::VariantPack&, uint64_t&, ::atb::Context*) {
    return fail(api_, ATB_ERROR_INVALID_PARAM, std::string("Setup: ") + usePairs);
}

::atb::Status Operation::Execute(const ::atb::VariantPack&, uint8_t*, uint64_t, ::atb::Context*) {
    return fail(api_, ATB_ERROR_INVALID_PARAM, std::string("Execute: ") + usePairs);
}

Operation* findOperation(::atb::Operation* operation) {
    return isAlive(Kind::AtbOperation, operation) ? static_cast<Operation*>(operation) : nullptr;
}

void PhaseOne::add(std::vector<Tensor>& list, const char* name, const aclTensor* tensor, bool host) {
    auto object = lookupAs<TensorObject>(tensor, Kind::Tensor);
    if (tensor != nullptr && !badTensor_) {
        if (!object) {
            badTensor_ = Rejection{ATB_ERROR_INVALID_TENSOR_DIM,
                                   std::string(name) + ": " + badHandle(tensor, Kind::Tensor)};
        } else if (object->desc.rank() > ::atb::MAX_DIM) {
            badTensor_ = badShape(ATB_ERROR_INVALID_TENSOR_DIM, {name, object, host}, "at most 8 dimensions");
        }
    }
    if (host && object && strict() && isDeviceAddress(object->desc.data)) checker::tellDevicePointer(name, *object);
    list.push_back({name, object ? asAtbSeesIt(api_, name, *object) : nullptr, host});
}

int32_t PhaseOne::setup() {
    if (badTensor_) return fail(api_, *badTensor_);
    if (op_ == nullptr) return fail(api_, ATB_ERROR_INVALID_OPERATION_ADDR, "op is null; give the address of one");
    Operation* operation = findOperation(*op_);
    if (operation == nullptr) {
        return fail(api_, ATB_ERROR_INVALID_OPERATION_ADDR,
                    "*op is no living atb::Operation; the real library crashes here");
    }
    if (workspaceSize_ == nullptr) {
        return fail(api_, ATB_ERROR_INVALID_PARAM, "workspaceSize is null; the real library crashes here");
    }
    return operation->setUp(std::move(tensors_), *workspaceSize_, context_);
}

int32_t phaseTwo(const char* api, void* workspace, uint64_t workspaceSize, ::atb::Operation* op,
                 ::atb::Context* context) {
    Operation* operation = findOperation(op);
    if (operation == nullptr) {
        return fail(api, ATB_ERROR_INVALID_OPERATION_ADDR,
                    op == nullptr ? "op is null; phase one makes it"
                                  : "op is no living atb::Operation; the real library crashes here");
    }
    return operation->execute(workspace, workspaceSize, context);
}

}  // namespace sim::atb

namespace atb {

// ATB answers 0 to null; to what is no operation it would crash.
Status DestroyOperation(Operation* operation) {
    SIM_API_NAMED("atb::DestroyOperation");
    if (operation == nullptr) return ATB_NO_ERROR;
    if (!sim::atb::findOperation(operation)) {
        return sim::fail("atb::DestroyOperation", ATB_ERROR_INVALID_OPERATION_ADDR,
                         "operation is no living atb::Operation; the real library crashes here");
    }
    delete operation;
    return ATB_NO_ERROR;
}

Status SetExecuteStreamId(Operation* operation, uint32_t streamId) {
    SIM_API_NAMED("atb::SetExecuteStreamId");
    sim::atb::Operation* found = sim::atb::findOperation(operation);
    if (!found) {
        return sim::fail("atb::SetExecuteStreamId", ATB_ERROR_INVALID_OPERATION_ADDR, "operation is null or dead");
    }
    found->streamNumber = streamId;
    return ATB_NO_ERROR;
}

uint32_t GetExecuteStreamId(Operation* operation) {
    sim::atb::Operation* found = sim::atb::findOperation(operation);
    return found ? found->streamNumber : 0;
}

}  // namespace atb
