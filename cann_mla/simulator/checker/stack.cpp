#include "checker/stack.hpp"

#include <pthread.h>
#include <unwind.h>

namespace sim {
namespace {

// Bytes of stack between the end of one frame and the end of the frame that called it, by return address.
class FrameSizes {
   public:
    static constexpr uintptr_t kUnknown = 0;
    static constexpr uintptr_t kVaries = 1;  // no frame is so small

    uintptr_t of(uintptr_t address) const {
        const Entry &entry = entryOf(address);
        return entry.address == address ? entry.size : kUnknown;
    }

    void learn(uintptr_t address, uintptr_t size) {
        Entry &entry = entries_[indexOf(address)];
        const bool contradicts = entry.address == address && entry.size != size;
        entry = {address, contradicts ? kVaries : size};
    }

   private:
    struct Entry {
        uintptr_t address;
        uintptr_t size;
    };
    static constexpr size_t kEntries = 1024;
    static size_t indexOf(uintptr_t address) { return (address ^ address >> 10) % kEntries; }
    const Entry &entryOf(uintptr_t address) const { return entries_[indexOf(address)]; }

    std::array<Entry, kEntries> entries_{};
};

thread_local FrameSizes sizes;

#if defined(__x86_64__)

constexpr bool kKnowsWhereReturnAddressesAre = true;

// The return address of a frame is the last word in it.
__attribute__((no_sanitize("address", "thread"))) uintptr_t returnAddressBelow(uintptr_t frameEnd) {
    return *reinterpret_cast<const volatile uintptr_t *>(frameEnd - sizeof(uintptr_t));
}

#else

constexpr bool kKnowsWhereReturnAddressesAre = false;
uintptr_t returnAddressBelow(uintptr_t) { return 0; }

#endif

// The address past the stack of this thread.
uintptr_t stackEnd() {
    thread_local uintptr_t end = [] {
        pthread_attr_t attributes;
        if (pthread_getattr_np(pthread_self(), &attributes) != 0) return uintptr_t{0};
        void *start = nullptr;
        size_t size = 0;
        pthread_attr_getstack(&attributes, &start, &size);
        pthread_attr_destroy(&attributes);
        return reinterpret_cast<uintptr_t>(start) + size;
    }();
    return end;
}

struct Walk {
    uintptr_t start;  // the frames before it are the simulator's own
    Stack stack;
    std::array<uintptr_t, kFrames> ends{};  // of the frames that each return address leads out of
};

_Unwind_Reason_Code visit(_Unwind_Context *context, void *argument) {
    auto &walk = *static_cast<Walk *>(argument);
    const uintptr_t address = _Unwind_GetIP(context);
    if (walk.stack.count == 0 && address != walk.start) return _URC_NO_REASON;
    if (address == 0) return _URC_END_OF_STACK;
    walk.ends[walk.stack.count] = _Unwind_GetCFA(context);
    walk.stack.frames[walk.stack.count++] = address;
    return walk.stack.count == kFrames ? _URC_END_OF_STACK : _URC_NO_REASON;
}

}  // namespace

Stack unwind(const void *returnAddress) {
    Walk walk{reinterpret_cast<uintptr_t>(returnAddress), {}, {}};
    _Unwind_Backtrace(visit, &walk);
    if (walk.stack.count == 0) walk.stack = {{walk.start}, 1};  // a caller without unwind tables
    if (!kKnowsWhereReturnAddressesAre) return walk.stack;
    for (size_t i = 0; i + 1 < walk.stack.count; ++i) {
        const bool there = returnAddressBelow(walk.ends[i + 1]) == walk.stack.frames[i + 1];
        sizes.learn(walk.stack.frames[i], there ? walk.ends[i + 1] - walk.ends[i] : FrameSizes::kVaries);
    }
    return walk.stack;
}

Stack guess(const void *returnAddress, const void *frameEnd) {
    Stack stack;
    if (!kKnowsWhereReturnAddressesAre || frameEnd == nullptr) return stack;
    uintptr_t address = reinterpret_cast<uintptr_t>(returnAddress), end = reinterpret_cast<uintptr_t>(frameEnd);
    const uintptr_t limit = stackEnd();
    for (;;) {
        stack.frames[stack.count++] = address;
        if (stack.count == kFrames) return stack;
        const uintptr_t size = sizes.of(address);
        if (size == FrameSizes::kUnknown) return stack;  // perhaps the outermost frame
        end += size;
        if (size == FrameSizes::kVaries || end > limit) return {};
        address = returnAddressBelow(end);
    }
}

}  // namespace sim
