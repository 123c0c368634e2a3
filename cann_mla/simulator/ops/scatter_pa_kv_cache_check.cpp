#include "aclnnop/aclnn_scatter_pa_kv_cache.h"

#include "core/entry.hpp"
#include "ops/scatter_pa_kv_cache.hpp"

namespace sim::scatter_pa_kv_cache {

using namespace primitive;

namespace {

void checkData(const Named &operand) {
    if (!isA950()) return requireDtype(paramInvalid, operand, {ACL_FLOAT16, ACL_BF16, ACL_INT8});
    requireDtype(paramInvalid, operand,
                 {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_UINT8, ACL_INT16, ACL_UINT16, ACL_INT32, ACL_UINT32,
                  ACL_HIFLOAT8, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN, ACL_FLOAT4_E1M2, ACL_FLOAT4_E2M1});
}

void checkRanks(const Params &p) {
    requireRank(paramInvalid, {"key", p.key}, 3, 4);
    if (p.value && p.value->rank() != 0) requireRank(paramInvalid, {"value", p.value}, 3, 4);
}

void checkDtypes(const Params &p) {
    checkData({"key", p.key});
    checkData({"keyCacheRef", p.keyCache});
    requireDtype(paramInvalid, {"slotMapping", p.slots}, {ACL_INT32, ACL_INT64});
    requireSameDtype(paramInvalid, {"keyCacheRef", p.keyCache}, {"key", p.key});
    if (p.value) {
        checkData({"value", p.value});
        checkData({"valueCacheRef", p.valueCache});
        requireSameDtype(paramInvalid, {"valueCacheRef", p.valueCache}, {"value", p.value});
        if (p.cacheMode != "PA_NZ") requireSameDtype(paramInvalid, {"value", p.value}, {"key", p.key});
    }
    for (const Named &operand : {Named{"compressLensOptional", p.lens},
                                 {"compressSeqOffsetOptional", p.seqOffset},
                                 {"seqLensOptional", p.seqLens}}) {
        if (operand.desc) requireSameDtype(paramInvalid, operand, {"slotMapping", p.slots});
    }
}

}  // namespace

void require(bool holds, const std::string &text) {
    if (!holds) refuse(innerNullptr, text);
}

int64_t axis(const TensorDesc &desc, int64_t index) {
    return index >= 0 && index < desc.rank() ? desc.shape[static_cast<size_t>(index)] : -1;
}

int64_t bytesOf(aclDataType dtype) {
    switch (dtype) {
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32: return 4;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16: return 2;
        default: return 1;
    }
}

std::optional<Rejection> checkNulls(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(innerNullptr, {{"key", p.key}, {"keyCacheRef", p.keyCache}, {"slotMapping", p.slots}});
        require(!call.workspaceSizeIsNull(), "workspaceSize is null");
        require(!call.executorIsNull(), "executor is null");
        if (p.value) requirePresent(innerNullptr, {{"valueCacheRef", p.valueCache}});
    });
}

bool hasNothingToDo(const Params &p) {
    bool noKey = p.key->isEmpty() || p.keyCache->isEmpty();
    return noKey && (!p.value || p.value->isEmpty() || p.valueCache->isEmpty());
}

std::optional<Rejection> checkDefinition(const Params &p) {
    return caught([&] {
        checkRanks(p);
        checkDtypes(p);
    });
}

}  // namespace sim::scatter_pa_kv_cache

extern "C" {

aclnnStatus aclnnScatterPaKvCacheGetWorkspaceSize(
    const aclTensor *key, aclTensor *keyCacheRef, const aclTensor *slotMapping, const aclTensor *value,
    aclTensor *valueCacheRef, const aclTensor *compressLensOptional, const aclTensor *compressSeqOffsetOptional,
    const aclTensor *seqLensOptional, char *cacheModeOptional, char *scatterModeOptional,
    const aclIntArray *stridesOptional, const aclIntArray *offsetsOptional, uint64_t *workspaceSize,
    aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnScatterPaKvCache", workspaceSize, executor);
    namespace op = sim::scatter_pa_kv_cache;
    op::Params params{call.input("key", key),
                      call.inplace("keyCacheRef", keyCacheRef),
                      call.input("slotMapping", slotMapping),
                      call.input("value", value),
                      call.inplace("valueCacheRef", valueCacheRef),
                      call.input("compressLensOptional", compressLensOptional),
                      call.input("compressSeqOffsetOptional", compressSeqOffsetOptional),
                      call.input("seqLensOptional", seqLensOptional),
                      cacheModeOptional ? cacheModeOptional : "",
                      scatterModeOptional ? scatterModeOptional : "",
                      call.intArray("stridesOptional", stridesOptional),
                      call.intArray("offsetsOptional", offsetsOptional)};
    for (const char *name : {"key", "keyCacheRef", "value", "valueCacheRef"}) call.touches(name, sim::Touch::Told);
    for (const char *name : {"compressLensOptional", "compressSeqOffsetOptional", "seqLensOptional"}) {
        call.touches(name, sim::Touch::Some);
    }
    if (auto refusal = op::checkNulls(params, call)) return call.reject(*refusal);
    if (op::hasNothingToDo(params)) return call.acceptEmpty();
    if (auto refusal = op::checkDefinition(params)) return call.reject(*refusal);
    if (auto refusal = call.checkViews()) return call.reject(*refusal);
    op::Mode mode = op::Mode::Norm;
    auto refusal = sim::primitive::isA950() ? op::checkTiling950(params, mode) : op::checkTilingA2(params, mode);
    if (refusal) return call.reject(*refusal);
    return call.accept(sim::primitive::systemWorkspace + 512, op::makeKernel(params, mode));
}

aclnnStatus aclnnScatterPaKvCache(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                  aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnScatterPaKvCache", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
