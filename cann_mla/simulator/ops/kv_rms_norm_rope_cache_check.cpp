#include "aclnnop/aclnn_kv_rms_norm_rope_cache.h"

#include "core/entry.hpp"
#include "ops/kv_rms_norm_rope_cache.hpp"

namespace sim::kv_rms_norm_rope_cache {

using namespace primitive;

namespace {

constexpr int64_t ropeWidth = 64, normWidth = 512;  // what A2 and A3 have kernels for

bool isQuantised(aclDataType dtype) {
    return isOneOf(dtype, {ACL_INT8, ACL_HIFLOAT8, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN});
}

std::vector<Named> required(const Params &p) {
    return {{"kv", p.kv},
            {"gamma", p.gamma},
            {"cos", p.cos},
            {"sin", p.sin},
            {"index", p.index},
            {"kCacheRef", p.kCache},
            {"ckvCacheRef", p.ckvCache},
            {"kRopeOut", p.kRope},
            {"cKvOut", p.ckv}};
}

std::vector<Named> optional(const Params &p) {
    return {{"kRopeScaleOptional", p.kScale},
            {"cKvScaleOptional", p.ckvScale},
            {"kRopeOffsetOptional", p.kOffset},
            {"cKvOffsetOptional", p.ckvOffset}};
}

void checkCacheDtypes(const Params &p) {
    for (const Named &cache : {Named{"kCacheRef", p.kCache}, {"ckvCacheRef", p.ckvCache}}) {
        if (cache.desc->dtype == p.kv->dtype || cache.desc->dtype == ACL_INT8) continue;
        if (isA950() && isQuantised(cache.desc->dtype)) continue;
        refuse(paramInvalid, std::string(cache.name) + " is " + dtypeName(cache.desc->dtype) + "; it must be " +
                                 dtypeName(p.kv->dtype) + " as kv, or " +
                                 (isA950() ? "INT8, HIFLOAT8, FLOAT8_E5M2 or FLOAT8_E4M3FN" : "INT8"));
    }
    aclDataType k = p.kCache->dtype, ckv = p.ckvCache->dtype;
    if (isQuantised(k) && isQuantised(ckv) && k != ckv) {
        refuse(paramInvalid, std::string("kCacheRef is ") + dtypeName(k) + " and ckvCacheRef " + dtypeName(ckv) +
                                 "; quantised caches must have one dtype");
    }
}

void checkOptionals(const Params &p) {
    for (const Named &operand : optional(p)) {
        if (!operand.desc) continue;
        requireDtype(tilingFailed, operand, {ACL_FLOAT});
        requireNd(tilingFailed, operand);
    }
}

void checkKv(const Params &p) {
    requireRank(tilingFailed, {"kv", p.kv}, 4, 4);
    const std::vector<int64_t> &kv = p.kv->shape;
    if (kv[0] < 1 || kv[1] != 1 || kv[2] < 1) {
        refuse(tilingFailed, "kv has shape " + print(kv) + "; it must be [B, 1, S, Dv + Dk], B and S not 0");
    }
}

void checkAngles(const Params &p) {
    requireRank(tilingFailed, {"cos", p.cos}, 4, 4);
    const std::vector<int64_t> &cos = p.cos->shape, &kv = p.kv->shape;
    if (cos[0] != kv[0] || cos[1] != 1 || (cos[2] != kv[2] && cos[2] != 1)) {
        refuse(tilingFailed, "cos has shape " + print(cos) + "; it must be [" + std::to_string(kv[0]) + ", 1, " +
                                 std::to_string(kv[2]) + " or 1, Dk]");
    }
    requireShape(tilingFailed, {"sin", p.sin}, cos, "the shape of cos");
}

void checkIndex(const Params &p) {
    int64_t wanted = p.kv->shape[0] * p.kv->shape[2];
    if (p.mode == CacheMode::BlockBnsd || p.mode == CacheMode::BlockNz) {
        int64_t blockSize = p.kCache->rank() == 4 ? p.kCache->shape[1] : 0;
        if (blockSize == 0) refuse(tilingFailed, "kCacheRef has shape " + print(p.kCache->shape) + "; it needs blocks");
        wanted = p.kv->shape[0] * ((p.kv->shape[2] + blockSize - 1) / blockSize);
    }
    if (p.index->numel() == wanted) return;
    refuse(tilingFailed, "index has " + std::to_string(p.index->numel()) + " elements; this cacheMode takes " +
                             std::to_string(wanted));
}

// [width] or [1, width].
void checkScaleA2(const Named &scale, int64_t width) {
    if (!scale.desc) return;
    const std::vector<int64_t> &shape = scale.desc->shape;
    if (shape.empty() || shape == std::vector<int64_t>{width} || shape == std::vector<int64_t>{1, width}) return;
    refuse(tilingFailed, std::string(scale.name) + " has shape " + print(shape) + "; it must be [" +
                             std::to_string(width) + "] or [1, " + std::to_string(width) + "]");
}

void checkScalesA2(const Params &p) {
    if (!p.kScale && !p.ckvScale) return;
    if (p.kScale && p.ckvScale && p.kScale->rank() != p.ckvScale->rank()) {
        refuse(tilingFailed, "kRopeScaleOptional and cKvScaleOptional must have as many axes as each other");
    }
    checkScaleA2({"kRopeScaleOptional", p.kScale}, ropeWidth);
    checkScaleA2({"cKvScaleOptional", p.ckvScale}, normWidth);
}

void checkWidth(const char *what, int64_t width, int64_t wanted) {
    if (width == wanted) return;
    refuse(tilingFailed, std::string(what) + " is " + std::to_string(width) + "; this product has kernels for " +
                             std::to_string(wanted));
}

void checkA2(const Params &p) {
    checkScalesA2(p);
    checkWidth("the last axis of cos", p.cos->shape[3], ropeWidth);
    checkWidth("the size of gamma", p.gamma->shape[0], normWidth);
    if (p.mode == CacheMode::Norm && (p.kScale || p.ckvScale)) {
        refuse(tilingFailed,
               "kRopeScaleOptional and cKvScaleOptional: this product does not quantise with cacheModeOptional Norm");
    }
    checkWidth("the last axis of kv", p.kv->shape[3], ropeWidth + normWidth);
}

void checkNotEmpty(const Params &p) {
    std::vector<Named> inputs = required(p);
    inputs.resize(7);  // without the outputs
    for (const Named &operand : optional(p)) {
        if (operand.desc) inputs.push_back(operand);
    }
    for (const Named &operand : inputs) {
        if (!operand.desc->isEmpty()) continue;
        refuse(tilingFailed,
               std::string(operand.name) + " has shape " + print(operand.desc->shape) + "; it must not be empty");
    }
}

void checkScale950(const Named &scale, int64_t width) {
    if (!scale.desc || scale.desc->numel() == width || scale.desc->numel() == 1) return;
    refuse(tilingFailed, std::string(scale.name) + " has shape " + print(scale.desc->shape) + "; it must have " +
                             std::to_string(width) + " elements, or one");
}

void checkCache950(const Params &p, const Named &cache, int64_t width, const Named &scale) {
    if (isQuantised(cache.desc->dtype) && !scale.desc) {
        refuse(tilingFailed, std::string(cache.name) + " is " + dtypeName(cache.desc->dtype) + " and needs " +
                                 scale.name);
    }
    requireRank(tilingFailed, cache, 4, 4);
    const std::vector<int64_t> &shape = cache.desc->shape;
    if (p.mode == CacheMode::Norm) {
        int64_t rows = p.kCache->rank() == 4 ? p.kCache->shape[2] : 0;
        if (shape[2] == rows && shape[3] == width) return;
        refuse(tilingFailed, std::string(cache.name) + " has shape " + print(shape) + "; it must be [B, 1, " +
                                 std::to_string(rows) + ", " + std::to_string(width) + "]");
    }
    int64_t step = isQuantised(cache.desc->dtype) ? 32 : 16;
    if (shape[2] == 1 && shape[3] == width && shape[1] % step == 0) return;
    refuse(tilingFailed, std::string(cache.name) + " has shape " + print(shape) +
                             "; it must be [blocks, a multiple of " + std::to_string(step) + ", 1, " +
                             std::to_string(width) + "]");
}

void check950(const Params &p) {
    int64_t dk = p.cos->shape[3], dv = p.gamma->shape[0];
    checkNotEmpty(p);
    checkScale950({"kRopeScaleOptional", p.kScale}, dk);
    checkScale950({"cKvScaleOptional", p.ckvScale}, dv);
    checkScale950({"kRopeOffsetOptional", p.kOffset}, dk);
    checkScale950({"cKvOffsetOptional", p.ckvOffset}, dv);
    if (dk % 2 != 0) refuse(tilingFailed, "the last axis of cos is " + std::to_string(dk) + "; it must be even");
    checkCache950(p, {"kCacheRef", p.kCache}, dk, {"kRopeScaleOptional", p.kScale});
    checkCache950(p, {"ckvCacheRef", p.ckvCache}, dv, {"cKvScaleOptional", p.ckvScale});
}

}  // namespace

CacheMode parseCacheMode(const char *text) {
    std::string mode = text ? text : "";
    if (mode == "PA" || mode == "PA_BNSD") return CacheMode::Paged;
    if (mode == "PA_NZ") return CacheMode::PagedNz;
    if (mode == "PA_BLK_BNSD") return CacheMode::BlockBnsd;
    if (mode == "PA_BLK_NZ") return CacheMode::BlockNz;
    return CacheMode::Norm;
}

std::optional<Rejection> checkDefinition(const Params &p, const PhaseOne &call) {
    return caught([&] {
        for (const Named &operand : required(p)) requirePresent(paramNullptr, {operand});
        requirePointers(call);
        requireDtype(paramInvalid, {"kv", p.kv}, {ACL_FLOAT16, ACL_BF16});
        for (const Named &operand : {Named{"gamma", p.gamma},
                                     {"cos", p.cos},
                                     {"sin", p.sin},
                                     {"kRopeOut", p.kRope},
                                     {"cKvOut", p.ckv}}) {
            requireSameDtype(paramInvalid, operand, {"kv", p.kv});
        }
        requireDtype(paramInvalid, {"index", p.index}, {ACL_INT64});
        checkCacheDtypes(p);
        for (const Named &operand : required(p)) requireNd(paramInvalid, operand);
    });
}

std::optional<Rejection> checkTiling(const Params &p) {
    return caught([&] {
        checkOptionals(p);
        checkKv(p);
        checkAngles(p);
        requireRank(tilingFailed, {"gamma", p.gamma}, 1, 1);
        checkIndex(p);
        if (isA950()) {
            check950(p);
        } else {
            checkA2(p);
        }
    });
}

}  // namespace sim::kv_rms_norm_rope_cache

extern "C" {

aclnnStatus aclnnKvRmsNormRopeCacheGetWorkspaceSize(
    const aclTensor *kv, const aclTensor *gamma, const aclTensor *cos, const aclTensor *sin, const aclTensor *index,
    aclTensor *kCacheRef, aclTensor *ckvCacheRef, const aclTensor *kRopeScaleOptional,
    const aclTensor *cKvScaleOptional, const aclTensor *kRopeOffsetOptional, const aclTensor *cKvOffsetOptional,
    double epsilon, char *cacheModeOptional, bool isOutputKv, const aclTensor *kRopeOut, const aclTensor *cKvOut,
    uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnKvRmsNormRopeCache", workspaceSize, executor);
    namespace op = sim::kv_rms_norm_rope_cache;
    op::Params params{call.input("kv", kv),
                      call.input("gamma", gamma),
                      call.input("cos", cos),
                      call.input("sin", sin),
                      call.input("index", index),
                      call.inplace("kCacheRef", kCacheRef),
                      call.inplace("ckvCacheRef", ckvCacheRef),
                      call.input("kRopeScaleOptional", kRopeScaleOptional),
                      call.input("cKvScaleOptional", cKvScaleOptional),
                      call.input("kRopeOffsetOptional", kRopeOffsetOptional),
                      call.input("cKvOffsetOptional", cKvOffsetOptional),
                      static_cast<float>(epsilon),
                      op::parseCacheMode(cacheModeOptional),
                      isOutputKv,
                      call.output("kRopeOut", kRopeOut),
                      call.output("cKvOut", cKvOut)};
    for (const char *name : {"kCacheRef", "ckvCacheRef"}) call.touches(name, sim::Touch::Told);
    if (auto refusal = op::checkDefinition(params, call)) return call.reject(*refusal);
    if (call.allOutputsEmpty()) return call.acceptEmpty();
    if (auto refusal = call.checkViews()) return call.reject(*refusal);
    if (auto refusal = op::checkTiling(params)) return call.reject(*refusal);
    return call.accept(op::workspaceBytes, op::makeKernel(params));
}

aclnnStatus aclnnKvRmsNormRopeCache(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                    aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnKvRmsNormRopeCache", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
