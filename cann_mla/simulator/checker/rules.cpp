#include "checker/rules.hpp"

#include <cstring>

namespace sim {
namespace {

constexpr Rule rules[] = {
    // Lifetimes
    {"double-destroy", "lifetime", "A handle is destroyed once.", "remove the second destroy call"},
    {"use-after-destroy", "lifetime", "A destroyed handle may not be passed to any function.",
     "destroy it after its last use"},
    {"destroyed-list-member", "lifetime", "aclDestroyTensorList and aclDestroyScalarList destroy the members too.",
     "destroy the list and leave its members to it"},
    {"leaked-list", "lifetime", "A list is an object of its own: destroying its members does not free it.",
     "destroy the list, which destroys the members"},
    {"tensor-destroyed-between-phases", "lifetime", "The tensors of a call must live until its phase two has returned.",
     "destroy the tensor after phase two"},
    {"executor-used-twice", "lifetime", "Phase two uses the executor up: one phase two for one phase one.",
     "call phase one again, or make the executor repeatable with aclSetAclOpExecutorRepeatable right after phase one"},
    {"executor-never-run", "lifetime", "Phase two frees the executor that phase one made.",
     "call phase two, or aclDestroyAclOpExecutor when the call is not wanted any more"},
    {"repeatable-executor-leaked", "lifetime", "Phase two does not free an executor that was made repeatable.",
     "call aclDestroyAclOpExecutor after its last run"},
    {"refresh-of-null-operand", "lifetime",
     "aclSet*TensorAddr changes the address of an operand that phase one got; one that was null there has none.",
     "call phase one again with a tensor there"},
    {"operation-outlives-context", "lifetime", "An atb::Operation frees its buffers through its atb::Context.",
     "destroy the operation first, then the context"},

    {"communicator-destroyed-with-work", "lifetime", "A communicator lives until the operations queued with it are done.",
     "synchronise the stream before HcclCommDestroy"},

    // Memory
    {"freed-in-use", "memory", "Device memory may be freed once the work that uses it is done; aclrtFree waits for nothing.",
     "synchronise the stream before the memory is freed"},
    {"use-after-free", "memory", "Freed memory may not be used.", "free the memory after its last use"},
    {"double-free", "memory", "Memory is freed once.", "remove the second free call"},
    {"host-pointer-for-device", "memory", "Tensors, workspaces and the device side of copies take device addresses.",
     "allocate the memory with aclrtMalloc and copy the data there"},
    {"device-pointer-for-host", "memory", "The host cannot reach device memory.", "copy the data to the host first"},
    {"memory-of-another-device", "memory", "A stream works on memory of its own device.",
     "allocate the memory, or make the stream, while the other device is current"},
    {"out-of-bounds-write", "memory", "An allocation ends after the bytes that were asked for.",
     "make the buffer as large as the tensor or the copy needs"},
    {"uninitialised-read", "memory", "Device memory holds nothing in particular until it is written.",
     "write it first, with a copy, aclrtMemset or an operator"},
    {"workspace-too-small", "memory", "Phase two needs the workspace that phase one asked for.",
     "allocate as many bytes as phase one gave in workspaceSize"},
    {"misaligned-address", "memory", "The address of a tensor's data is a multiple of 32 bytes.",
     "align what is cut out of a larger allocation"},
    {"view-leaves-storage", "memory", "Every element of a view lies in its storage, and the storage in its allocation.",
     "correct the shape, strides, offset or storage shape"},
    {"overlapping-copy", "memory", "Source and destination of a copy do not overlap.", "copy by way of another buffer"},
    {"copy-exceeds-buffer", "memory", "A copy stays inside both buffers.", "copy at most what both of them hold"},
    {"wrong-copy-direction", "memory", "The kind of a copy names where its two addresses lie.",
     "give the kind that fits the addresses"},

    // Order
    {"unordered-access", "order", "Streams run side by side unless an event or a synchronisation orders them.",
     "record an event after the first access and let the other stream wait for it"},
    {"shared-workspace", "order", "A workspace belongs to one launch until that is done.",
     "give each stream a workspace of its own, or order the launches"},
    {"read-before-writer", "order", "What a stream computes is there once the stream was synchronised.",
     "synchronise the stream before the host reads"},
    {"event-never-recorded", "order", "A wait for an event that nobody records does not end.",
     "record the event (or notify) before the wait is queued"},
    {"stream-destroyed-with-work", "order", "A stream is destroyed when its work is done.",
     "synchronise the stream before it is destroyed"},
    {"thread-without-device", "order", "Each thread chooses its device or context before it calls the runtime.",
     "call aclrtSetDevice or aclrtSetCurrentContext in this thread first"},

    // The process
    {"leak", "process", "What a program makes it destroys before aclFinalize.", "destroy it when it is not needed any more"},
    {"init-twice", "process", "aclInit is called once a process; a repeat returns 100002, which is to be taken as success.",
     "call it once, or go on when it returns 100002"},

    // What an operator does with its arguments
    {"ignored-operand", "semantic", "Some operands have no effect in some modes.",
     "pass null, or choose a mode that reads it", true},
    {"contradicting-lengths", "semantic",
     "Layout TND without rope compares only the last length with the tokens; what is missing is read past the end.",
     "give one length and one row of the block table for each sequence"},
    {"ignored-strides", "semantic", "ATB ignores strides and offsets and reads dense memory.",
     "make the tensor dense, or give the address of its first element"},
    {"swallowed-tiling", "semantic", "ATB only logs a failed tiling in setup; the launch is refused.",
     "correct the arguments that the text names"},
    {"ring-mla-trap", "semantic", "RingMLA goes by its attributes and does not compare them with its tensors.",
     "make attributes and tensors agree"},
};

}  // namespace

Rule ruleOf(const char *id) {
    for (const Rule &rule : rules) {
        if (std::strcmp(rule.id, id) == 0) return rule;
    }
    return {id, "semantic", "", "", false};
}

}  // namespace sim
