#include "core/operator.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "checker/finding.hpp"
#include "checker/lifetimes.hpp"
#include "core/settings.hpp"

namespace sim {
namespace {

constexpr size_t kUsualOperands = 48;

uint64_t roundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// The view is its storage with dimensions swapped: sorted by stride, it is dense.
bool isTransposed(const TensorDesc &desc) {
    std::vector<size_t> axes(desc.shape.size());
    std::iota(axes.begin(), axes.end(), size_t{0});
    std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) { return desc.strides[a] > desc.strides[b]; });
    TensorDesc sorted = desc;
    for (size_t i = 0; i < axes.size(); ++i) {
        sorted.shape[i] = desc.shape[axes[i]];
        sorted.strides[i] = desc.strides[axes[i]];
    }
    return sorted.isDense();
}

// What CANN asks for the dense copy of one strided operand; measured with one copied operand in a call.
uint64_t copyWorkspace(const TensorDesc &desc) {
    uint64_t bytes = roundUp(static_cast<uint64_t>(packedBytes(desc.numel(), desc.dtype)) + 32, 512);
    if (product() != Product::A950) return bytes + 512;
    constexpr uint64_t transposeKernel = 16'777'216;
    bool onAicpu = desc.dtype == ACL_FLOAT8_E8M0 && isTransposed(desc);
    return onAicpu ? bytes : bytes + 512 + transposeKernel;
}

std::string dims(const std::vector<int64_t> &values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
    return text + "]";
}

std::string badViewText(const Operand &operand) {
    const TensorDesc &desc = operand.tensor->desc;
    return std::string(operand.name) + " is a strided view that leaves its storage or has a negative stride: shape " +
           dims(desc.shape) + ", strides " + dims(desc.strides) + ", offset " + std::to_string(desc.offset) +
           ", storage shape " + dims(desc.storageShape) + "; give a storage shape that holds every element of the view";
}

// The value of a scalar as double; nullopt for types that have none (complex, string, 4 and 8-bit floats).
std::optional<double> numericValue(const ScalarObject &scalar) {
    auto as = [&](auto sample) {
        std::memcpy(&sample, scalar.bytes.data(), sizeof sample);
        return static_cast<double>(sample);
    };
    switch (scalar.dtype) {
        case ACL_FLOAT: return as(float{});
        case ACL_DOUBLE: return as(double{});
        case ACL_INT8: return as(int8_t{});
        case ACL_INT16: return as(int16_t{});
        case ACL_INT32: return as(int32_t{});
        case ACL_INT64: return as(int64_t{});
        case ACL_BOOL:
        case ACL_UINT8: return as(uint8_t{});
        case ACL_UINT16: return as(uint16_t{});
        case ACL_UINT32: return as(uint32_t{});
        case ACL_UINT64: return as(uint64_t{});
        case ACL_FLOAT16: return aclFloat16ToFloat(static_cast<aclFloat16>(as(uint16_t{})));
        case ACL_BF16: {
            uint32_t bits = static_cast<uint32_t>(as(uint16_t{})) << 16;
            float value;
            std::memcpy(&value, &bits, sizeof value);
            return value;
        }
        default: return std::nullopt;
    }
}

}  // namespace

bool Operand::isCopied() const {
    return tensor && view == View::Copied && role != Role::Output && !isPrivateFormat(tensor->desc.format) &&
           !tensor->desc.isDense();
}

int64_t Operand::touchedBytes() const {
    const TensorDesc &desc = tensor->desc;
    // CANN ignores the strides of outputs and writes them densely.
    bool stridesIgnored = role == Role::Output || view == View::StridesIgnored;
    if (stridesIgnored && !isPrivateFormat(desc.format)) return packedBytes(desc.numel(), desc.dtype);
    return desc.extentBytes();
}

PhaseOne::PhaseOne(const char *api, uint64_t *workspaceSize, aclOpExecutor **executor)
    : api_(api), workspaceSize_(workspaceSize), executor_(executor) {
    operands_.reserve(kUsualOperands);
}

std::shared_ptr<Object> PhaseOne::open(const char *name, const void *handle, Kind kind) {
    if (handle == nullptr) return nullptr;
    std::shared_ptr<Object> object = lookup(handle, kind);
    if (!object && !badHandle_) {
        badHandle_ = Rejection{ACLNN_ERR_PARAM_INVALID, std::string(name) + ": " + badHandle(handle, kind)};
    }
    return object;
}

const TensorDesc *PhaseOne::add(const char *name, const aclTensor *tensor, Role role, View view) {
    auto object = std::static_pointer_cast<TensorObject>(open(name, tensor, Kind::Tensor));
    const TensorDesc *desc = object ? &object->desc : nullptr;
    uint32_t parameter = operands_.empty() ? 0 : operands_.back().parameter + 1;
    operands_.push_back({name, role, view, false, false, parameter, std::move(object), desc ? desc->data : nullptr});
    operands_.back().handle = tensor;
    return desc;
}

const TensorDesc *PhaseOne::input(const char *name, const aclTensor *tensor, View view) {
    return add(name, tensor, Role::Input, view);
}

const TensorDesc *PhaseOne::output(const char *name, const aclTensor *tensor) {
    return add(name, tensor, Role::Output, View::Copied);
}

const TensorDesc *PhaseOne::inplace(const char *name, const aclTensor *tensor, View view) {
    return add(name, tensor, Role::Inplace, view);
}

std::optional<std::vector<const TensorDesc *>> PhaseOne::addList(const char *name, const aclTensorList *list, Role role,
                                                                 View view) {
    auto object = std::static_pointer_cast<TensorListObject>(open(name, list, Kind::TensorList));
    uint32_t parameter = operands_.empty() ? 0 : operands_.back().parameter + 1;
    if (!object || object->members.empty()) {
        operands_.push_back({name, role, view, true, true, parameter, nullptr, nullptr});
        if (!object) return std::nullopt;
    }
    std::vector<const TensorDesc *> descs;
    for (size_t i = 0; i < object->members.size(); ++i) {
        const aclTensor *member = object->members[i];
        if (!badHandle_ && stateOf(member, Kind::Tensor) == State::Dead) {
            if (strict() && !object->madeOfDead) checker::tellDeadMember(list, Kind::TensorList, i, member, Kind::Tensor);
            badHandle_ = Rejection{ACLNN_ERR_PARAM_INVALID,
                                   std::string(name) + ": " + describeBadHandle(member, Kind::Tensor)};
        }
        descs.push_back(add(name, member, role, view));
        operands_.back().inList = true;
        operands_.back().parameter = parameter;
    }
    return descs;
}

std::optional<std::vector<const TensorDesc *>> PhaseOne::inputList(const char *name, const aclTensorList *list,
                                                                   View view) {
    return addList(name, list, Role::Input, view);
}

std::optional<std::vector<const TensorDesc *>> PhaseOne::outputList(const char *name, const aclTensorList *list) {
    return addList(name, list, Role::Output, View::Copied);
}

void PhaseOne::touches(const char *name, Touch touch) {
    for (Operand &operand : operands_) {
        if (std::strcmp(operand.name, name) == 0) operand.touch = touch;
    }
}

const std::vector<int64_t> *PhaseOne::intArray(const char *name, const aclIntArray *array) {
    auto object = std::static_pointer_cast<IntArrayObject>(open(name, array, Kind::IntArray));
    if (!object) return nullptr;
    pinned_.push_back(object);
    return &object->values;
}

const std::vector<float> *PhaseOne::floatArray(const char *name, const aclFloatArray *array) {
    auto object = std::static_pointer_cast<FloatArrayObject>(open(name, array, Kind::FloatArray));
    if (!object) return nullptr;
    pinned_.push_back(object);
    return &object->values;
}

const std::vector<uint8_t> *PhaseOne::boolArray(const char *name, const aclBoolArray *array) {
    auto object = std::static_pointer_cast<BoolArrayObject>(open(name, array, Kind::BoolArray));
    if (!object) return nullptr;
    pinned_.push_back(object);
    return &object->values;
}

std::optional<double> PhaseOne::scalar(const char *name, const aclScalar *scalar) {
    auto object = std::static_pointer_cast<ScalarObject>(open(name, scalar, Kind::Scalar));
    return object ? numericValue(*object) : std::nullopt;
}

std::optional<Rejection> PhaseOne::checkViews() const {
    for (const Operand &operand : operands_) {
        if (operand.isCopied() && !operand.tensor->desc.staysInStorage()) {
            return Rejection{ACLNN_ERR_INNER_NULLPTR, badViewText(operand)};
        }
    }
    return std::nullopt;
}

bool PhaseOne::allOutputsEmpty() const {
    bool any = false;
    for (const Operand &operand : operands_) {
        if (operand.role == Role::Input || !operand.tensor) continue;
        if (!operand.tensor->desc.isEmpty()) return false;
        any = true;
    }
    return any;
}

int32_t PhaseOne::reject(int32_t status, const std::string &text) {
    return badHandle_ ? fail(api_, *badHandle_) : fail(api_, status, text);
}

uint64_t PhaseOne::withCopies(uint64_t workspaceBytes) const {
    uint64_t copies = 0;
    for (const Operand &operand : operands_) {
        if (operand.isCopied()) copies += copyWorkspace(operand.tensor->desc);
    }
    bool rounded = copies > 0 && product() != Product::A950;
    return (rounded ? roundUp(workspaceBytes, 512) : workspaceBytes) + copies;
}

int32_t PhaseOne::accept(uint64_t workspaceBytes, Kernel kernel) {
    if (badHandle_) return fail(api_, *badHandle_);
    if (executor_ == nullptr) return fail(api_, ACLNN_ERR_PARAM_NULLPTR, "executor is null; give the address of one");
    if (kernel) {
        if (auto bad = checkViews()) return fail(api_, *bad);
        workspaceBytes = withCopies(workspaceBytes);
    }
    auto executor = std::make_shared<Executor>();
    executor->api = api_;
    executor->workspaceBytes = workspaceBytes;
    executor->kernel = std::move(kernel);
    executor->operands = std::move(operands_);
    if (workspaceSize_ != nullptr) *workspaceSize_ = executor->workspaceBytes;
    *executor_ = static_cast<aclOpExecutor *>(makeHandle(Kind::Executor, std::move(executor), api_));
    return ACL_SUCCESS;
}

int32_t PhaseOne::acceptEmpty() { return accept(0, nullptr); }

int32_t PhaseOne::acceptUntilPhaseTwo(const Rejection &rejection) {
    if (int32_t status = accept(0, nullptr)) return status;
    lookupAs<Executor>(*executor_, Kind::Executor)->refusal = rejection;
    return ACL_SUCCESS;
}

}  // namespace sim
