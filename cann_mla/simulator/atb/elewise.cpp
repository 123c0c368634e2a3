// Two helpers of ATB's C++ programs: the cast, which brings floats into 16 bits, and the change of format, which is only
// named.
#include <algorithm>
#include <memory>
#include <string>

#include "atb/infer_op_params.h"
#include "atb/variant_pack.hpp"
#include "core/entry.hpp"
#include "core/error.hpp"
#include "numeric/convert.hpp"

namespace sim::atb {

namespace {

using ::atb::infer::ElewiseParam;

// Pairs of ATB's table, each of which the kernel knows.
void castElements(aclDataType from, aclDataType to, const void* source, void* destination, size_t n) {
    auto in16 = static_cast<const uint16_t*>(source);
    auto out16 = static_cast<uint16_t*>(destination);
    if (from == ACL_FLOAT16) return numeric::fp16ToFloat(in16, static_cast<float*>(destination), n);
    if (from == ACL_BF16) return numeric::bf16ToFloat(in16, static_cast<float*>(destination), n);
    if (to == ACL_FLOAT16) return numeric::floatToFp16(static_cast<const float*>(source), out16, n);
    if (to == ACL_BF16) return numeric::floatToBf16(static_cast<const float*>(source), out16, n);
    if (to == ACL_INT64) {
        auto in = static_cast<const int32_t*>(source);
        std::copy(in, in + n, static_cast<int64_t*>(destination));
        return;
    }
    auto in = static_cast<const int64_t*>(source);
    std::transform(in, in + n, static_cast<int32_t*>(destination), [](int64_t v) { return static_cast<int32_t>(v); });
}

class ElewiseCast final : public PackOperation {
   public:
    explicit ElewiseCast(aclDataType to) : PackOperation("atb::Operation(ElewiseCast)", "ElewiseOperation"), to_(to) {}

   protected:
    Definition definition() const override {
        return {6,
                {{{ACL_FLOAT16, ACL_FLOAT, ACL_INT32, ACL_INT64, ACL_BF16, ACL_FLOAT}}},
                {{{ACL_FLOAT, ACL_FLOAT16, ACL_INT64, ACL_INT32, ACL_FLOAT, ACL_BF16}}}};
    }
    Slots slots() const override { return {{{"x"}}, {{"output"}}}; }
    std::optional<Rejection> checkInputs(const Tensors&) const override { return std::nullopt; }
    // ATB compares nothing; what the kernel would write past the output's end is a fault.
    std::optional<Rejection> checkShapes(const Tensors&) const override { return std::nullopt; }

    std::optional<Rejection> inferOutputs(const ::atb::SVector<::atb::TensorDesc>& inputs,
                                          ::atb::SVector<::atb::TensorDesc>& outputs) const override {
        outputs[0] = inputs[0];
        outputs[0].dtype = to_ != ACL_DT_UNDEFINED ? to_ : inputs[0].dtype == ACL_FLOAT ? ACL_FLOAT16 : ACL_FLOAT;
        for (aclDataType known : {ACL_FLOAT16, ACL_FLOAT, ACL_INT32, ACL_INT64, ACL_BF16}) {
            if (outputs[0].dtype == known) return std::nullopt;
        }
        return Rejection{ATB_ERROR_INVALID_PARAM, std::string("outTensorType is ") + dtypeName(to_) +
                                                      "; it can be FLOAT16, FLOAT, INT32, INT64 or BF16"};
    }

    Plan plan(const Tensors& t) const override {
        aclDataType from = t["x"].desc().dtype, to = t["output"].desc().dtype;
        int64_t count = t["x"].desc().numel(), room = t["output"].desc().numel();
        return {std::nullopt, std::nullopt, 0, [=](const Launch& launch) {
                    if (room < count) {
                        throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION,
                                          "output holds " + std::to_string(room) + " of x's " + std::to_string(count) +
                                              " elements");
                    }
                    castElements(from, to, launch.in("x"), launch.out("output"), static_cast<size_t>(count));
                }};
    }

   private:
    const aclDataType to_;
};

}  // namespace

}  // namespace sim::atb

namespace atb {

template <>
ATB_VISIBILITY Status CreateOperation(const infer::ElewiseParam& opParam, Operation** operation) {
    SIM_API_NAMED("atb::CreateOperation");
    const char* api = "atb::CreateOperation<ElewiseParam>";
    if (operation == nullptr) return sim::fail(api, ATB_ERROR_INVALID_PARAM, "operation is null; give an address");
    if (opParam.elewiseType != infer::ElewiseParam::ELEWISE_CAST) {
        return sim::fail(api, ATB_ERROR_INVALID_PARAM,
                         "elewiseType is " + std::to_string(opParam.elewiseType) + "; only 1 (the cast) is simulated");
    }
    *operation = std::make_unique<sim::atb::ElewiseCast>(opParam.outTensorType).release();
    return ATB_NO_ERROR;
}

// Programs name it through helpers that they may never call; a format is changed with aclnnNpuFormatCast here.
template <>
ATB_VISIBILITY Status CreateOperation(const infer::TransdataParam&, Operation**) {
    SIM_API_NAMED("atb::CreateOperation");
    return sim::fail("atb::CreateOperation<TransdataParam>", ATB_ERROR_INVALID_PARAM,
                     "the change of format is not simulated as an operation; use aclnnNpuFormatCast");
}

}  // namespace atb
