// What an aclOpExecutor stands for: the operands and the kernel of one planned call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/handles.hpp"
#include "core/objects.hpp"

namespace sim __attribute__((visibility("default"))) {

class Launch;

// Runs on the worker thread of the stream. May throw KernelFault; any other exception becomes 507015.
using Kernel = std::function<void(const Launch &)>;

// What phase one does with a strided input.
enum class View : uint8_t {
    Copied,  // the rule: gathered densely before the kernel, at the price of workspace
    AsIs,    // the operator reads the strides itself (FIA V5 on Ascend950 for key, value and keyRope)
    StridesIgnored,  // taken as dense from `data + offset`, whatever the strides (MlaPrologV3's caches on Ascend950)
    Host,    // `data` is a host address, read in phase one; no device check, Launch hands it out unchanged
};

enum class Role : uint8_t { Input, Inplace, Output };

// Which bytes of an operand the kernel touches, for the checks of strict mode.
enum class Touch : uint8_t {
    All,   // every one
    Some,  // perhaps not every one
    Told,  // those that it tells with Launch::reads and Launch::writes
};

// One tensor of a call. Parameters keep their place when they are null; so do null members of lists.
struct Operand {
    const char *name;
    Role role;
    View view;
    bool inList;
    bool placeholder;    // stands for a null or empty list: holds the parameter's place, is not counted
    uint32_t parameter;  // which tensor parameter of the prototype, lists counting once
    std::shared_ptr<const TensorObject> tensor;  // null when absent
    void *address;       // the tensor's data; aclSet*TensorAddr changes it
    Touch touch = Touch::All;
    const aclTensor *handle = nullptr;  // as phase one got it

    // Has to be gathered before the kernel runs (and scattered back after it, in place).
    bool isCopied() const;
    // Bytes that the kernel touches from `address + offset`.
    int64_t touchedBytes() const;
};

class Executor : public Object {
   public:
    std::string text() const override { return std::string("of ") + api; }

    const char *api = "";
    uint64_t workspaceBytes = 0;
    Kernel kernel;  // empty: nothing to compute
    std::optional<Rejection> refusal;  // what phase two answers instead of launching
    std::mutex mutex;  // guards what follows
    std::vector<Operand> operands;
    bool repeatable = false;
};

}  // namespace sim
