#include <cstring>

#include "ops/scatter_pa_kv_cache.hpp"

namespace sim::scatter_pa_kv_cache {

namespace {

constexpr int32_t deviceFault = 507015;
constexpr int64_t fractalBytes = 32;

// One of the two copies; sizes in bytes.
struct Copy {
    const char *from, *to;
    int64_t heads, width, room, blockSize;
};

struct Task {
    Mode mode;
    int64_t tokens, slots;
    bool wideSlots;
    std::vector<Copy> copies;
};

[[noreturn]] void fault(const std::string &text) { throw KernelFault(deviceFault, text); }

bool isFlat(Mode mode) { return mode == Mode::Norm || mode == Mode::KeyOnly; }

// A flat cache holds tokens as they are; a block of another one holds piece after piece of all its tokens.
void copyToken(const Task &task, const Copy &copy, const uint8_t *token, int64_t slot, uint8_t *cache,
               const Launch &launch) {
    int64_t row = copy.heads * copy.width;
    if (isFlat(task.mode)) {
        std::memcpy(cache + slot * row, token, static_cast<size_t>(row));
        launch.writes(cache + slot * row, static_cast<size_t>(row));
        return;
    }
    int64_t piece = task.mode == Mode::Nz ? fractalBytes : copy.width;
    uint8_t *block = cache + slot / copy.blockSize * copy.blockSize * row;
    int64_t inBlock = slot % copy.blockSize;
    for (int64_t i = 0; i < row / piece; ++i) {
        uint8_t *place = block + (i * copy.blockSize + inBlock) * piece;
        std::memcpy(place, token + i * piece, static_cast<size_t>(piece));
        launch.writes(place, static_cast<size_t>(piece));
    }
}

// The slots that lie in the cache as a whole.
int64_t slotsOf(const Task &task, const Copy &copy) {
    int64_t slots = copy.room / (copy.heads * copy.width);
    if (isFlat(task.mode)) return slots;
    if (copy.blockSize <= 0) fault(std::string(copy.to) + " has no blocks");
    return slots / copy.blockSize * copy.blockSize;
}

void run(const Task &task, const Launch &launch) {
    if (task.slots < task.tokens) {
        fault("slotMapping has " + std::to_string(task.slots) + " elements for " + std::to_string(task.tokens) +
              " tokens");
    }
    const void *slots = launch.in("slotMapping");
    for (const Copy &copy : task.copies) {
        const auto *from = launch.in<uint8_t>(copy.from);
        auto *to = launch.out<uint8_t>(copy.to);
        int64_t row = copy.heads * copy.width;
        if (row == 0) continue;
        int64_t room = slotsOf(task, copy);
        for (int64_t token = 0; token < task.tokens; ++token) {
            int64_t slot = task.wideSlots ? static_cast<const int64_t *>(slots)[token]
                                          : static_cast<const int32_t *>(slots)[token];
            if (slot < 0) continue;
            if (slot >= room) {
                fault("slotMapping sends token " + std::to_string(token) + " to slot " + std::to_string(slot) + " of " +
                      copy.to + ", which has " + std::to_string(room));
            }
            launch.reads(from + token * row, static_cast<size_t>(row));
            copyToken(task, copy, from + token * row, slot, to, launch);
        }
    }
}

int64_t blockSizeOf(Mode mode, const TensorDesc &cache) {
    return axis(cache, mode == Mode::Nz ? cache.rank() - 2 : mode == Mode::Nhsd ? 2 : 1);
}

Copy makeCopy(Mode mode, const char *from, const TensorDesc &data, const char *to, const TensorDesc &cache) {
    int64_t bytes = bytesOf(data.dtype);
    return {from, to, axis(data, 1), axis(data, 2) * bytes, cache.numel() * bytes, blockSizeOf(mode, cache)};
}

const char *nameOfCompression(Mode mode) {
    switch (mode) {
        case Mode::Rope: return "Rope";
        case Mode::Alibi: return "Alibi";
        case Mode::Omni: return "Omni";
        default: return "Nct";
    }
}

}  // namespace

Kernel makeKernel(const Params &p, Mode mode) {
    bool copies = mode == Mode::Norm || mode == Mode::KeyOnly || mode == Mode::Nz || mode == Mode::Nhsd;
    if (!copies) {
        return [mode](const Launch &) {
            primitive::failWithoutKernel(std::string("scatterModeOptional ") + nameOfCompression(mode));
        };
    }
    if (primitive::isOneOf(p.key->dtype, {ACL_FLOAT4_E1M2, ACL_FLOAT4_E2M1}) ||
        primitive::isOneOf(p.value->dtype, {ACL_FLOAT4_E1M2, ACL_FLOAT4_E2M1})) {
        return [](const Launch &) { primitive::failWithoutKernel("4-bit caches"); };
    }
    Task task{mode, axis(*p.key, 0), p.slots->numel(), p.slots->dtype == ACL_INT64, {}};
    task.copies.push_back(makeCopy(mode, "key", *p.key, "keyCacheRef", *p.keyCache));
    if (mode != Mode::KeyOnly) {
        task.copies.push_back(makeCopy(mode, "value", *p.value, "valueCacheRef", *p.valueCache));
    }
    return [task](const Launch &launch) { run(task, launch); };
}

}  // namespace sim::scatter_pa_kv_cache
