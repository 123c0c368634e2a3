#include "checker/launch_rules.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "checker/conflicts.hpp"
#include "checker/words.hpp"
#include "core/device_memory.hpp"

namespace sim::checker {
namespace {

constexpr uintptr_t kAlignment = 32;

std::string hex(const void *address) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", address);
    return text;
}

// Collects what is wrong with the addresses of one launch. The world is locked.
class Judge {
   public:
    Judge(int32_t device, const Actor &actor, Findings &findings) : device_(device), actor_(actor), findings_(findings) {}

    // `bytes`: from `use.address` to the end of what the kernel touches. Finds the memory of the use.
    void judge(Use &use, const void *base, size_t bytes) {
        if (use.address == nullptr || !isDeviceAddress(use.address)) {
            return tell("host-pointer-for-device", use,
                        use.address == nullptr ? "is null" : "lies at " + hex(use.address) + ", which is host memory");
        }
        if (reinterpret_cast<uintptr_t>(base) % kAlignment != 0) {
            tell("misaligned-address", use, "lies at " + hex(base) + ", which is no multiple of 32");
        }
        const size_t before = findings_.size();
        resolve(use, actor_, nullptr, findings_);
        if (findings_.size() > before) {
            use.address = nullptr;  // told once
            return;
        }
        const char *tooFar = use.workspace ? "workspace-too-small" : use.writes ? "out-of-bounds-write" : "view-leaves-storage";
        if (!use.memory) return tell(tooFar, use, "lies at " + hex(use.address) + ", outside of every allocation");
        if (use.memory->device != device_) {
            return tell("memory-of-another-device", use,
                        "lies on device " + std::to_string(use.memory->device) + ", the stream is one of device " +
                            std::to_string(device_));
        }
        const size_t room = use.memory->size - use.memory->offsetOf(use.address);
        if (bytes > room) {
            tell(tooFar, use,
                 "needs " + std::to_string(bytes) + " bytes, but its allocation ends after " + std::to_string(room));
            use.memory = nullptr;  // the launch will fault
            use.address = nullptr;
        }
    }

    void tell(const char *rule, const Use &use, std::string what) {
        Finding finding;
        finding.rule = rule;
        finding.what = nameOf(actor_) + ": " + use.name + " " + std::move(what);
        if (use.memory) {
            finding.object = textOf(*use.memory, use.name, use.tensor.get());
            finding.made = use.memory->made;
        } else if (use.tensor) {
            finding.object = {"aclTensor", nullptr, std::string(use.name) + " " + textOf(use.tensor->desc)};
            finding.made = use.tensor->made;
        }
        finding.broken = actor_.origin;
        findings_.push_back(std::move(finding));
    }

   private:
    const int32_t device_;
    const Actor &actor_;
    Findings &findings_;
};

Reads readsOf(const Operand &operand) {
    // In place, "...Ref" is CANN's name for what is read and written; other operands are in place for their strides only.
    const std::string_view name = operand.name;
    const bool updated = operand.role == Role::Inplace && name.size() > 3 && name.substr(name.size() - 3) == "Ref";
    if (operand.role != Role::Input && !updated) return Reads::No;
    if (operand.touch == Touch::Told) return Reads::Maybe;
    return operand.touch == Touch::All ? Reads::Surely : Reads::Some;
}

Use useOf(const Operand &operand) {
    const TensorDesc &desc = operand.tensor->desc;
    const bool dense = operand.role == Role::Output || operand.view == View::StridesIgnored;
    Use use;
    use.name = operand.name;
    use.address = firstElement(operand);
    use.where = footprintOf(desc, dense);
    use.reads = readsOf(operand);
    use.writes = operand.role != Role::Input;
    use.sparse = operand.touch == Touch::Told && !operand.isCopied();
    use.tensor = operand.tensor;
    return use;
}

}  // namespace

void *firstElement(const Operand &operand) {
    // Any address and any offset are taken, so this wraps; whether the memory is there is asked later.
    const TensorDesc &desc = operand.tensor->desc;
    const int64_t bits = elementBits(desc.dtype);
    uint64_t bytes = bits % 8 == 0 ? static_cast<uint64_t>(desc.offset) * static_cast<uint64_t>(bits / 8)
                                   : static_cast<uint64_t>(desc.offset / 8 * bits + desc.offset % 8 * bits / 8);
    return reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(operand.address) + bytes);
}

Uses usesOf(const std::vector<Operand> &operands, const void *workspace, uint64_t workspaceBytes, int32_t device,
            int32_t stream) {
    Uses uses(operands.size() + 1);
    Findings findings;
    const Actor actor{captureOrigin(stream), 0, false};
    {
        std::lock_guard lock(world().mutex);
        world().refresh();
        Judge judge(device, actor, findings);
        for (size_t i = 0; i < operands.size(); ++i) {
            const Operand &operand = operands[i];
            if (!operand.tensor || operand.tensor->desc.isEmpty()) continue;
            if (operand.view == View::Host) continue;
            uses[i] = useOf(operand);
            judge.judge(uses[i], operand.address, static_cast<size_t>(operand.touchedBytes()));
        }
        if (workspaceBytes > 0) {
            Use &use = uses.back();
            use.name = "workspace";
            use.address = workspace;
            use.where = Footprint(0, workspaceBytes);
            use.writes = use.workspace = true;
            judge.judge(use, workspace, workspaceBytes);
        }
    }
    reportAll(findings);
    return uses;
}

void tellSmallWorkspace(const Executor &executor, const void *handle, uint64_t given) {
    report({"workspace-too-small",
            "workspaceSize is " + std::to_string(given) + ", phase one asked for " +
                std::to_string(executor.workspaceBytes),
            {"aclOpExecutor", handle, std::string("of ") + executor.api},
            executor.made});
}

void tellDevicePointer(const char *name, const TensorObject &tensor) {
    report({"device-pointer-for-host",
            std::string(name) + " is read by the host, but lies at device address " + hex(tensor.desc.data),
            {"aclTensor", nullptr, std::string(name) + " " + textOf(tensor.desc)},
            tensor.made});
}

void checkView(const TensorObject &tensor) {
    const TensorDesc &desc = tensor.desc;
    if (desc.isEmpty() || desc.storageShape.empty() || isPrivateFormat(desc.format) || desc.staysInStorage()) return;
    auto list = [](const std::vector<int64_t> &values) {
        std::string text = "[";
        for (size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
        return text + "]";
    };
    const bool backwards =
        std::any_of(desc.strides.begin(), desc.strides.end(), [](int64_t stride) { return stride < 0; });
    report({"view-leaves-storage",
            "a view with strides " + list(desc.strides) + " and offset " + std::to_string(desc.offset) +
                (backwards ? " goes backwards, which no operator takes; its storage has the shape "
                           : " leaves its storage of shape ") +
                list(desc.storageShape),
            {"aclTensor", nullptr, textOf(desc)},
            tensor.made});
}

}  // namespace sim::checker
