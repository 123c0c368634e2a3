#include "checker/memory_rules.hpp"

#include <string>
#include <utility>

#include "acl/acl_rt.h"
#include "checker/conflicts.hpp"
#include "checker/words.hpp"
#include "core/device_memory.hpp"

namespace sim::checker {
namespace {

Finding finding(const char *rule, const Actor &actor, std::string what) {
    Finding result;
    result.rule = rule;
    result.what = nameOf(actor) + " " + std::move(what);
    result.broken = actor.origin;
    return result;
}

std::string hex(const void *address) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", address);
    return text;
}

const char *sideName(bool onDevice) { return onDevice ? "device" : "host"; }

size_t extentOf(const CopySide &side) { return side.pitch * (side.height - 1) + side.width; }

// Reports a side that ends behind its allocation, or lies in freed memory.
void checkSide(const char *name, const CopySide &side, const Actor &actor, Findings &findings) {
    const size_t bytes = extentOf(side);
    if (side.width * side.height > side.room) {
        findings.push_back(finding("copy-exceeds-buffer", actor,
                                   "touches " + std::to_string(side.width * side.height) + " bytes of " + name +
                                       ", but is told that it has " + std::to_string(side.room)));
    }
    std::shared_ptr<Memory> memory = world().memories.find(side.address);
    if (!memory) {
        Use use = useOf(name, side, Reads::No, false);
        resolve(use, actor, nullptr, findings);
        return;
    }
    const size_t room = memory->size - memory->offsetOf(side.address);
    if (bytes <= room) return;
    Finding exceeds = finding("copy-exceeds-buffer", actor,
                              "touches " + std::to_string(bytes) + " bytes from " + hex(side.address) + " (" + name +
                                  "), but its allocation ends after " + std::to_string(room));
    exceeds.object = textOf(*memory, "", nullptr);
    exceeds.made = memory->made;
    findings.push_back(std::move(exceeds));
}

void checkDirection(const CopySide &dst, const CopySide &src, int kind, const Actor &actor, Findings &findings) {
    const bool toDevice = isDeviceAddress(dst.address), fromDevice = isDeviceAddress(src.address);
    bool wantTo, wantFrom;
    switch (kind) {
        case ACL_MEMCPY_HOST_TO_HOST: wantFrom = false, wantTo = false; break;
        case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
        case ACL_MEMCPY_HOST_TO_DEVICE: wantFrom = false, wantTo = true; break;
        case ACL_MEMCPY_DEVICE_TO_HOST: wantFrom = true, wantTo = false; break;
        case ACL_MEMCPY_DEVICE_TO_DEVICE: wantFrom = true, wantTo = true; break;
        default: return;
    }
    if (wantTo == toDevice && wantFrom == fromDevice) return;
    findings.push_back(finding("wrong-copy-direction", actor,
                               std::string("is told to copy from ") + sideName(wantFrom) + " to " + sideName(wantTo) +
                                   ", but src " + hex(src.address) + " is " + sideName(fromDevice) + " memory and dst " +
                                   hex(dst.address) + " is " + sideName(toDevice) + " memory"));
    const void *onDevice = toDevice ? dst.address : src.address;
    if (auto memory = world().memories.find(onDevice)) {
        findings.back().object = textOf(*memory, "", nullptr);
        findings.back().made = memory->made;
    }
}

void checkOverlap(const CopySide &dst, const CopySide &src, const Actor &actor, Findings &findings) {
    auto absolute = [](const CopySide &side) {
        return Footprint::rows(reinterpret_cast<uintptr_t>(side.address), side.width, side.pitch, side.height);
    };
    auto common = absolute(dst).overlap(absolute(src));
    if (!common) return;
    Finding overlap = finding("overlapping-copy", actor,
                              "copies " + std::to_string(src.width * src.height) + " bytes from " + hex(src.address) +
                                  " to " + hex(dst.address) + ": " + std::to_string(common->end - common->begin) +
                                  " bytes belong to both");
    if (auto memory = world().memories.find(dst.address)) {
        overlap.object = textOf(*memory, "", nullptr);
        overlap.made = memory->made;
    }
    findings.push_back(std::move(overlap));
}

// Why a free call fails, or nothing where that is not known.
void checkBadFree(const void *address, bool pinned, const Actor &actor, Findings &findings) {
    const bool onDevice = isDeviceAddress(address);
    if (onDevice && pinned) {
        findings.push_back(finding("device-pointer-for-host", actor, "is given " + hex(address) + ", which is device memory"));
        findings.back().fix = "free it with aclrtFree";
        return;
    }
    auto gone = world().memories.findFreed(address);
    bool startsThere = gone && gone->begin == reinterpret_cast<uintptr_t>(address);
    if (startsThere && (gone->device == kHostMemory) == pinned) {
        Actor before{gone->freed, 0, gone->freed.stream < 0};
        Finding again = finding("double-free", actor,
                                "frees memory that " + nameOf(before) + placeOf(before) + " freed before");
        again.object = textOf(*gone, "", nullptr);
        again.made = gone->made;
        findings.push_back(std::move(again));
    } else if (onDevice && !world().memories.find(address)) {
        findings.push_back(finding("double-free", actor, "is given " + hex(address) + ", where no memory is allocated: it "
                                                         "was freed long ago, or never handed out"));
    } else if (!onDevice && !pinned) {
        findings.push_back(finding("host-pointer-for-device", actor, "is given " + hex(address) + ", which is host memory"));
        findings.back().fix = "free it with aclrtFreeHost, or as it was allocated";
    }
}

}  // namespace

Use useOf(const char *name, const CopySide &side, Reads reads, bool writes) {
    Use use;
    use.name = name;
    use.address = side.address;
    use.where = Footprint::rows(0, side.width, side.pitch, side.height);
    use.reads = reads;
    use.writes = writes;
    return use;
}

void allocated(const void *address, size_t size, int32_t device) {
    Origin made = captureOrigin();
    std::lock_guard lock(world().mutex);
    world().refresh();
    world().memories.add(address, size, device, made);
}

bool freeing(const void *address, bool pinned) {
    Findings findings;
    bool used = false;
    const Actor actor = currentActor();
    const std::shared_ptr<const Clock> task = knowledge();
    {
        std::lock_guard lock(world().mutex);
        world().refresh();
        auto memory = world().memories.find(address);
        bool right = memory && memory->begin == reinterpret_cast<uintptr_t>(address) &&
                     (memory->device == kHostMemory) == pinned;
        if (right) {
            checkFree(*memory, actor, task ? *task : *world().host(), findings);
            used = !findings.empty();
            world().memories.free(memory, actor.origin, actor.number);
        } else {
            checkBadFree(address, pinned, actor, findings);
        }
    }
    reportAll(findings);
    return used;
}

void freeingLater(const void *address, const Lane &lane) {
    Origin origin = captureOrigin(lane.stream);
    std::lock_guard lock(world().mutex);
    world().refresh();
    auto memory = world().memories.find(address);
    if (!memory) return;
    memory->freed = origin;
    memory->freeing = Epoch{lane.place, lane.queued};
}

void hostTouches(Uses uses) {
    Findings findings;
    Actor now = currentActor();
    {
        std::lock_guard lock(world().mutex);
        world().refresh();
        now.number = world().nextNumber();
        auto actor = std::make_shared<const Actor>(now);
        const Clock known = *world().host();
        const Epoch epoch = world().hostActs();
        for (Use &use : uses) {
            resolve(use, *actor, nullptr, findings);
            if (!use.memory) continue;
            Access access{use.where.movedBy(use.memory->offsetOf(use.address)), use.writes, false, epoch, actor, "", {}};
            checkPending(*use.memory, access, findings);
            if (use.reads == Reads::Surely) checkWritten(use, use.where, *actor, findings);
            enter(*use.memory, access, known, {}, findings);
        }
        for (const Use &use : uses) {
            if (!use.memory || !use.writes) continue;
            const Use *source = use.copyOf < 0 ? nullptr : &uses[static_cast<size_t>(use.copyOf)];
            if (source && source->memory && source->memory->device != kHostMemory) {
                copyState(*source, use);
            } else {
                use.memory->written.add(use.where.movedBy(use.memory->offsetOf(use.address)));
            }
        }
    }
    reportAll(findings);
}

void checkCopy(const CopySide &dst, const CopySide &src, int kind) {
    if (dst.address == nullptr || src.address == nullptr || src.height == 0) return;
    Findings findings;
    const Actor actor = currentActor();
    {
        std::lock_guard lock(world().mutex);
        world().refresh();
        checkDirection(dst, src, kind, actor, findings);
        checkSide("dst", dst, actor, findings);
        checkSide("src", src, actor, findings);
        checkOverlap(dst, src, actor, findings);
    }
    reportAll(findings);
}

void checkFill(const CopySide &dst) {
    if (dst.address == nullptr) return;
    Findings findings;
    const Actor actor = currentActor();
    {
        std::lock_guard lock(world().mutex);
        world().refresh();
        checkSide("devPtr", dst, actor, findings);
        if (!isDeviceAddress(dst.address) && !world().memories.find(dst.address)) {
            findings.push_back(finding("host-pointer-for-device", actor,
                                       "is given " + hex(dst.address) + ", which is host memory"));
        }
    }
    reportAll(findings);
}

}  // namespace sim::checker
