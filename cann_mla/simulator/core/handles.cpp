#include "core/handles.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <new>

#include "checker/lifetimes.hpp"
#include "core/settings.hpp"

namespace sim {
namespace {

constexpr uint64_t kTag = 0x5A;
constexpr uint32_t kSlotBits = 24;
constexpr uint32_t kMask = (1u << kSlotBits) - 1;
constexpr size_t kChunkSize = 4096;
constexpr size_t kChunkCount = (size_t{1} << kSlotBits) / kChunkSize;
// A slot rests until this many others were freed after it, so that a dead handle can say how it ended.
constexpr size_t kRestingSlots = 8192;

struct Slot {
    std::mutex mutex;
    uint64_t handle = 0;  // the live handle; 0 while free
    uint32_t generation = 0;
    std::shared_ptr<Object> object;
    // Of the handle that lived here before:
    uint64_t lastHandle = 0;
    Ending ending;
    Origin lastMade;
    std::shared_ptr<Object> lastObject;  // for its text
};

// Never destroyed: worker threads and the caller's own static destructors may still hold handles at exit.
struct Registry {
    std::mutex mutex;
    std::array<std::atomic<Slot *>, kChunkCount> chunks{};
    uint32_t used = 0;
    std::deque<uint32_t> resting;
    std::array<std::atomic<int64_t>, static_cast<size_t>(Kind::Count)> live{};
};

Registry &registry() {
    static Registry &instance = *new Registry;
    return instance;
}

uint64_t compose(Kind kind, uint32_t generation, uint32_t index) {
    return kTag << 56 | static_cast<uint64_t>(kind) << 48 | static_cast<uint64_t>(generation & kMask) << kSlotBits |
           index;
}

bool looksLikeHandle(uint64_t word) {
    return word >> 56 == kTag && (word >> 48 & 0xFF) < static_cast<uint64_t>(Kind::Count);
}

Kind kindOf(uint64_t word) { return static_cast<Kind>(word >> 48 & 0xFF); }

// Objects that hold nothing but memory of the host, so that they can be kept for their text.
bool isPlainData(Kind kind) { return kind < Kind::Executor; }

Slot *slotOf(uint64_t word) {
    if (!looksLikeHandle(word)) return nullptr;
    uint32_t index = word & kMask;
    Slot *chunk = registry().chunks[index / kChunkSize].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &chunk[index % kChunkSize];
}

uint32_t takeSlot() {
    Registry &r = registry();
    std::lock_guard lock(r.mutex);
    if (r.resting.size() > kRestingSlots || r.used > kMask) {
        if (r.resting.empty()) throw std::bad_alloc();  // 16 million live handles
        uint32_t index = r.resting.front();
        r.resting.pop_front();
        return index;
    }
    uint32_t index = r.used++;
    if (index % kChunkSize == 0) {
        r.chunks[index / kChunkSize].store(new Slot[kChunkSize], std::memory_order_release);
    }
    return index;
}

uint64_t wordOf(const void *handle) { return reinterpret_cast<uintptr_t>(handle); }

}  // namespace

const char *kindName(Kind kind) {
    static constexpr std::array<const char *, static_cast<size_t>(Kind::Count)> names = {
        "aclTensor",    "aclTensorList", "aclScalar",     "aclScalarList",  "aclIntArray",       "aclFloatArray",
        "aclBoolArray", "aclOpExecutor", "context",       "stream",         "event",             "notify",
        "allocator",    "physical memory", "memory pool", "atb::Context",   "atb::Operation",
        "communicator"};
    return names[static_cast<size_t>(kind)];
}

void *makeHandle(Kind kind, std::shared_ptr<Object> object, const char *api) {
    object->made = originOf(api);
    uint32_t index = takeSlot();
    Slot &slot = registry().chunks[index / kChunkSize].load(std::memory_order_acquire)[index % kChunkSize];
    std::lock_guard lock(slot.mutex);
    slot.generation++;
    slot.handle = compose(kind, slot.generation, index);
    slot.object = std::move(object);
    slot.lastObject.reset();
    registry().live[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
    return reinterpret_cast<void *>(static_cast<uintptr_t>(slot.handle));
}

std::shared_ptr<Object> lookup(const void *handle, Kind kind) {
    uint64_t word = wordOf(handle);
    Slot *slot = slotOf(word);
    if (slot == nullptr || kindOf(word) != kind) return nullptr;
    std::lock_guard lock(slot->mutex);
    return slot->handle == word ? slot->object : nullptr;
}

bool replaceObject(const void *handle, Kind kind, std::shared_ptr<Object> object) {
    uint64_t word = wordOf(handle);
    Slot *slot = slotOf(word);
    if (slot == nullptr || kindOf(word) != kind) return false;
    std::lock_guard lock(slot->mutex);
    if (slot->handle != word) return false;
    object->made = slot->object->made;
    slot->object.swap(object);
    return true;
}

std::shared_ptr<Object> retire(const void *handle, Kind kind, Ending ending) {
    uint64_t word = wordOf(handle);
    Slot *slot = slotOf(word);
    if (slot == nullptr || kindOf(word) != kind) return nullptr;
    ending.at = originOf(ending.by);
    std::shared_ptr<Object> object;
    {
        std::lock_guard lock(slot->mutex);
        if (slot->handle != word) return nullptr;
        object = std::move(slot->object);
        slot->object.reset();
        slot->handle = 0;
        slot->lastHandle = word;
        slot->ending = ending;
        slot->lastMade = object->made;
        if (strict() && isPlainData(kind)) slot->lastObject = object;
    }
    Registry &r = registry();
    r.live[static_cast<size_t>(kind)].fetch_sub(1, std::memory_order_relaxed);
    std::lock_guard lock(r.mutex);
    r.resting.push_back(word & kMask);
    return object;
}

State stateOf(const void *handle, Kind kind) {
    if (handle == nullptr) return State::Null;
    uint64_t word = wordOf(handle);
    Slot *slot = slotOf(word);
    if (slot == nullptr || kindOf(word) != kind) return State::Foreign;
    std::lock_guard lock(slot->mutex);
    return slot->handle == word ? State::Live : State::Dead;
}

Ending endingOf(const void *handle) {
    Slot *slot = slotOf(wordOf(handle));
    if (slot == nullptr) return {};
    std::lock_guard lock(slot->mutex);
    return slot->lastHandle == wordOf(handle) ? slot->ending : Ending{};
}

HandleRecord recordOf(const void *handle) {
    Slot *slot = slotOf(wordOf(handle));
    if (slot == nullptr) return {};
    std::shared_ptr<Object> object;
    HandleRecord record;
    {
        std::lock_guard lock(slot->mutex);
        if (slot->handle == wordOf(handle)) {
            object = slot->object;
            record.made = object->made;
        } else if (slot->lastHandle == wordOf(handle)) {
            object = slot->lastObject;
            record.made = slot->lastMade;
            record.ending = slot->ending;
        }
    }
    if (object) record.text = object->text();
    return record;
}

std::string describeBadHandle(const void *handle, Kind expected) {
    char address[32];
    std::snprintf(address, sizeof address, "%p", handle);
    std::string text = std::string(kindName(expected)) + " " + address;
    if (stateOf(handle, expected) == State::Dead) {
        Ending ending = endingOf(handle);
        if (*ending.by == '\0') return text + " was destroyed before";
        return text + (ending.consumed ? " was used up by " : " was destroyed by ") + ending.by;
    }
    uint64_t word = wordOf(handle);
    if (looksLikeHandle(word) && kindOf(word) != expected) {
        return std::string(address) + " is a handle of kind " + kindName(kindOf(word)) + ", not of kind " +
               kindName(expected);
    }
    return text + " is not a handle that the simulator gave out";
}

std::string badHandle(const void *handle, Kind expected) {
    if (strict() && stateOf(handle, expected) == State::Dead) checker::tellDeadHandle(handle, expected);
    return describeBadHandle(handle, expected);
}

int64_t liveHandles(Kind kind) { return registry().live[static_cast<size_t>(kind)].load(std::memory_order_relaxed); }

void forEachHandle(const std::function<void(Kind, void *, const Object &)> &visit) {
    Registry &r = registry();
    uint32_t used;
    {
        std::lock_guard lock(r.mutex);
        used = r.used;
    }
    for (uint32_t index = 0; index < used; ++index) {
        Slot &slot = r.chunks[index / kChunkSize].load(std::memory_order_acquire)[index % kChunkSize];
        std::shared_ptr<Object> object;
        uint64_t word;
        {
            std::lock_guard lock(slot.mutex);
            object = slot.object;
            word = slot.handle;
        }
        if (object) visit(kindOf(word), reinterpret_cast<void *>(static_cast<uintptr_t>(word)), *object);
    }
}

uint64_t threadNumber() {
    static std::atomic<uint64_t> next{1};
    thread_local uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
    return number;
}

}  // namespace sim
