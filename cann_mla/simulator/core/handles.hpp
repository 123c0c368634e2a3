// The registry behind every handle that the simulator gives out.
//
// A handle is not a pointer but a number that names a slot and the slot's generation, so that a dead, foreign or
// mistyped handle is recognised by arithmetic and a table look-up, and never by touching memory that may be gone:
//     bits 56..63  0x5A: keeps the value out of every address range, so that dereferencing it faults at once
//     bits 48..55  the kind
//     bits 24..47  generation of the slot
//     bits  0..23  slot
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/origin.hpp"

namespace sim __attribute__((visibility("default"))) {

enum class Kind : uint8_t {
    Tensor,
    TensorList,
    Scalar,
    ScalarList,
    IntArray,
    FloatArray,
    BoolArray,
    Executor,
    Context,
    Stream,
    Event,
    Notify,
    AllocatorDesc,
    PhysicalMemory,
    MemPool,
    AtbContext,
    AtbOperation,
    HcclComm,
    Count,
};

// "aclTensor", "stream", ...
const char *kindName(Kind kind);

// Base of everything a handle can stand for.
class Object {
   public:
    virtual ~Object() = default;
    // What it is like, for findings: "[2, 16] BF16 ND".
    virtual std::string text() const { return ""; }

    Origin made;
    bool implicit = false;  // made on the way by the runtime, which ends it too
};

// Who or what ended a handle.
struct Ending {
    const char *by = "";    // the C function; "" when unknown
    bool consumed = false;  // ended by doing its work (an executor by phase two), not by a destroy call
    Origin at = {};         // filled in by retire()
};

enum class State { Null, Live, Dead, Foreign };

void *makeHandle(Kind kind, std::shared_ptr<Object> object, const char *api);

// The object of a live handle of that kind; nullptr for everything else.
std::shared_ptr<Object> lookup(const void *handle, Kind kind);

// Puts another object behind a live handle; false when the handle is not live.
bool replaceObject(const void *handle, Kind kind, std::shared_ptr<Object> object);

// Ends a live handle and returns its object; nullptr when it was not live.
std::shared_ptr<Object> retire(const void *handle, Kind kind, Ending ending);

State stateOf(const void *handle, Kind kind);

// How a dead handle ended, as long as its slot was not used again.
Ending endingOf(const void *handle);

// What is known of a handle, living or dead. Unknown parts stay empty.
struct HandleRecord {
    Origin made;
    Ending ending;
    std::string text;  // Object::text(); of dead objects in strict mode only, and of those that hold no resources
};
HandleRecord recordOf(const void *handle);

// "aclTensor 0x5a... was destroyed by aclDestroyTensor", "... is an aclScalar, not an aclTensor", "... is no handle
// of the simulator".
std::string describeBadHandle(const void *handle, Kind expected);

// The same, for a function that was given the handle: in strict mode, the use of a dead one is a finding.
std::string badHandle(const void *handle, Kind expected);

int64_t liveHandles(Kind kind);

// Calls `visit` for every live handle; handles made or ended meanwhile may or may not be seen.
void forEachHandle(const std::function<void(Kind, void *, const Object &)> &visit);

template <typename T>
std::shared_ptr<T> lookupAs(const void *handle, Kind kind) {
    return std::static_pointer_cast<T>(lookup(handle, kind));
}

// A small number that names the calling thread in texts and records.
uint64_t threadNumber();

}  // namespace sim
