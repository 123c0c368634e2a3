// FLOAT throughout. A cache row is quantised from the value before rounding to the dtype of kv. A2 and A3 ignore the
// offsets, and with cacheMode Norm they never write kRopeOut and cKvOut.
#include <cmath>
#include <cstring>

#include "numeric/convert.hpp"
#include "numeric/parallel.hpp"
#include "ops/kv_rms_norm_rope_cache.hpp"
#include "ops/rotary.hpp"

namespace sim::kv_rms_norm_rope_cache {

namespace {

constexpr int32_t deviceFault = 507015;

// One cache, as the kernel sees it.
struct Target {
    const char *name, *scaleName, *offsetName;
    aclDataType dtype;
    int64_t width, elements, scaleCount, offsetCount;
    bool quantised;
};

struct Task {
    aclDataType dtype;
    CacheMode mode;
    int64_t batches, length, kvWidth, cosLength, blockSize, cacheLength;
    float epsilon;
    Target rope, norm;
    bool writesOut;
    int64_t ropeRoom, normRoom;
};

[[noreturn]] void fault(const std::string &text) { throw KernelFault(deviceFault, text); }

bool isNzMode(CacheMode mode) { return mode == CacheMode::PagedNz || mode == CacheMode::BlockNz; }
bool isBlockMode(CacheMode mode) { return mode == CacheMode::BlockBnsd || mode == CacheMode::BlockNz; }

// The cache row of a token; -1 for one that is not stored.
int64_t rowOf(const Task &t, const int64_t *index, int64_t batch, int64_t position) {
    if (!isBlockMode(t.mode)) {
        int64_t slot = index[batch * t.length + position];
        if (slot < 0) return -1;
        return t.mode == CacheMode::Norm ? batch * t.cacheLength + slot : slot;
    }
    int64_t pages = (t.length + t.blockSize - 1) / t.blockSize;
    int64_t slot = index[batch * pages + position / t.blockSize];
    if (slot < 0) return -1;
    return slot / t.blockSize * t.blockSize + position % t.blockSize;
}

void checkRows(const Task &t, const std::vector<int64_t> &rows) {
    for (const Target *target : {&t.rope, &t.norm}) {
        int64_t room = target->elements / target->width;
        for (int64_t row : rows) {
            if (row < room) continue;
            fault("index sends a token to row " + std::to_string(row) + " of " + target->name + ", which has " +
                  std::to_string(room));
        }
    }
}

uint8_t quantise(aclDataType dtype, float value) {
    switch (dtype) {
        case ACL_INT8: return static_cast<uint8_t>(numeric::floatToInt8(value));
        case ACL_HIFLOAT8: return numeric::floatToHifloat8(value);
        case ACL_FLOAT8_E5M2: return numeric::floatToE5m2(value);
        default: return numeric::floatToE4m3(value);
    }
}

class Writer {
   public:
    Writer(const Task &task, const Target &target, const Launch &launch)
        : task_(task), target_(target), launch_(launch), cache_(launch.out<uint8_t>(target.name)) {
        if (!target.quantised) return;
        scale_ = launch.in<float>(target.scaleName);
        if (target.offsetCount > 0) offset_ = launch.in<float>(target.offsetName);
    }

    void write(int64_t row, const std::vector<float> &values) const {
        thread_local std::vector<uint8_t> bytes;
        size_t size = target_.quantised ? 1 : 2;
        bytes.resize(values.size() * size);
        if (target_.quantised) {
            for (size_t i = 0; i < values.size(); ++i) bytes[i] = quantise(target_.dtype, scaled(values[i], i));
        } else {
            primitive::storeFloats(target_.dtype, values.data(), target_.width, bytes.data(), 0);
        }
        copy(row, bytes, static_cast<int64_t>(size));
    }

   private:
    float scaled(float value, size_t i) const {
        float result = value * scale_[target_.scaleCount == 1 ? 0 : i];
        return offset_ ? result + offset_[target_.offsetCount == 1 ? 0 : i] : result;
    }

    void copy(int64_t row, const std::vector<uint8_t> &bytes, int64_t size) const {
        if (!isNzMode(task_.mode)) {
            std::memcpy(cache_ + row * target_.width * size, bytes.data(), bytes.size());
            launch_.writes(cache_ + row * target_.width * size, bytes.size());
            return;
        }
        // A block is [width / columns, blockSize, columns].
        const int64_t fractal = 32, columns = fractal / size;
        int64_t block = row / task_.blockSize, inBlock = row % task_.blockSize;
        uint8_t *start = cache_ + block * task_.blockSize * target_.width * size;
        for (int64_t i = 0; i < target_.width / columns; ++i) {
            uint8_t *place = start + (i * task_.blockSize + inBlock) * fractal;
            std::memcpy(place, bytes.data() + i * fractal, fractal);
            launch_.writes(place, fractal);
        }
    }

    const Task &task_;
    const Target &target_;
    const Launch &launch_;
    uint8_t *cache_;
    const float *scale_ = nullptr, *offset_ = nullptr;
};

void normalise(const Task &t, const std::vector<float> &gamma, std::vector<float> &values) {
    double sum = 0;
    for (float value : values) sum += static_cast<double>(value) * value;
    float mean = static_cast<float>(sum) * (1.0F / static_cast<float>(t.norm.width));
    float scale = 1.0F / std::sqrt(mean + t.epsilon);
    for (size_t i = 0; i < values.size(); ++i) values[i] = values[i] * scale * gamma[i];
}

void checkCombination(const Task &t) {
    for (const Target *target : {&t.rope, &t.norm}) {
        if (target->quantised == (target->scaleCount > 0)) continue;
        primitive::failWithoutKernel(std::string(target->name) + " of dtype " + dtypeName(target->dtype) +
                                     (target->quantised ? " without a scale" : " with a scale"));
    }
    if (t.kvWidth != t.rope.width + t.norm.width) {
        fault("rows of kv have " + std::to_string(t.kvWidth) + " columns; cos and gamma stand for " +
              std::to_string(t.rope.width + t.norm.width));
    }
    if (isNzMode(t.mode) && t.blockSize == 0) fault("kCacheRef has no blocks");
    for (const Target *target : {&t.rope, &t.norm}) {
        if (!isNzMode(t.mode) || target->width % (target->quantised ? 32 : 16) == 0) continue;
        primitive::failWithoutKernel(std::string("rows of ") + target->name + " that do not fill NZ fractals");
    }
    int64_t tokens = t.batches * t.length;
    if (t.writesOut && (t.ropeRoom < tokens * t.rope.width || t.normRoom < tokens * t.norm.width)) {
        fault("kRopeOut or cKvOut is smaller than what the kernel writes to it");
    }
}

void run(const Task &t, const Launch &launch) {
    checkCombination(t);
    const auto *index = launch.in<int64_t>("index");
    std::vector<int64_t> rows(static_cast<size_t>(t.batches * t.length));
    for (size_t i = 0; i < rows.size(); ++i) {
        int64_t token = static_cast<int64_t>(i);
        rows[i] = rowOf(t, index, token / t.length, token % t.length);
    }
    checkRows(t, rows);
    const void *kv = launch.in("kv"), *cos = launch.in("cos"), *sin = launch.in("sin");
    void *kRope = t.writesOut ? launch.out("kRopeOut") : nullptr, *ckv = t.writesOut ? launch.out("cKvOut") : nullptr;
    Writer ropeWriter(t, t.rope, launch), normWriter(t, t.norm, launch);
    int64_t dk = t.rope.width, dv = t.norm.width;
    std::vector<float> gamma(static_cast<size_t>(dv));
    primitive::loadFloats(t.dtype, launch.in("gamma"), 0, dv, gamma.data());
    numeric::parallelFor(rows.size(), [&](size_t i) {
        thread_local std::vector<float> norm, raw, rope, cosRow, sinRow;
        norm.resize(static_cast<size_t>(dv));
        for (auto *row : {&raw, &rope, &cosRow, &sinRow}) row->resize(static_cast<size_t>(dk));
        int64_t token = static_cast<int64_t>(i), batch = token / t.length;
        int64_t angle = (batch * t.cosLength + (t.cosLength == 1 ? 0 : token % t.length)) * dk;
        primitive::loadFloats(t.dtype, kv, token * t.kvWidth, dv, norm.data());
        primitive::loadFloats(t.dtype, kv, token * t.kvWidth + dv, dk, raw.data());
        primitive::loadFloats(t.dtype, cos, angle, dk, cosRow.data());
        primitive::loadFloats(t.dtype, sin, angle, dk, sinRow.data());
        normalise(t, gamma, norm);
        rotary::rotate(rotary::Mode::InterleaveHalf, raw.data(), cosRow.data(), sinRow.data(), dk, rope.data());
        if (rows[i] >= 0) {
            ropeWriter.write(rows[i], rope);
            normWriter.write(rows[i], norm);
        }
        if (kRope) primitive::storeFloats(t.dtype, rope.data(), dk, kRope, token * dk);
        if (ckv) primitive::storeFloats(t.dtype, norm.data(), dv, ckv, token * dv);
    });
}

Target makeTarget(const char *name, const TensorDesc &cache, int64_t width, const primitive::Named &scale,
                  const primitive::Named &offset) {
    bool takesOffset = offset.desc && primitive::isA950();
    return {name,
            scale.name,
            offset.name,
            cache.dtype,
            width,
            cache.numel(),
            scale.desc ? scale.desc->numel() : 0,
            takesOffset ? offset.desc->numel() : 0,
            cache.dtype != ACL_FLOAT16 && cache.dtype != ACL_BF16};
}

}  // namespace

Kernel makeKernel(const Params &p) {
    bool hasAxes = p.kCache->rank() == 4;
    Task task{p.kv->dtype,
              p.mode,
              p.kv->shape[0],
              p.kv->shape[2],
              p.kv->shape[3],
              p.cos->shape[2],
              hasAxes ? p.kCache->shape[1] : 0,
              hasAxes ? p.kCache->shape[2] : 0,
              p.epsilon,
              makeTarget("kCacheRef", *p.kCache, p.cos->shape[3], {"kRopeScaleOptional", p.kScale},
                         {"kRopeOffsetOptional", p.kOffset}),
              makeTarget("ckvCacheRef", *p.ckvCache, p.gamma->shape[0], {"cKvScaleOptional", p.ckvScale},
                         {"cKvOffsetOptional", p.ckvOffset}),
              p.isOutputKv && (primitive::isA950() || p.mode != CacheMode::Norm),
              p.kRope->numel(),
              p.ckv->numel()};
    return [task](const Launch &launch) { run(task, launch); };
}

}  // namespace sim::kv_rms_norm_rope_cache
