// How an operation of ATB is simulated: setup judges the tensors and plans, execute launches the kernel.
//
//     atb_Status AtbXGetWorkspaceSize(const aclTensor *a, int b, aclTensor *y, uint64_t *workspaceSize,
//                                     atb_Operation **op, atb_Context *context) {
//         sim::atb::PhaseOne call("AtbX", workspaceSize, op, context);
//         if (int32_t status = call.create<sim::atb::X>(sim::atb::XParams{b})) return status;
//         call.input("a", a);
//         call.output("y", y);
//         return call.setup();
//     }
//     atb_Status AtbX(void *workspace, uint64_t workspaceSize, atb_Operation *op, atb_Context *context) {
//         return sim::atb::phaseTwo("AtbX", workspace, workspaceSize, op, context);
//     }
//
// An operation that exists already is set up again with its own parameters; those of the call only decide which tensors
// the wrapper passes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "atb/objects.hpp"
#include "atb/operation.h"
#include "core/error.hpp"
#include "core/executor.hpp"
#include "core/objects.hpp"
#include "core/operator.hpp"

namespace sim::atb {

// One tensor as ATB sees it: view shape, dtype, format and address; strides and offset are ignored.
struct Tensor {
    const char* name;                            // the C parameter
    std::shared_ptr<const TensorObject> object;  // null: an empty descriptor
    bool host = false;                           // the address is one of the host, read in setup

    bool isNull() const { return object == nullptr; }
    const TensorDesc& desc() const;
    int64_t rank() const { return desc().rank(); }
    int64_t dim(size_t index) const { return desc().dim(index); }
    // Null, or a dimension of size 0 and no address.
    bool isEmpty() const;
};

struct Tensors {
    std::vector<Tensor> inputs, outputs;  // in the order of the operation

    // The tensor of a C parameter; one that was not passed is a null tensor.
    const Tensor& operator[](const char* name) const;
    bool has(const char* name) const { return !(*this)[name].isNull(); }
};

// What ATB's table of operations says of one operand: dtype and format by column; one entry stands for all columns.
struct OperandRule {
    std::vector<aclDataType> dtypes;
    aclFormat format = ACL_FORMAT_ND;
    bool optional = false;
    std::vector<aclFormat> formats = {};  // by column, instead of `format`

    aclDataType dtypeAt(size_t column) const { return dtypes[column % dtypes.size()]; }
    aclFormat formatAt(size_t column) const { return formats.empty() ? format : formats[column % formats.size()]; }
};

struct Definition {
    size_t columns;  // 0: the table does not list the operation, and any dtype and format passes
    std::vector<OperandRule> inputs, outputs;
};

// What setup decides once the tensors are legal.
struct Plan {
    // The runner or the kernel's own checks refuse: setup's status.
    std::optional<Rejection> refusal = {};
    // Tiling fails, which ATB only logs: setup returns 0 with workspace 0, execute 1.
    std::optional<Rejection> tilingFailure = {};
    uint64_t workspace = 0;
    Kernel kernel = {};
    std::vector<const char*> caches = {};  // of these operands the kernel tells which bytes it touches
};

// Gives the operands of a launch other addresses than in setup, or refuses.
using Readdress = std::function<std::optional<Rejection>(std::vector<Operand>&)>;

class Operation : public ::atb::Operation {
   public:
    Operation(const char* api, const char* name) : api_(api), name_(name) {}

    int32_t setUp(Tensors tensors, uint64_t& workspaceSize, ::atb::Context* context);
    int32_t execute(void* workspace, uint64_t workspaceSize, ::atb::Context* context, const Readdress& readdress = {});

    std::string GetName() const override { return name_; }
    uint32_t GetInputNum() const override { return static_cast<uint32_t>(definition().inputs.size()); }
    uint32_t GetOutputNum() const override { return static_cast<uint32_t>(definition().outputs.size()); }
    // These refuse and say so, unless the operation takes packs of tensors (variant_pack.hpp); AtbXxx does the work.
    ::atb::Status InferShape(const ::atb::SVector<::atb::TensorDesc>& inTensorDescs,
                             ::atb::SVector<::atb::TensorDesc>& outTensorDescs) const override;
    ::atb::Status Setup(const ::atb::VariantPack& variantPack, uint64_t& workspaceSize,
                        ::atb::Context* context) override;
    ::atb::Status Execute(const ::atb::VariantPack& variantPack, uint8_t* workspace, uint64_t workspaceSize,
                          ::atb::Context* context) override;

    uint32_t streamNumber = 0;  // SetExecuteStreamId

    // The context of the last good setup, into which the operation gives its buffers back; it may be gone by now.
    const ::atb::Context* context() const { return context_; }

   protected:
    virtual Definition definition() const = 0;
    // Ranks and shapes, inputs before outputs.
    virtual std::optional<Rejection> checkShapes(const Tensors& tensors) const = 0;
    virtual Plan plan(const Tensors& tensors) const = 0;
    const char* api() const { return api_; }

   private:
    const char* const api_;
    const char* const name_;
    std::mutex mutex_;                    // guards what follows
    std::shared_ptr<Executor> executor_;  // of the last good setup
    std::atomic<::atb::Context*> context_{nullptr};
    const Registered registered_{Kind::AtbOperation, static_cast<::atb::Operation*>(this), api_};
};

// The living operation at an address; nullptr for null and for what is none.
Operation* findOperation(::atb::Operation* operation);

// The first function of every pair.
class PhaseOne {
   public:
    PhaseOne(const char* api, uint64_t* workspaceSize, ::atb::Operation** op, ::atb::Context* context)
        : api_(api), workspaceSize_(workspaceSize), op_(op), context_(context) {}

    // Makes the operation unless there is one. `O` has O::check(params) -> optional<Rejection>, and O(params).
    template <typename O, typename Params>
    int32_t create(const Params& params) {
        if (op_ == nullptr || *op_ != nullptr) return ATB_NO_ERROR;
        if (auto refusal = O::check(params)) return fail(api_, *refusal);
        *op_ = std::make_unique<O>(params).release();
        return ATB_NO_ERROR;
    }

    // The tensors in the order in which ATB's wrapper packs them.
    void input(const char* name, const aclTensor* tensor) { add(tensors_.inputs, name, tensor, false); }
    void hostInput(const char* name, const aclTensor* tensor) { add(tensors_.inputs, name, tensor, true); }
    void output(const char* name, const aclTensor* tensor) { add(tensors_.outputs, name, tensor, false); }
    int32_t setup();

   private:
    void add(std::vector<Tensor>& list, const char* name, const aclTensor* tensor, bool host);

    const char* api_;
    uint64_t* workspaceSize_;
    ::atb::Operation** op_;
    ::atb::Context* context_;
    Tensors tensors_;
    std::optional<Rejection> badTensor_;
};

// The second function of every pair.
int32_t phaseTwo(const char* api, void* workspace, uint64_t workspaceSize, ::atb::Operation* op,
                 ::atb::Context* context);

}  // namespace sim::atb
