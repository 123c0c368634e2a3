// How an operator of the simulator is written: phase one judges and plans, a kernel runs later on a stream.
//
//     aclnnStatus aclnnXGetWorkspaceSize(const aclTensor *x, double epsilon, const aclTensor *yOut,
//                                        uint64_t *workspaceSize, aclOpExecutor **executor) {
//         sim::PhaseOne call("aclnnX", workspaceSize, executor);
//         XParams params{call.input("x", x), epsilon, call.output("yOut", yOut)};   // all operands, in C order
//         if (auto refusal = checkX(params)) return call.reject(*refusal);
//         if (auto refusal = call.checkViews()) return call.reject(*refusal);       // 561103 for bad strides
//         return call.accept(workspaceOfX(params), [=](const sim::Launch &launch) {
//             xKernel(launch.in("x"), epsilon, launch.out("yOut"));
//         });
//     }
//     aclnnStatus aclnnX(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
//         return sim::phaseTwo("aclnnX", workspace, workspaceSize, executor, stream);
//     }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"
#include "checker/numeric_faults.hpp"
#include "core/error.hpp"
#include "core/executor.hpp"
#include "core/handles.hpp"
#include "core/product.hpp"
#include "core/tensor.hpp"

namespace sim __attribute__((visibility("default"))) {

namespace checker {
class Touches;
}

class PhaseOne {
   public:
    PhaseOne(const char *api, uint64_t *workspaceSize, aclOpExecutor **executor);
    PhaseOne(const PhaseOne &) = delete;
    PhaseOne &operator=(const PhaseOne &) = delete;

    // Registers one operand; call for every tensor parameter in the order of the C prototype, null ones too, because
    // aclSet*TensorAddr counts them. `name` must be a string literal. Returns nullptr for a null handle, and for a dead
    // or foreign one: then reject and accept answer with the refusal of that handle, whatever they are told.
    // Descriptions live as long as the call and the executor it makes.
    const TensorDesc *input(const char *name, const aclTensor *tensor, View view = View::Copied);
    const TensorDesc *output(const char *name, const aclTensor *tensor);
    // Read and written (names ending in Ref). A strided view is gathered before and scattered back after the kernel.
    const TensorDesc *inplace(const char *name, const aclTensor *tensor, View view = View::Copied);
    // nullopt for a null list; entries are nullptr where the list holds null.
    std::optional<std::vector<const TensorDesc *>> inputList(const char *name, const aclTensorList *list,
                                                             View view = View::Copied);
    std::optional<std::vector<const TensorDesc *>> outputList(const char *name, const aclTensorList *list);
    // Says of an operand (of all entries of a list) that the kernel does not touch every byte of it.
    void touches(const char *name, Touch touch);
    // Host arguments; nullptr for null. Valid during the call only: copy what the kernel needs.
    const std::vector<int64_t> *intArray(const char *name, const aclIntArray *array);
    const std::vector<float> *floatArray(const char *name, const aclFloatArray *array);
    const std::vector<uint8_t> *boolArray(const char *name, const aclBoolArray *array);
    // The value as double, exact for integers up to 2^53; nullopt for null.
    std::optional<double> scalar(const char *name, const aclScalar *scalar);

    bool executorIsNull() const { return executor_ == nullptr; }
    bool workspaceSizeIsNull() const { return workspaceSize_ == nullptr; }

    // 561103 for the first input or in-place operand whose strided view leaves its storage or has a negative stride.
    // CANN asks this after the operator definition's dtypes and formats (161002) and before tiling (561002).
    std::optional<Rejection> checkViews() const;
    // Every registered output (in-place operands included) is there and empty, or null: CANN then returns 0 with
    // workspace 0 before tiling. False when no output is there.
    bool allOutputsEmpty() const;

    // Ends the call: sets the thread's error text to "api: text" and returns the status. *executor is left alone.
    int32_t reject(int32_t status, const std::string &text);
    int32_t reject(const Rejection &rejection) { return reject(rejection.status, rejection.text); }
    // Ends the call: makes the executor. The workspace grows by what copying strided operands costs.
    int32_t accept(uint64_t workspaceBytes, Kernel kernel);
    // Ends the call: an executor with workspace 0 whose phase two does nothing.
    int32_t acceptEmpty();
    // Ends the call with 0 although phase two will refuse: operators whose tiling errors CANN drops in phase one.
    int32_t acceptUntilPhaseTwo(const Rejection &rejection);

   private:
    const TensorDesc *add(const char *name, const aclTensor *tensor, Role role, View view);
    std::optional<std::vector<const TensorDesc *>> addList(const char *name, const aclTensorList *list, Role role,
                                                           View view);
    // The workspace with what copying strided operands costs.
    uint64_t withCopies(uint64_t workspaceBytes) const;
    // The object of a live handle; null for null, and for a bad handle, which is remembered.
    std::shared_ptr<Object> open(const char *name, const void *handle, Kind kind);

    const char *api_;
    uint64_t *workspaceSize_;
    aclOpExecutor **executor_;
    std::vector<Operand> operands_;
    std::vector<std::shared_ptr<Object>> pinned_;  // host arguments, for as long as the call lasts
    std::optional<Rejection> badHandle_;
};

// One run of an executor. Addresses are those of the moment phase two was called.
class Launch {
   public:
    // The readable address of a dense input (or in-place operand); nullptr for null and empty operands. A name that
    // was never registered is a programming error and faults the launch.
    const void *in(const char *name) const;
    // The writable address of an output or in-place operand.
    void *out(const char *name) const;
    // The operand was not null in phase one.
    bool has(const char *name) const;
    std::vector<const void *> inList(const char *name) const;
    std::vector<void *> outList(const char *name) const;
    template <typename T>
    const T *in(const char *name) const { return static_cast<const T *>(in(name)); }
    template <typename T>
    T *out(const char *name) const { return static_cast<T *>(out(name)); }
    // Whether anybody wants to hear what the kernel touches of operands with Touch::Told; if not, don't work it out.
    bool isWatched() const { return touches_ != nullptr; }
    // Bytes of such an operand that the kernel touches; any thread of it may tell, and bytes of others are ignored.
    void reads(const void *from, size_t bytes) const {
        if (touches_ != nullptr) touch(from, bytes, false);
    }
    void writes(const void *to, size_t bytes) const {
        if (touches_ != nullptr) touch(to, bytes, true);
    }
    // The caller's workspace, nullptr when its size is 0.
    void *workspace() const { return workspace_; }
    uint64_t workspaceSize() const { return workspaceSize_; }
    // The kernel has to imitate a fault that fault injection asks for.
    bool suffers(NumericFault fault) const { return faults_ != nullptr && faults_->has(fault); }

   private:
    friend class Run;
    struct Address {
        const char *name;
        void *address;
        bool present;
        bool placeholder;
    };
    const Address &find(const char *name) const;
    void touch(const void *address, size_t bytes, bool writes) const;
    std::vector<void *> list(const char *name) const;
    std::vector<Address> addresses_;  // the entries of a list stand together under one name
    void *workspace_ = nullptr;
    uint64_t workspaceSize_ = 0;
    const NumericFaults *faults_ = nullptr;
    checker::Touches *touches_ = nullptr;
};

// The second function of every operator. Status rules: executor null 161001; workspace null while the size is not 0
// 161001; workspaceSize below what phase one asked for 161002. The executor ends here unless it is repeatable.
int32_t phaseTwo(const char *api, void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                 aclrtStream stream);

class Stream;
// The end of phase two, past all checks: one run of the executor, on the addresses it has now.
void enqueueRun(const char *api, std::shared_ptr<Executor> executor, void *workspace, uint64_t workspaceSize,
                Stream &stream);

}  // namespace sim
