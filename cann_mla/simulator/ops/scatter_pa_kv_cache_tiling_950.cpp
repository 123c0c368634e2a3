// The tiling of Ascend950. It does not ask for the ranks of the caches, only for single axes.
#include "ops/scatter_pa_kv_cache.hpp"

namespace sim::scatter_pa_kv_cache {

using namespace primitive;

namespace {

constexpr int64_t fractalBytes = 32;

bool isHalfByte(aclDataType dtype) { return isOneOf(dtype, {ACL_FLOAT4_E1M2, ACL_FLOAT4_E2M1}); }

Mode modeOf4Axes(const Params &p) {
    require(p.lens && p.seqLens, "key has 4 axes; compressLensOptional and seqLensOptional must be there");
    return p.seqOffset ? Mode::Rope : Mode::Alibi;
}

Mode modeOf(const Params &p) {
    if (p.cacheMode == "PA_NZ") return Mode::Nz;
    require(p.cacheMode.empty() || p.cacheMode == "Norm", "cacheModeOptional must be Norm or PA_NZ");
    if (p.scatterMode == "Rope") return Mode::Rope;
    if (p.scatterMode == "Alibi") return Mode::Alibi;
    if (p.scatterMode == "Omni") return Mode::Omni;
    if (p.scatterMode == "Nct") return Mode::Nct;
    require(p.scatterMode.empty() || p.scatterMode == "None",
            "scatterModeOptional must be None, Rope, Alibi, Omni or Nct");
    return p.key->rank() == 3 ? Mode::Norm : modeOf4Axes(p);
}

void checkReach(const TensorDesc &data, int64_t stride, int64_t offset) {
    require(axis(data, 0) * stride + offset <= (axis(data, 0) - 1) * axis(data, 1) * axis(data, 2),
            "stridesOptional and offsetsOptional reach past key or value");
}

void checkNct(const Params &p) {
    require(p.strides && p.strides->size() >= 2, "Nct takes two stridesOptional");
    require(p.offsets && p.offsets->size() >= 2, "Nct takes two offsetsOptional");
    checkReach(*p.key, (*p.strides)[0], (*p.offsets)[0]);
    checkReach(*p.value, (*p.strides)[1], (*p.offsets)[1]);
}

void checkPairs(const Params &p) {
    require(axis(*p.key, 0) == axis(*p.value, 0), "key and value must have as many tokens as each other");
    require(axis(*p.key, 1) == axis(*p.value, 1), "axis 1 of key and value must be the same");
}

void checkNormShapes(const Params &p) {
    require(p.slots->rank() == 1, "slotMapping must have one axis");
    require(axis(*p.key, 0) == axis(*p.slots, 0), "slotMapping must have a slot for each token");
    require(axis(*p.key, 1) == axis(*p.keyCache, 2), "axis 2 of keyCacheRef must be the heads of key");
    require(axis(*p.key, 2) == axis(*p.keyCache, 3), "axis 3 of keyCacheRef must be the last axis of key");
    checkPairs(p);
    require(axis(*p.key, 1) == axis(*p.valueCache, 2), "axis 2 of valueCacheRef must be the heads of value");
    require(axis(*p.value, 2) == axis(*p.valueCache, 3), "axis 3 of valueCacheRef must be the last axis of value");
    if (isHalfByte(p.key->dtype)) {
        require(axis(*p.key, 2) % 2 == 0 && axis(*p.value, 2) % 2 == 0, "key and value of 4 bits must have even heads");
    }
}

void checkNzCache(const TensorDesc &data, const Named &cache, int64_t lastAxis) {
    const TensorDesc &desc = *cache.desc;
    int64_t heads = axis(data, 1), width = axis(data, 2), columns = axis(desc, lastAxis);
    int64_t half = isHalfByte(data.dtype) ? 2 : 1;
    std::string name = cache.name;
    require(columns * bytesOf(data.dtype) / half == fractalBytes, "the last axis of " + name + " must take 32 bytes");
    if (desc.rank() == 4) {
        require(axis(desc, 1) == (heads * width + columns - 1) / columns,
                "axis 1 of " + name + " must be the fractals of a token");
    } else {
        require(axis(desc, 2) == width / columns, "axis 2 of " + name + " must be the fractals of a head");
        require(axis(desc, 1) == heads, "axis 1 of " + name + " must be the heads");
    }
    require(width % half == 0 && width / half * bytesOf(data.dtype) % fractalBytes == 0,
            name + " in PA_NZ takes heads of a multiple of 32 bytes");
}

void checkNzShapes(const Params &p) {
    require(p.slots->rank() == 1, "slotMapping must have one axis");
    require(axis(*p.key, 0) == axis(*p.slots, 0), "slotMapping must have a slot for each token");
    checkPairs(p);
    require(axis(*p.keyCache, p.keyCache->rank() - 2) == axis(*p.valueCache, p.valueCache->rank() - 2),
            "keyCacheRef and valueCacheRef must have one block size");
    require(axis(*p.keyCache, 0) == axis(*p.valueCache, 0),
            "keyCacheRef and valueCacheRef must have as many blocks as each other");
    checkNzCache(*p.key, {"keyCacheRef", p.keyCache}, p.keyCache->rank() - 1);
    checkNzCache(*p.value, {"valueCacheRef", p.valueCache}, p.keyCache->rank() - 1);
}

void checkCompressedPairs(const Params &p) {
    require(axis(*p.keyCache, 2) == 1 && axis(*p.valueCache, 2) == 1,
            "axis 2 of keyCacheRef and valueCacheRef must be 1");
    checkPairs(p);
    require(axis(*p.key, 2) == axis(*p.value, 2), "axis 2 of key and value must be the same");
    int64_t batches = axis(*p.key, 0);
    require(batches == axis(*p.slots, 0) && batches == axis(*p.seqLens, 0),
            "key, slotMapping and seqLensOptional must have as many batches");
    require(axis(*p.key, 2) == axis(*p.slots, 1), "axis 1 of slotMapping must be the heads of key");
}

void checkRopeShapes(const Params &p) {
    require(p.seqOffset != nullptr, "compressSeqOffsetOptional must be there");
    checkCompressedPairs(p);
    require(axis(*p.key, 0) == axis(*p.lens, 0) && axis(*p.key, 2) == axis(*p.lens, 1),
            "compressLensOptional must have a length for each head of each batch");
    require(axis(*p.key, 3) == axis(*p.keyCache, 3), "axis 3 of keyCacheRef must be the last axis of key");
    require(axis(*p.value, 3) == axis(*p.valueCache, 3), "axis 3 of valueCacheRef must be the last axis of value");
    require(axis(*p.lens, 0) * axis(*p.lens, 1) == axis(*p.seqOffset, 0),
            "compressSeqOffsetOptional must have an element for each length");
}

bool isCompression(Mode mode) { return mode == Mode::Rope || mode == Mode::Alibi || mode == Mode::Omni; }

}  // namespace

std::optional<Rejection> checkTiling950(const Params &p, Mode &mode) {
    return caught([&] {
        require(p.value != nullptr, "there is no kernel for a null value");
        require(p.key->rank() == p.value->rank(), "key and value must have as many axes as each other");
        mode = modeOf(p);
        if (mode == Mode::Nct) checkNct(p);
        require(isCompression(mode) == (p.key->rank() == 4),
                "the modes that compress take a key of 4 axes, the others one of 3");
        if (isCompression(mode)) {
            require(p.lens && p.seqLens, "compressLensOptional and seqLensOptional must be there");
            mode == Mode::Alibi ? checkCompressedPairs(p) : checkRopeShapes(p);
        } else if (mode == Mode::Nz) {
            checkNzShapes(p);
        } else {
            checkNormShapes(p);
        }
    });
}

}  // namespace sim::scatter_pa_kv_cache
