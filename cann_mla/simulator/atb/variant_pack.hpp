// An operation that takes its tensors from a VariantPack too: the C++ interface of ATB.
#pragma once

#include <optional>
#include <vector>

#include "atb/operation.hpp"

namespace sim::atb {

// A place in the pack.
struct Slot {
    const char* name;
    bool host = false;  // hostData holds it, which setup reads
};

struct Slots {
    std::vector<Slot> inputs, outputs;
};

class PackOperation : public Operation {
   public:
    using Operation::Operation;

    ::atb::Status InferShape(const ::atb::SVector<::atb::TensorDesc>& inTensorDescs,
                             ::atb::SVector<::atb::TensorDesc>& outTensorDescs) const override;
    ::atb::Status Setup(const ::atb::VariantPack& variantPack, uint64_t& workspaceSize,
                        ::atb::Context* context) override;
    // An empty pack stands for the tensors of setup; any other only gives new addresses to what setup planned.
    ::atb::Status Execute(const ::atb::VariantPack& variantPack, uint8_t* workspace, uint64_t workspaceSize,
                          ::atb::Context* context) override;

   protected:
    virtual Slots slots() const = 0;
    // Ranks and shapes of the inputs alone.
    virtual std::optional<Rejection> checkInputs(const Tensors& tensors) const = 0;
    // Shape, dtype and format of each output, for inputs that passed; or why there is none.
    virtual std::optional<Rejection> inferOutputs(const ::atb::SVector<::atb::TensorDesc>& inputs,
                                                  ::atb::SVector<::atb::TensorDesc>& outputs) const = 0;
};

}  // namespace sim::atb
