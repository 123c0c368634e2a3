#include "atb/checks.hpp"

#include <algorithm>
#include <cstring>

#include "core/device_memory.hpp"
#include "core/tensor.hpp"

namespace sim::atb {

namespace {

constexpr int64_t largestTensor = int64_t{256} << 30;

std::optional<Rejection> checkSize(const Tensor& tensor) {
    const TensorDesc& desc = tensor.desc();
    if (desc.shape.empty() || desc.rank() > ::atb::MAX_DIM) {
        std::string found = tensor.isNull() ? " is null" : " has rank " + std::to_string(desc.rank());
        return Rejection{ATB_ERROR_INVALID_TENSOR_DIM, tensor.name + found + "; it must have 1 to 8 dimensions"};
    }
    if (!hasSize(desc.dtype)) {
        return Rejection{ATB_ERROR_INVALID_TENSOR_SIZE, std::string(tensor.name) + " is " + dtypeName(desc.dtype) +
                                                            ", a dtype that ATB does not know"};
    }
    bool positive = std::all_of(desc.shape.begin(), desc.shape.end(), [](int64_t size) { return size > 0; });
    if (!positive || packedBytes(desc.numel(), desc.dtype) > largestTensor || desc.numel() > largestTensor) {
        return badShape(ATB_ERROR_INVALID_TENSOR_SIZE, tensor, "sizes above 0 and at most 256 GiB in all");
    }
    return std::nullopt;
}

std::optional<Rejection> checkSizes(const std::vector<OperandRule>& rules, const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (rules[i].optional && tensors[i].isEmpty()) continue;
        if (auto refusal = checkSize(tensors[i])) return refusal;
    }
    return std::nullopt;
}

// Rules and tensors by one index: inputs, then outputs.
const OperandRule& ruleAt(const Definition& definition, size_t i) {
    size_t inputs = definition.inputs.size();
    return i < inputs ? definition.inputs[i] : definition.outputs[i - inputs];
}

const Tensor& tensorAt(const Tensors& tensors, size_t i) {
    size_t inputs = tensors.inputs.size();
    return i < inputs ? tensors.inputs[i] : tensors.outputs[i - inputs];
}

// How many tensors fit a column before the first that does not.
size_t matching(const Definition& definition, const Tensors& tensors, size_t column) {
    size_t count = tensors.inputs.size() + tensors.outputs.size();
    for (size_t i = 0; i < count; ++i) {
        const OperandRule& rule = ruleAt(definition, i);
        const TensorDesc& desc = tensorAt(tensors, i).desc();
        if (tensorAt(tensors, i).isEmpty()) continue;
        if (desc.dtype != rule.dtypeAt(column) || desc.format != rule.formatAt(column)) return i;
    }
    return count;
}

// Names the operand that spoils the column which gets furthest.
Rejection noColumn(const Definition& definition, const Tensors& tensors, size_t culprit) {
    const OperandRule& rule = ruleAt(definition, culprit);
    std::string allowed;
    for (size_t column = 0; column < definition.columns; ++column) {
        std::string entry = std::string(dtypeName(rule.dtypeAt(column))) + " " + formatName(rule.formatAt(column));
        if (allowed.find(entry) == std::string::npos) allowed += (allowed.empty() ? "" : ", ") + entry;
    }
    const Tensor& tensor = tensorAt(tensors, culprit);
    return {ATB_ERROR_INVALID_TENSOR_INI_MATCH, std::string(tensor.name) + " is " + dtypeName(tensor.desc().dtype) +
                                                    " " + formatName(tensor.desc().format) + "; it can be " + allowed +
                                                    ", in a combination that fits the other operands"};
}

}  // namespace

bool hasSize(aclDataType dtype) {
    switch (dtype) {
        case ACL_DT_UNDEFINED:
        case ACL_BOOL:
        case ACL_FLOAT:
        case ACL_FLOAT16:
        case ACL_INT8:
        case ACL_INT16:
        case ACL_INT32:
        case ACL_INT64:
        case ACL_UINT8:
        case ACL_UINT16:
        case ACL_UINT32:
        case ACL_UINT64:
        case ACL_BF16:
        case ACL_DOUBLE:
        case ACL_STRING:
        case ACL_COMPLEX64:
        case ACL_COMPLEX128:
        case ACL_HIFLOAT8:
        case ACL_FLOAT8_E5M2:
        case ACL_FLOAT8_E4M3FN:
        case ACL_FLOAT8_E8M0:
            return true;
        default:
            return false;
    }
}

std::optional<Rejection> checkTensors(const Definition& definition, const Tensors& tensors) {
    if (tensors.inputs.size() != definition.inputs.size() || tensors.outputs.size() != definition.outputs.size()) {
        auto count = [](size_t in, size_t out) {
            return std::to_string(in) + " inputs and " + std::to_string(out) + " outputs";
        };
        return Rejection{ATB_ERROR_INVALID_IN_TENSOR_NUM,
                         "the wrapper passes " + count(tensors.inputs.size(), tensors.outputs.size()) +
                             ", the operation takes " + count(definition.inputs.size(), definition.outputs.size()) +
                             "; an operation made for other parameters, or a mode the C interface cannot reach"};
    }
    if (auto refusal = checkSizes(definition.inputs, tensors.inputs)) return refusal;
    if (auto refusal = checkSizes(definition.outputs, tensors.outputs)) return refusal;
    if (definition.columns == 0) return std::nullopt;
    size_t furthest = 0;
    for (size_t column = 0; column < definition.columns; ++column) {
        furthest = std::max(furthest, matching(definition, tensors, column));
    }
    if (furthest == tensors.inputs.size() + tensors.outputs.size()) return std::nullopt;
    return noColumn(definition, tensors, furthest);
}

std::string shapeText(const std::vector<int64_t>& shape) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    return text + "]";
}

Rejection badShape(int32_t status, const Tensor& tensor, const std::string& wanted) {
    std::string found = tensor.isNull() ? std::string(" is null") : " has shape " + shapeText(tensor.desc().shape);
    return {status, tensor.name + found + "; it must have " + wanted};
}

std::optional<Rejection> checkRank(const Tensor& tensor, std::initializer_list<int64_t> allowed) {
    if (std::find(allowed.begin(), allowed.end(), tensor.rank()) != allowed.end()) return std::nullopt;
    std::string ways;
    for (int64_t rank : allowed) ways += (ways.empty() ? "" : " or ") + std::to_string(rank);
    return badShape(ATB_ERROR_INVALID_TENSOR_DIM_NUM, tensor, ways + " dimensions");
}

std::optional<Rejection> checkDim(const Tensor& tensor, size_t index, std::initializer_list<int64_t> allowed,
                                  const std::string& meaning) {
    if (std::find(allowed.begin(), allowed.end(), tensor.dim(index)) != allowed.end()) return std::nullopt;
    std::string ways;
    for (int64_t size : allowed) ways += (ways.empty() ? "" : " or ") + std::to_string(size);
    return badShape(ATB_ERROR_INVALID_TENSOR_DIM, tensor,
                    ways + " (" + meaning + ") in dimension " + std::to_string(index));
}

std::optional<Rejection> checkShape(const Tensor& tensor, const std::vector<int64_t>& wanted,
                                    const std::string& meaning) {
    if (tensor.desc().shape == wanted) return std::nullopt;
    return badShape(ATB_ERROR_INVALID_TENSOR_DIM, tensor, shapeText(wanted) + " (" + meaning + ")");
}

HostLengths readLengths(const Tensor& tensor) {
    const void* data = tensor.desc().data;
    HostLengths result;
    if (data == nullptr || isDeviceAddress(data)) {
        result.refusal =
            Rejection{ATB_ERROR_INVALID_PARAM, std::string(tensor.name) +
                                                   (data == nullptr ? " has no data" : " lies on the device") +
                                                   "; ATB reads it in setup: make the aclTensor on host memory"};
        return result;
    }
    result.values.resize(static_cast<size_t>(tensor.desc().numel()));
    // Where ATB's table has no entry, any dtype comes this far, and ATB reads on behind the tensor. Here 0 lies there.
    const auto held = static_cast<size_t>(packedBytes(tensor.desc().numel(), tensor.desc().dtype));
    std::memcpy(result.values.data(), data, std::min(held, result.values.size() * sizeof(int32_t)));
    return result;
}

}  // namespace sim::atb
