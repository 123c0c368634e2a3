// The tiling of A2 and A3. slotMapping may have any length; strides and offsets are not looked at.
#include "ops/scatter_pa_kv_cache.hpp"

namespace sim::scatter_pa_kv_cache {

using namespace primitive;

namespace {

constexpr int64_t fractalBytes = 32, mostHeads = 4095, mostBlockSize = 65535;
constexpr int64_t unifiedBuffer = 192 * 1024 - 1024;

Mode modeOf(const Params &p) {
    if (p.cacheMode == "PA_NZ") return Mode::Nz;
    require(p.cacheMode.empty() || p.cacheMode == "Norm", "cacheModeOptional must be Norm or PA_NZ");
    if (p.scatterMode == "Rope") return Mode::Rope;
    if (p.scatterMode == "Alibi") return Mode::Alibi;
    if (p.scatterMode == "Omni") return Mode::Omni;
    if (p.scatterMode == "Nct") return Mode::Nct;
    if (p.scatterMode == "NHSD") return Mode::Nhsd;
    require(p.scatterMode.empty() || p.scatterMode == "None",
            "scatterModeOptional must be None, Rope, Alibi, Omni, Nct or NHSD");
    return Mode::Norm;
}

// A valueCacheRef without axes means that there is no value.
Mode withoutValue(Mode mode, const Params &p) {
    if (p.valueCache->rank() != 0 || mode == Mode::Nz) return mode;
    if (mode == Mode::Norm) return Mode::KeyOnly;
    require(mode == Mode::Nct, "valueCacheRef has no axes; this scatterModeOptional needs a value");
    return Mode::KeyOnlyNct;
}

bool isCompression(Mode mode) { return mode == Mode::Rope || mode == Mode::Alibi || mode == Mode::Omni; }
bool isKeyOnly(Mode mode) { return mode == Mode::KeyOnly || mode == Mode::KeyOnlyNct; }

void checkDtypes(const Params &p, Mode mode) {
    if (mode == Mode::Rope || mode == Mode::Omni) {
        require(p.key->dtype != ACL_INT8, "this scatterModeOptional does not take a key of INT8");
    }
    if (isKeyOnly(mode)) return;
    require(p.value->dtype != ACL_INT8 || p.key->dtype == ACL_INT8, "value is INT8, so key must be");
}

void checkRanks(const Params &p, Mode mode) {
    require(p.key->rank() == 3, "key must have 3 axes");
    require(p.slots->rank() == 1, "slotMapping must have one axis");
    int64_t most = mode == Mode::Nz ? 5 : 4;
    require(p.keyCache->rank() == 4 || p.keyCache->rank() == most, "keyCacheRef has the wrong number of axes");
    if (isKeyOnly(mode)) return;
    require(p.value->rank() == 3, "value must have 3 axes");
    require(p.valueCache->rank() == 4 || p.valueCache->rank() == most, "valueCacheRef has the wrong number of axes");
    if (!isCompression(mode)) return;
    require(p.lens && p.lens->rank() == 1, "compressLensOptional must be there, with one axis");
    require(p.seqLens && p.seqLens->rank() == 1, "seqLensOptional must be there, with one axis");
}

void checkTokens(const Params &p, int64_t blockSize) {
    require(axis(*p.keyCache, 0) * blockSize >= axis(*p.key, 0), "keyCacheRef has fewer slots than key has tokens");
}

void checkPairs(const Params &p) {
    require(axis(*p.key, 0) == axis(*p.value, 0), "key and value must have as many tokens as each other");
    require(axis(*p.key, 1) == axis(*p.value, 1), "key and value must have as many heads as each other");
    require(axis(*p.keyCache, 0) == axis(*p.valueCache, 0),
            "keyCacheRef and valueCacheRef must have as many blocks as each other");
}

void checkNormShapes(const Params &p, Mode mode) {
    checkTokens(p, axis(*p.keyCache, 1));
    if (!isCompression(mode)) {
        require(axis(*p.key, 1) == axis(*p.keyCache, 2), "axis 2 of keyCacheRef must be the heads of key");
    }
    require(axis(*p.key, 2) == axis(*p.keyCache, 3), "the last axis of keyCacheRef must be that of key");
    if (isKeyOnly(mode)) return;
    require(axis(*p.value, 2) == axis(*p.valueCache, 3), "the last axis of valueCacheRef must be that of value");
    checkPairs(p);
    require(axis(*p.keyCache, 1) == axis(*p.valueCache, 1), "keyCacheRef and valueCacheRef must have one block size");
    require(axis(*p.keyCache, 2) == axis(*p.valueCache, 2),
            "keyCacheRef and valueCacheRef must have as many heads as each other");
    if (isCompression(mode)) require(axis(*p.keyCache, 2) == 1, "axis 2 of keyCacheRef must be 1");
}

// [blocks, heads * width / columns, block size, columns], or the same with heads as an axis of its own.
void checkNzCache(const TensorDesc &data, const Named &cache) {
    int64_t columns = fractalBytes / bytesOf(data.dtype), heads = axis(data, 1), width = axis(data, 2);
    const TensorDesc &desc = *cache.desc;
    std::string name = cache.name;
    require(axis(desc, desc.rank() - 1) == columns, "the last axis of " + name + " must take 32 bytes");
    if (desc.rank() == 4) {
        require(axis(desc, 1) == heads * width / columns, "axis 1 of " + name + " must be the fractals of a token");
    } else {
        require(axis(desc, 1) == heads, "axis 1 of " + name + " must be the heads");
        require(axis(desc, 2) == width / columns, "axis 2 of " + name + " must be the fractals of a head");
    }
    require(width * bytesOf(data.dtype) % fractalBytes == 0, name + " in PA_NZ takes heads of a multiple of 32 bytes");
}

void checkNzShapes(const Params &p) {
    int64_t blockSize = axis(*p.keyCache, p.keyCache->rank() - 2);
    require(blockSize <= mostBlockSize, "the block size of keyCacheRef must not be over 65535");
    checkTokens(p, blockSize);
    checkPairs(p);
    require(blockSize == axis(*p.valueCache, p.valueCache->rank() - 2),
            "keyCacheRef and valueCacheRef must have one block size");
    checkNzCache(*p.key, {"keyCacheRef", p.keyCache});
    checkNzCache(*p.value, {"valueCacheRef", p.valueCache});
}

void checkNhsdShapes(const Params &p) {
    int64_t heads = axis(*p.key, 1), bytes = bytesOf(p.key->dtype);
    int64_t keyWidth = axis(*p.key, 2), valueWidth = axis(*p.value, 2), blockSize = axis(*p.keyCache, 2);
    require(keyWidth * bytes % fractalBytes == 0 && valueWidth * bytes % fractalBytes == 0,
            "NHSD takes heads of key and value of a multiple of 32 bytes");
    require(heads == axis(*p.keyCache, 1), "axis 1 of keyCacheRef must be the heads of key");
    require(heads <= mostHeads, "key must not have over 4095 heads");
    checkTokens(p, blockSize);
    require(blockSize == axis(*p.valueCache, 2), "keyCacheRef and valueCacheRef must have one block size");
    require(heads == axis(*p.valueCache, 1), "keyCacheRef and valueCacheRef must have as many heads as each other");
    checkPairs(p);
    require(keyWidth == axis(*p.keyCache, 3), "the last axis of keyCacheRef must be that of key");
    require(valueWidth == axis(*p.valueCache, 3), "the last axis of valueCacheRef must be that of value");
    require(heads * (keyWidth + valueWidth) * bytes <= unifiedBuffer, "a token of key and value must fit 195584 bytes");
    require(blockSize * keyWidth <= UINT32_MAX && blockSize * valueWidth <= UINT32_MAX,
            "a block of keyCacheRef or valueCacheRef is too large");
}

}  // namespace

std::optional<Rejection> checkTilingA2(const Params &p, Mode &mode) {
    return caught([&] {
        require(p.value != nullptr, "there is no kernel for a null value");
        mode = withoutValue(modeOf(p), p);
        checkDtypes(p, mode);
        checkRanks(p, mode);
        if (mode == Mode::Nz) {
            checkNzShapes(p);
        } else if (mode == Mode::Nhsd) {
            checkNhsdShapes(p);
        } else {
            checkNormShapes(p, mode);
        }
    });
}

}  // namespace sim::scatter_pa_kv_cache
