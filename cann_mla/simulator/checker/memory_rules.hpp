// What the runtime's memory functions tell the checker, and what it finds wrong with them. For strict mode; holds no
// locks while it reports. The call is the one that the thread is in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checker/uses.hpp"

namespace sim::checker {

struct Lane;

// An allocation of a device, or (kHostMemory) pinned memory of the host.
void allocated(const void *address, size_t size, int32_t device);
// Memory is about to be freed: call it before the addresses can be given out again. Reports what is wrong with it; tells
// whether queued work may still be using it.
bool freeing(const void *address, bool pinned);
// A stream will free it.
void freeingLater(const void *address, const Lane &lane);

// The host itself touches memory, at once.
void hostTouches(Uses uses);

struct CopySide {
    const void *address;
    size_t width;   // bytes in a row
    size_t pitch;   // bytes from row to row
    size_t height;  // rows
    size_t room;    // as the caller says; SIZE_MAX where it says nothing
};

// Direction, extent and overlap. `kind` is an aclrtMemcpyKind.
void checkCopy(const CopySide &dst, const CopySide &src, int kind);
// An asynchronous or synchronous fill of device memory.
void checkFill(const CopySide &dst);

Use useOf(const char *name, const CopySide &side, Reads reads, bool writes);

}  // namespace sim::checker
