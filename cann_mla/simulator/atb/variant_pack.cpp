#include "atb/variant_pack.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "atb/checks.hpp"
#include "atb/utils.h"
#include "core/entry.hpp"

namespace sim::atb {

namespace {

constexpr Slot extra{"a tensor beyond the last"};

std::shared_ptr<const TensorObject> objectOf(const ::atb::TensorDesc& desc, void* address) {
    if (desc.shape.dimNum == 0) return nullptr;
    auto object = std::make_shared<TensorObject>();
    TensorDesc& seen = object->desc;
    // One dimension more than there can be stands for all that are too many.
    seen.shape.assign(std::min<uint64_t>(desc.shape.dimNum, ::atb::MAX_DIM + 1), 1);
    for (size_t axis = 0; axis < std::min<size_t>(seen.shape.size(), ::atb::MAX_DIM); ++axis) {
        seen.shape[axis] = desc.shape.dims[axis];
    }
    seen.strides.resize(seen.shape.size());
    int64_t stride = 1;
    for (size_t axis = seen.shape.size(); axis-- > 0;) {
        seen.strides[axis] = stride;
        if (__builtin_mul_overflow(stride, seen.shape[axis], &stride)) stride = INT64_MAX;
    }
    seen.storageShape = seen.shape;
    seen.dtype = desc.dtype;
    seen.format = desc.format;
    seen.data = address;
    return object;
}

const Slot& slotAt(const std::vector<Slot>& slots, size_t i) { return i < slots.size() ? slots[i] : extra; }

void* addressOf(const Slot& slot, const ::atb::Tensor& tensor) { return slot.host ? tensor.hostData : tensor.deviceData; }

std::vector<Tensor> tensorsOf(const std::vector<Slot>& slots, const ::atb::SVector<::atb::Tensor>& given) {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < given.size(); ++i) {
        const Slot& slot = slotAt(slots, i);
        tensors.push_back({slot.name, objectOf(given[i].desc, addressOf(slot, given[i])), slot.host});
    }
    return tensors;
}

Rejection bad(const std::string& text) { return {ATB_ERROR_INVALID_PARAM, text}; }

// The addresses of one side of the pack; operands stand in the order of the slots, inputs first.
std::optional<Rejection> readdress(std::vector<Operand>& operands, size_t first, size_t count,
                                   const std::vector<Slot>& slots, const ::atb::SVector<::atb::Tensor>& given) {
    if (given.size() != count) {
        return bad("the VariantPack has " + std::to_string(given.size()) + " tensors where setup had " +
                   std::to_string(count) + "; give the same ones, or an empty pack for the addresses of setup");
    }
    for (size_t i = 0; i < count; ++i) {
        Operand& operand = operands[first + i];
        const ::atb::Tensor& tensor = given[i];
        if (!operand.tensor) continue;
        const TensorDesc& planned = operand.tensor->desc;
        auto bytes = static_cast<uint64_t>(packedBytes(planned.numel(), planned.dtype));
        if (tensor.dataSize != bytes) {
            return bad(std::string(operand.name) + ": dataSize is " + std::to_string(tensor.dataSize) +
                       ", in setup the tensor had " + std::to_string(bytes) + " bytes");
        }
        if (tensor.deviceData == nullptr && tensor.hostData == nullptr) {
            return bad(std::string(operand.name) + " has neither deviceData nor hostData");
        }
        operand.address = addressOf(slots[i], tensor);
    }
    return std::nullopt;
}

}  // namespace

::atb::Status PackOperation::InferShape(const ::atb::SVector<::atb::TensorDesc>& inTensorDescs,
                                        ::atb::SVector<::atb::TensorDesc>& outTensorDescs) const {
    SIM_API_NAMED("atb::Operation::InferShape");
    Slots places = slots();
    Tensors tensors;
    for (size_t i = 0; i < inTensorDescs.size(); ++i) {
        tensors.inputs.push_back({slotAt(places.inputs, i).name, objectOf(inTensorDescs[i], nullptr)});
    }
    Definition inputsOnly = definition();
    inputsOnly.outputs.clear();
    if (auto refusal = checkTensors(inputsOnly, tensors)) return fail(api(), *refusal);
    if (auto refusal = checkInputs(tensors)) return fail(api(), *refusal);
    outTensorDescs.resize(GetOutputNum());
    if (auto refusal = inferOutputs(inTensorDescs, outTensorDescs)) return fail(api(), *refusal);
    return ATB_NO_ERROR;
}

::atb::Status PackOperation::Setup(const ::atb::VariantPack& variantPack, uint64_t& workspaceSize,
                                   ::atb::Context* context) {
    SIM_API_NAMED("atb::Operation::Setup");
    Slots places = slots();
    return setUp({tensorsOf(places.inputs, variantPack.inTensors), tensorsOf(places.outputs, variantPack.outTensors)},
                 workspaceSize, context);
}

::atb::Status PackOperation::Execute(const ::atb::VariantPack& variantPack, uint8_t* workspace, uint64_t workspaceSize,
                                     ::atb::Context* context) {
    SIM_API_NAMED("atb::Operation::Execute");
    if (variantPack.inTensors.empty() && variantPack.outTensors.empty()) {
        return execute(workspace, workspaceSize, context);
    }
    return execute(workspace, workspaceSize, context, [&](std::vector<Operand>& operands) {
        Slots places = slots();
        size_t inputs = GetInputNum(), outputs = GetOutputNum();
        if (auto refusal = readdress(operands, 0, inputs, places.inputs, variantPack.inTensors)) return refusal;
        return readdress(operands, inputs, outputs, places.outputs, variantPack.outTensors);
    });
}

}  // namespace sim::atb
