// RingMLA by ATB's C++ interface: CreateOperation and its kin, and what an Operation says of its tensors.
#include <algorithm>
#include <memory>

#include "atb/operation.h"
#include "atb/ring_mla.hpp"
#include "core/entry.hpp"
#include "core/error.hpp"

namespace sim::atb {

namespace {

using ::atb::infer::RingMLAParam;

RingMlaParams fromCpp(const RingMLAParam& p) {
    return {p.headNum, p.kvHeadNum, p.qkScale, p.kernelType, p.maskType, p.inputLayout, p.calcType};
}

RingMLAParam toCpp(const RingMlaParams& p) {
    RingMLAParam param;
    param.calcType = static_cast<RingMLAParam::CalcType>(p.calcType);
    param.headNum = p.headNum;
    param.kvHeadNum = p.kvHeadNum;
    param.qkScale = p.qkScale;
    param.kernelType = static_cast<RingMLAParam::KernelType>(p.kernelType);
    param.maskType = static_cast<RingMLAParam::MaskType>(p.maskType);
    param.inputLayout = static_cast<::atb::infer::InputLayout>(p.inputLayout);
    return param;
}

// The living RingMLA at an address; nullptr for null, for the dead and for other operations.
RingMla* findRingMla(const ::atb::Operation* operation) {
    return dynamic_cast<RingMla*>(findOperation(const_cast<::atb::Operation*>(operation)));
}

constexpr const char* noRingMla = "operation is no living RingMLA operation";

}  // namespace

Slots RingMla::slots() const {
    Slots slots{{{"querySplit1"}, {"querySplit2"}, {"keySplit1"}, {"keySplit2"}, {"value"}, {"mask"}, {"seqLen", true}},
                {{"output"}, {"softmaxLse"}}};
    if (params_.merges()) slots.inputs.insert(slots.inputs.end(), {{"prevOut"}, {"prevLse"}});
    return slots;
}

std::optional<Rejection> RingMla::inferOutputs(const ::atb::SVector<::atb::TensorDesc>& inputs,
                                               ::atb::SVector<::atb::TensorDesc>& outputs) const {
    const ::atb::TensorDesc &query = inputs[0], &value = inputs[4];
    outputs[0] = query;
    outputs[0].shape.dims[2] = value.shape.dims[2];
    outputs[1] = query;
    outputs[1].dtype = ACL_FLOAT;
    outputs[1].shape = {{query.shape.dims[1], query.shape.dims[0]}, 2};
    return std::nullopt;
}

}  // namespace sim::atb

namespace atb {

template <>
ATB_VISIBILITY Status CreateOperation(const infer::RingMLAParam& opParam, Operation** operation) {
    SIM_API_NAMED("atb::CreateOperation");
    const char* api = "atb::CreateOperation<RingMLAParam>";
    if (operation == nullptr) return sim::fail(api, ATB_ERROR_INVALID_PARAM, "operation is null; give an address");
    if (std::any_of(opParam.rsv, opParam.rsv + sizeof opParam.rsv, [](uint8_t byte) { return byte != 0; })) {
        return sim::fail(api, ATB_ERROR_INVALID_PARAM, "rsv holds a byte that is not 0; leave the reserved bytes alone");
    }
    sim::atb::RingMlaParams params = sim::atb::fromCpp(opParam);
    if (auto refusal = sim::atb::RingMla::check(params)) return sim::fail(api, *refusal);
    *operation = std::make_unique<sim::atb::RingMla>(params).release();
    return ATB_NO_ERROR;
}

template <>
ATB_VISIBILITY Status CloneOperationParam(const Operation* operation, infer::RingMLAParam& opParam) {
    SIM_API_NAMED("atb::CloneOperationParam");
    const sim::atb::RingMla* found = sim::atb::findRingMla(operation);
    if (!found) return sim::fail("atb::CloneOperationParam", ATB_ERROR_INVALID_PARAM, sim::atb::noRingMla);
    opParam = sim::atb::toCpp(found->params());
    return ATB_NO_ERROR;
}

template <>
ATB_VISIBILITY Status UpdateOperationParam(Operation* operation, const infer::RingMLAParam& opParam) {
    SIM_API_NAMED("atb::UpdateOperationParam");
    const char* api = "atb::UpdateOperationParam<RingMLAParam>";
    sim::atb::RingMla* found = sim::atb::findRingMla(operation);
    if (!found) return sim::fail(api, ATB_ERROR_INVALID_PARAM, sim::atb::noRingMla);
    sim::atb::RingMlaParams params = sim::atb::fromCpp(opParam);
    if (auto refusal = sim::atb::RingMla::check(params)) return sim::fail(api, *refusal);
    found->setParams(params);
    return ATB_NO_ERROR;
}

}  // namespace atb
