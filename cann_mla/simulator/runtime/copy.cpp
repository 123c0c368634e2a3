// Copying and setting memory. The sides are told from the addresses, as CANN does: `kind` is only checked for its range.
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "acl/acl_rt.h"
#include "checker/memory_rules.hpp"
#include "core/device_memory.hpp"
#include "core/entry.hpp"
#include "core/settings.hpp"
#include "runtime/context.hpp"
#include "runtime/host_memory.hpp"

using sim::fail;
using sim::StreamChoice;

namespace {

// A rectangle of `height` rows of `width` bytes; a plain copy has one row.
struct Shape {
    size_t width;
    size_t height;
};

struct Side {
    const char *name;
    const void *address;
    size_t pitch;
};

size_t extent(const Side &side, Shape shape) {
    size_t bytes = 0;
    bool tooLarge = __builtin_mul_overflow(shape.height - 1, side.pitch, &bytes) ||
                    __builtin_add_overflow(bytes, shape.width, &bytes);
    return tooLarge ? SIZE_MAX : bytes;
}

// Asks the kernel to read the first and the last byte, which tells wild pointers and most of the wrong lengths.
std::optional<std::string> hostFault(const void *address, size_t bytes) {
    uintptr_t first = reinterpret_cast<uintptr_t>(address);
    bool wraps = bytes > SIZE_MAX - first;
    for (uintptr_t at : {first, first + (bytes - 1)}) {
        char byte;
        iovec into{&byte, 1}, from{reinterpret_cast<void *>(at), 1};
        if (!wraps && (process_vm_readv(getpid(), &into, 1, &from, 1, 0) == 1 || errno != EFAULT)) continue;
        char text[32];
        std::snprintf(text, sizeof text, "%p", address);
        return std::to_string(bytes) + " bytes at " + text + " are no memory of this process";
    }
    return std::nullopt;
}

// Why the bytes of a side cannot be touched, if they cannot.
std::optional<std::string> faultOf(const Side &side, Shape shape) {
    size_t bytes = extent(side, shape);
    auto fault = sim::isDeviceAddress(side.address) ? sim::rangeFault(side.address, bytes) : hostFault(side.address, bytes);
    return fault ? std::make_optional(std::string(side.name) + ": " + *fault) : std::nullopt;
}

char *reach(const Side &side) {
    void *alias = sim::isDeviceAddress(side.address) ? sim::hostAlias(side.address) : const_cast<void *>(side.address);
    return static_cast<char *>(alias);
}

void copyNow(const Side &dst, const Side &src, Shape shape) {
    char *to = reach(dst);
    const char *from = reach(src);
    for (size_t row = 0; row < shape.height; ++row) {
        std::memmove(to + row * dst.pitch, from + row * src.pitch, shape.width);
    }
}

sim::checker::CopySide sideFor(const Side &side, Shape shape, size_t room = SIZE_MAX) {
    return {side.address, shape.width, side.pitch, shape.height, room};
}

// What strict mode has to know of a copy.
sim::checker::Uses usesOf(const Side &dst, const Side &src, Shape shape) {
    const bool toHost = !sim::isDeviceAddress(dst.address);
    sim::checker::Use read = useOf("", sideFor(src, shape), toHost ? sim::checker::Reads::Surely : sim::checker::Reads::Maybe, false);
    sim::checker::Use written = useOf("", sideFor(dst, shape), sim::checker::Reads::No, true);
    written.copyOf = 0;
    return {std::move(read), std::move(written)};
}

void judge(const Side &dst, size_t room, const Side &src, Shape shape, aclrtMemcpyKind kind) {
    bool sensible = shape.width <= dst.pitch && shape.width <= src.pitch && shape.height > 0;
    if (sim::strict() && sensible) sim::checker::checkCopy(sideFor(dst, shape, room), sideFor(src, shape), kind);
}

aclError checkSides(const char *api, const Side &dst, const Side &src, Shape shape) {
    for (const Side &side : {dst, src}) {
        if (auto fault = faultOf(side, shape)) return fail(api, ACL_ERROR_RT_PARAM_INVALID, *fault);
    }
    return ACL_SUCCESS;
}

// A synchronous copy tells of faults that no synchronisation has told yet; they stay to be told there.
aclError pendingFault(const char *api, sim::Context &context) {
    for (const auto &stream : context.streams()) {
        if (auto fault = stream->peekFault()) return fail(api, fault->status, fault->text);
    }
    return ACL_SUCCESS;
}

aclError copySync(const char *api, const Side &dst, const Side &src, Shape shape) {
    auto context = sim::currentContext();
    if (!context) return fail(api, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    if (aclError status = checkSides(api, dst, src, shape)) return status;
    if (aclError status = pendingFault(api, *context)) return status;
    if (sim::strict()) sim::checker::hostTouches(usesOf(dst, src, shape));
    copyNow(dst, src, shape);
    return ACL_SUCCESS;
}

// Checked once more when its turn comes: the memory may be gone by then.
void enqueueCopy(const char *api, sim::Stream &stream, const Side &dst, const Side &src, Shape shape) {
    sim::checker::TaskNote note;
    if (sim::strict()) note.uses = usesOf(dst, src, shape);
    auto copy = [dst, src, shape] {
        for (const Side &side : {dst, src}) {
            if (auto fault = faultOf(side, shape)) throw sim::KernelFault(ACL_ERROR_RT_DEVICE_MEM_ERROR, *fault);
        }
        copyNow(dst, src, shape);
    };
    stream.enqueue(api, copy, std::move(note));
}

bool isPageable(const void *address) { return !sim::isDeviceAddress(address) && !sim::isPinned(address); }

aclError copyAsync(const char *api, const Side &dst, const Side &src, Shape shape, aclrtStream stream) {
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(api, choice.status, choice.text);
    if (!sim::isDeviceAddress(dst.address) && !sim::isDeviceAddress(src.address)) {
        return fail(api, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "dst and src are both host memory; use memcpy or aclrtMemcpy");
    }
    if (aclError status = checkSides(api, dst, src, shape)) return status;
    if (!isPageable(dst.address) && !isPageable(src.address)) {
        enqueueCopy(api, *choice.stream, dst, src, shape);
        return ACL_SUCCESS;
    }
    // Pageable memory may move under an asynchronous copy: wait for the stream, then copy at once.
    if (choice.stream->isOwnWorker()) return fail(api, ACL_ERROR_RT_PARAM_INVALID, "a host function cannot wait for its stream");
    choice.stream->waitIdle(std::nullopt);
    if (auto fault = choice.stream->takeFault()) return fail(api, fault->status, fault->text);
    if (sim::strict()) sim::checker::hostTouches(usesOf(dst, src, shape));
    copyNow(dst, src, shape);
    return ACL_SUCCESS;
}

aclError checkCopy(const char *api, const void *dst, size_t destMax, const void *src, size_t count,
                   aclrtMemcpyKind kind) {
    if (dst == nullptr || src == nullptr) {
        return fail(api, ACL_ERROR_INVALID_PARAM, dst == nullptr ? "dst is null" : "src is null");
    }
    if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
        return fail(api, ACL_ERROR_INVALID_PARAM, "kind is " + std::to_string(kind) + "; 0 to 5 are taken here");
    }
    if (count > destMax) {
        return fail(api, ACL_ERROR_RT_PARAM_INVALID,
                    "count is " + std::to_string(count) + ", more than destMax " + std::to_string(destMax));
    }
    return ACL_SUCCESS;
}

aclError checkCopy2d(const char *api, const void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                     aclrtMemcpyKind kind) {
    if (dst == nullptr || src == nullptr) {
        return fail(api, ACL_ERROR_INVALID_PARAM, dst == nullptr ? "dst is null" : "src is null");
    }
    if (width > dpitch || width > spitch) {
        return fail(api, ACL_ERROR_INVALID_PARAM,
                    "width is " + std::to_string(width) + ", more than dpitch " + std::to_string(dpitch) +
                        " or spitch " + std::to_string(spitch));
    }
    if (kind < ACL_MEMCPY_HOST_TO_DEVICE || kind > ACL_MEMCPY_DEFAULT) {
        return fail(api, ACL_ERROR_INVALID_PARAM, "kind is " + std::to_string(kind) + "; 1 to 4 are taken here");
    }
    return ACL_SUCCESS;
}

// Fills `count` items of `itemSize` bytes with `value`; the number of bytes is known to fit.
void fillNow(void *address, uint32_t value, size_t itemSize, size_t count) {
    char *to = reach({"devPtr", address, 0});
    if (itemSize == 1) {
        std::memset(to, static_cast<int>(value), count);
        return;
    }
    for (size_t i = 0; i < count; ++i) std::memcpy(to + i * sizeof value, &value, sizeof value);
}

struct Fill {
    void *address;
    size_t room;
    uint32_t value;
    size_t itemSize;
    size_t count;
};

sim::checker::CopySide sideFor(const Fill &fill) {
    const size_t bytes = fill.count * fill.itemSize;
    return {fill.address, bytes, bytes, 1, fill.room};
}

aclError checkFill(const char *api, const Fill &fill) {
    bool countable = fill.count <= SIZE_MAX / fill.itemSize;
    if (sim::strict() && countable) sim::checker::checkFill(sideFor(fill));
    if (fill.address == nullptr) return fail(api, ACL_ERROR_INVALID_PARAM, "devPtr is null");
    if (fill.count > fill.room / fill.itemSize) {
        return fail(api, ACL_ERROR_RT_PARAM_INVALID,
                    std::to_string(fill.count) + " items of " + std::to_string(fill.itemSize) +
                        " bytes do not fit into " + std::to_string(fill.room) + " bytes");
    }
    if (reinterpret_cast<uintptr_t>(fill.address) % fill.itemSize != 0) {
        return fail(api, ACL_ERROR_INVALID_PARAM, "the address is not aligned to 4 bytes");
    }
    if (isPageable(fill.address)) {
        return fail(api, ACL_ERROR_RT_PARAM_INVALID, "the address is host memory; give device memory, or use memset");
    }
    auto fault = faultOf({"devPtr", fill.address, 0}, {fill.count * fill.itemSize, 1});
    return fault ? fail(api, ACL_ERROR_RT_PARAM_INVALID, *fault) : ACL_SUCCESS;
}

aclError fillSync(const char *api, const Fill &fill) {
    if (fill.count == 0) return ACL_SUCCESS;
    if (!sim::currentContext()) return fail(api, ACL_ERROR_RT_CONTEXT_NULL, sim::noContext());
    if (aclError status = checkFill(api, fill)) return status;
    if (sim::strict()) sim::checker::hostTouches({useOf("", sideFor(fill), sim::checker::Reads::No, true)});
    fillNow(fill.address, fill.value, fill.itemSize, fill.count);
    return ACL_SUCCESS;
}

aclError fillAsync(const char *api, const Fill &fill, aclrtStream stream) {
    if (fill.count == 0) return ACL_SUCCESS;
    StreamChoice choice = sim::chooseStream(stream);
    if (!choice) return fail(api, choice.status, choice.text);
    if (aclError status = checkFill(api, fill)) return status;
    sim::checker::TaskNote note;
    if (sim::strict()) note.uses = {useOf("", sideFor(fill), sim::checker::Reads::No, true)};
    auto task = [fill] {
        auto fault = faultOf({"devPtr", fill.address, 0}, {fill.count * fill.itemSize, 1});
        if (fault) throw sim::KernelFault(ACL_ERROR_RT_DEVICE_MEM_ERROR, *fault);
        fillNow(fill.address, fill.value, fill.itemSize, fill.count);
    };
    choice.stream->enqueue(api, task, std::move(note));
    return ACL_SUCCESS;
}

}  // namespace

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind) {
    SIM_API;
    if (count == 0) return ACL_SUCCESS;
    judge({"dst", dst, count}, destMax, {"src", src, count}, {count, 1}, kind);
    if (aclError status = checkCopy(__func__, dst, destMax, src, count, kind)) return status;
    return copySync(__func__, {"dst", dst, count}, {"src", src, count}, {count, 1});
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
    SIM_API;
    if (count == 0) return ACL_SUCCESS;
    judge({"dst", dst, count}, destMax, {"src", src, count}, {count, 1}, kind);
    if (aclError status = checkCopy(__func__, dst, destMax, src, count, kind)) return status;
    return copyAsync(__func__, {"dst", dst, count}, {"src", src, count}, {count, 1}, stream);
}

aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                                       aclrtStream stream) {
    SIM_API;
    if (count == 0) return ACL_SUCCESS;
    judge({"dst", dst, count}, destMax, {"src", src, count}, {count, 1}, kind);
    if (aclError status = checkCopy(__func__, dst, destMax, src, count, kind)) return status;
    if (isPageable(dst) || isPageable(src)) {
        return fail(__func__, ACL_ERROR_RT_PARAM_INVALID, "host memory must be pinned here: take it from aclrtMallocHost");
    }
    return copyAsync(__func__, {"dst", dst, count}, {"src", src, count}, {count, 1}, stream);
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
    SIM_API;
    if (width == 0 || height == 0) return ACL_SUCCESS;
    judge({"dst", dst, dpitch}, SIZE_MAX, {"src", src, spitch}, {width, height}, kind);
    if (aclError status = checkCopy2d(__func__, dst, dpitch, src, spitch, width, kind)) return status;
    return copySync(__func__, {"dst", dst, dpitch}, {"src", src, spitch}, {width, height});
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
    SIM_API;
    if (width == 0 || height == 0) return ACL_SUCCESS;
    judge({"dst", dst, dpitch}, SIZE_MAX, {"src", src, spitch}, {width, height}, kind);
    if (aclError status = checkCopy2d(__func__, dst, dpitch, src, spitch, width, kind)) return status;
    return copyAsync(__func__, {"dst", dst, dpitch}, {"src", src, spitch}, {width, height}, stream);
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count) {
    SIM_API;
    return fillSync(__func__, {devPtr, maxCount, static_cast<uint32_t>(value), 1, count});
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    SIM_API;
    return fillAsync(__func__, {devPtr, maxCount, static_cast<uint32_t>(value), 1, count}, stream);
}

aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N) {
    SIM_API;
    return fillSync(__func__, {ptr, memSize, value, 4, N});
}

aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream) {
    SIM_API;
    return fillAsync(__func__, {ptr, memSize, value, 4, N}, stream);
}
