// aclnnFusedInferAttentionScore, V1 to V5: every prototype becomes the same Arguments, then the same phase one.
#include "aclnnop/aclnn_fused_infer_attention_score.h"

#include <utility>

#include "aclnnop/aclnn_fused_infer_attention_score_v2.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v3.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v4.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v5.h"
#include "core/entry.hpp"
#include "core/operator.hpp"
#include "ops/fused_infer_attention_check.hpp"
#include "ops/fused_infer_attention_ignored.hpp"
#include "ops/fused_infer_attention_kernel.hpp"
#include "ops/fused_infer_attention_routes.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

constexpr uint64_t systemWorkspace = 16 * 1024 * 1024;

enum class Lengths { Known, CountsOnly };  // CountsOnly: ...GetMaxWorkspaceSize

struct Arguments {
    const aclTensor *query = nullptr;
    const aclTensorList *key = nullptr, *value = nullptr;
    const aclTensor *pseShift = nullptr, *attenMask = nullptr;
    const aclIntArray *actualSeqLengths = nullptr, *actualSeqLengthsKv = nullptr;
    const aclTensor *deqScale1 = nullptr, *quantScale1 = nullptr, *deqScale2 = nullptr, *quantScale2 = nullptr,
                    *quantOffset2 = nullptr, *antiquantScale = nullptr, *antiquantOffset = nullptr,
                    *blockTable = nullptr, *queryPaddingSize = nullptr, *kvPaddingSize = nullptr;
    const aclTensor *keyAntiquantScale = nullptr, *keyAntiquantOffset = nullptr, *valueAntiquantScale = nullptr,
                    *valueAntiquantOffset = nullptr, *keySharedPrefix = nullptr, *valueSharedPrefix = nullptr;
    const aclIntArray *actualSharedPrefixLen = nullptr;
    const aclTensor *queryRope = nullptr, *keyRope = nullptr, *keyRopeAntiquantScale = nullptr;
    const aclTensor *dequantScaleQuery = nullptr, *learnableSink = nullptr;
    const aclIntArray *qStartIdx = nullptr, *kvStartIdx = nullptr;
    int64_t numHeads = 0;
    double scaleValue = 1.0;
    int64_t preTokens = 0, nextTokens = 0;
    const char *inputLayout = nullptr;
    int64_t numKeyValueHeads = 0, sparseMode = 0, innerPrecise = 0, blockSize = 0, antiquantMode = 0;
    bool softmaxLseFlag = false;
    int64_t keyAntiquantMode = 0, valueAntiquantMode = 0, queryQuantMode = 0, pseType = 0;
    const aclTensor *attentionOut = nullptr, *softmaxLse = nullptr;
};

// Registers operands with phase one and copies their descriptions.
class Reader {
   public:
    Reader(PhaseOne &call, View cacheView, Lengths lengths) : call_(call), cacheView_(cacheView), lengths_(lengths) {}

    // A kernel sees strides only of what it reads where it lies; everything else reaches it as a dense copy.
    Tensor describe(const TensorDesc &desc, View view) const {
        Tensor tensor;
        tensor.shape = desc.shape;
        if (view == View::AsIs && !desc.isDense()) tensor.strides = desc.strides;
        tensor.dtype = desc.dtype;
        tensor.format = desc.format;
        return tensor;
    }
    MaybeTensor tensor(const char *name, const aclTensor *handle, View view = View::Copied) {
        const TensorDesc *desc = call_.input(name, handle, view);
        return desc ? MaybeTensor(describe(*desc, view)) : std::nullopt;
    }
    MaybeTensor cache(const char *name, const aclTensor *handle) { return tensor(name, handle, cacheView_); }
    std::optional<std::vector<Tensor>> list(const char *name, const aclTensorList *handle) {
        auto descs = call_.inputList(name, handle, cacheView_);
        if (!descs) return std::nullopt;
        std::vector<Tensor> tensors;
        for (const TensorDesc *desc : *descs) tensors.push_back(desc ? describe(*desc, cacheView_) : Tensor{});
        return tensors;
    }
    MaybeTensor output(const char *name, const aclTensor *handle) {
        const TensorDesc *desc = call_.output(name, handle);
        return desc ? MaybeTensor(describe(*desc, View::Copied)) : std::nullopt;
    }
    MaybeArray array(const char *name, const aclIntArray *handle) {
        const std::vector<int64_t> *values = call_.intArray(name, handle);
        if (!values) return std::nullopt;
        IntArray array;
        array.count = static_cast<int64_t>(values->size());
        if (lengths_ == Lengths::Known) array.values = *values;
        return array;
    }

   private:
    PhaseOne &call_;
    View cacheView_;
    Lengths lengths_;
};

void readCommonInputs(Reader &read, const Arguments &a, Params &p) {
    p.query = read.tensor("query", a.query);
    p.key = read.list("key", a.key);
    p.value = read.list("value", a.value);
    p.pseShift = read.tensor("pseShift", a.pseShift);
    p.attenMask = read.tensor("attenMask", a.attenMask);
    p.actualSeqLengths = read.array("actualSeqLengths", a.actualSeqLengths);
    p.actualSeqLengthsKv = read.array("actualSeqLengthsKv", a.actualSeqLengthsKv);
    p.deqScale1 = read.tensor("deqScale1", a.deqScale1);
    p.quantScale1 = read.tensor("quantScale1", a.quantScale1);
    p.deqScale2 = read.tensor("deqScale2", a.deqScale2);
    p.quantScale2 = read.tensor("quantScale2", a.quantScale2);
    p.quantOffset2 = read.tensor("quantOffset2", a.quantOffset2);
    p.antiquantScale = read.tensor("antiquantScale", a.antiquantScale);
    p.antiquantOffset = read.tensor("antiquantOffset", a.antiquantOffset);
    p.blockTable = read.tensor("blockTable", a.blockTable);
    p.queryPaddingSize = read.tensor("queryPaddingSize", a.queryPaddingSize);
    p.kvPaddingSize = read.tensor("kvPaddingSize", a.kvPaddingSize);
}

void readLaterInputs(Reader &read, const Arguments &a, Params &p) {
    if (p.version >= 2) {
        p.keyAntiquantScale = read.cache("keyAntiquantScale", a.keyAntiquantScale);
        p.keyAntiquantOffset = read.tensor("keyAntiquantOffset", a.keyAntiquantOffset);
        p.valueAntiquantScale = read.cache("valueAntiquantScale", a.valueAntiquantScale);
        p.valueAntiquantOffset = read.tensor("valueAntiquantOffset", a.valueAntiquantOffset);
        p.keySharedPrefix = read.tensor("keySharedPrefix", a.keySharedPrefix);
        p.valueSharedPrefix = read.tensor("valueSharedPrefix", a.valueSharedPrefix);
        p.actualSharedPrefixLen = read.array("actualSharedPrefixLen", a.actualSharedPrefixLen);
    }
    if (p.version >= 3) {
        p.queryRope = read.tensor("queryRope", a.queryRope);
        p.keyRope = read.cache("keyRope", a.keyRope);
        p.keyRopeAntiquantScale = read.tensor("keyRopeAntiquantScale", a.keyRopeAntiquantScale);
    }
    if (p.version >= 4) {
        p.dequantScaleQuery = read.tensor("dequantScaleQuery", a.dequantScaleQuery);
        p.learnableSink = read.tensor("learnableSink", a.learnableSink);
    }
    if (p.version >= 5) {
        p.qStartIdx = read.array("qStartIdx", a.qStartIdx);
        p.kvStartIdx = read.array("kvStartIdx", a.kvStartIdx);
    }
}

void readAttributes(const Arguments &a, Params &p) {
    p.numHeads = a.numHeads;
    p.scaleValue = a.scaleValue;
    p.preTokens = a.preTokens;
    p.nextTokens = a.nextTokens;
    p.inputLayout = a.inputLayout ? std::optional<std::string>(a.inputLayout) : std::nullopt;
    p.numKeyValueHeads = a.numKeyValueHeads;
    p.sparseMode = a.sparseMode;
    p.innerPrecise = a.innerPrecise;
    p.blockSize = a.blockSize;
    p.antiquantMode = a.antiquantMode;
    p.softmaxLseFlag = a.softmaxLseFlag;
    p.keyAntiquantMode = a.keyAntiquantMode;
    p.valueAntiquantMode = a.valueAntiquantMode;
    p.queryQuantMode = a.queryQuantMode;
    p.pseType = a.pseType;
}

constexpr const char *notOn950 = "this version is not available on Ascend950; use aclnnFusedInferAttentionScoreV5";

// Rows of key and value are told by the kernel. What else it reads depends on modes and lengths.
void declareTouches(PhaseOne &call, const Params &p) {
    for (const char *name : {"key", "value", "keyRope"}) call.touches(name, Touch::Told);
    for (const char *name :
         {"pseShift", "attenMask", "deqScale1", "quantScale1", "deqScale2", "quantScale2", "quantOffset2",
          "antiquantScale", "antiquantOffset", "blockTable", "queryPaddingSize", "kvPaddingSize", "keyAntiquantScale",
          "keyAntiquantOffset", "valueAntiquantScale", "valueAntiquantOffset", "keySharedPrefix", "valueSharedPrefix",
          "keyRopeAntiquantScale", "dequantScaleQuery", "learnableSink"}) {
        call.touches(name, Touch::Some);
    }
    if (!p.actualSeqLengths) return;
    for (const char *name : {"query", "queryRope"}) call.touches(name, Touch::Some);
}

int32_t judge(PhaseOne &call, Params &p) {
    if (p.ascend950 && p.version < 5) refuse(runtimeError, notOn950);
    declareTouches(call, p);
    checkDefinition(p);
    if (call.executorIsNull()) refuse(paramNullptr, "executor is null; it is required");
    if (producesNothing(p)) return call.acceptEmpty();
    if (auto views = call.checkViews()) return call.reject(*views);
    Plan plan = makePlan(p, checkTiling(p));
    reportIgnored(plan);
    return call.accept(systemWorkspace, makeKernel(std::move(plan)));
}

int32_t phaseOne(const char *api, int version, Lengths lengths, const Arguments &a, uint64_t *workspaceSize,
                 aclOpExecutor **executor) {
    PhaseOne call(api, workspaceSize, executor);
    Params p;
    p.version = version;
    p.ascend950 = product() == Product::A950;
    Reader read(call, p.ascend950 ? View::AsIs : View::Copied, lengths);
    readCommonInputs(read, a, p);
    readLaterInputs(read, a, p);
    readAttributes(a, p);
    p.attentionOut = read.output("attentionOut", a.attentionOut);
    p.softmaxLse = read.output("softmaxLse", a.softmaxLse);
    unpackInt4(p);
    try {
        return judge(call, p);
    } catch (const Rejection &rejection) {
        return call.reject(rejection);
    }
}

int32_t phaseTwo(const char *api, int version, void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                 aclrtStream stream) {
    if (version < 5 && product() == Product::A950) return fail(api, runtimeError, notOn950);
    return sim::phaseTwo(api, workspace, workspaceSize, executor, stream);
}

}  // namespace

}  // namespace sim::fia

// The pieces that the prototypes are made of, as parameters and as the assignments that keep them.
#define FIA_INPUTS                                                                                                     \
    const aclTensor *query, const aclTensorList *key, const aclTensorList *value, const aclTensor *pseShift,           \
        const aclTensor *attenMask, const aclIntArray *actualSeqLengths, const aclIntArray *actualSeqLengthsKv,        \
        const aclTensor *deqScale1, const aclTensor *quantScale1, const aclTensor *deqScale2,                          \
        const aclTensor *quantScale2, const aclTensor *quantOffset2, const aclTensor *antiquantScale,                  \
        const aclTensor *antiquantOffset, const aclTensor *blockTable, const aclTensor *queryPaddingSize,              \
        const aclTensor *kvPaddingSize
#define FIA_KEEP_INPUTS                                                                                                \
    a.query = query, a.key = key, a.value = value, a.pseShift = pseShift, a.attenMask = attenMask;                     \
    a.actualSeqLengths = actualSeqLengths, a.actualSeqLengthsKv = actualSeqLengthsKv;                                  \
    a.deqScale1 = deqScale1, a.quantScale1 = quantScale1, a.deqScale2 = deqScale2, a.quantScale2 = quantScale2;        \
    a.quantOffset2 = quantOffset2, a.antiquantScale = antiquantScale, a.antiquantOffset = antiquantOffset;             \
    a.blockTable = blockTable, a.queryPaddingSize = queryPaddingSize, a.kvPaddingSize = kvPaddingSize;

#define FIA_SPLIT_INPUTS                                                                                               \
    const aclTensor *keyAntiquantScale, const aclTensor *keyAntiquantOffset, const aclTensor *valueAntiquantScale,     \
        const aclTensor *valueAntiquantOffset, const aclTensor *keySharedPrefix, const aclTensor *valueSharedPrefix,   \
        const aclIntArray *actualSharedPrefixLen
#define FIA_KEEP_SPLIT_INPUTS                                                                                          \
    a.keyAntiquantScale = keyAntiquantScale, a.keyAntiquantOffset = keyAntiquantOffset;                                \
    a.valueAntiquantScale = valueAntiquantScale, a.valueAntiquantOffset = valueAntiquantOffset;                        \
    a.keySharedPrefix = keySharedPrefix, a.valueSharedPrefix = valueSharedPrefix;                                      \
    a.actualSharedPrefixLen = actualSharedPrefixLen;

#define FIA_ROPE_INPUTS const aclTensor *queryRope, const aclTensor *keyRope, const aclTensor *keyRopeAntiquantScale
#define FIA_KEEP_ROPE_INPUTS                                                                                           \
    a.queryRope = queryRope, a.keyRope = keyRope, a.keyRopeAntiquantScale = keyRopeAntiquantScale;

#define FIA_V4_INPUTS const aclTensor *dequantScaleQuery, const aclTensor *learnableSink
#define FIA_KEEP_V4_INPUTS a.dequantScaleQuery = dequantScaleQuery, a.learnableSink = learnableSink;

#define FIA_V5_INPUTS const aclIntArray *qStartIdx, const aclIntArray *kvStartIdx
#define FIA_KEEP_V5_INPUTS a.qStartIdx = qStartIdx, a.kvStartIdx = kvStartIdx;

#define FIA_ATTRIBUTES                                                                                                 \
    int64_t numHeads, double scaleValue, int64_t preTokens, int64_t nextTokens, char *inputLayout,                     \
        int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode,  \
        bool softmaxLseFlag
#define FIA_KEEP_ATTRIBUTES                                                                                            \
    a.numHeads = numHeads, a.scaleValue = scaleValue, a.preTokens = preTokens, a.nextTokens = nextTokens;              \
    a.inputLayout = inputLayout, a.numKeyValueHeads = numKeyValueHeads, a.sparseMode = sparseMode;                     \
    a.innerPrecise = innerPrecise, a.blockSize = blockSize, a.antiquantMode = antiquantMode;                           \
    a.softmaxLseFlag = softmaxLseFlag;

#define FIA_SPLIT_MODES int64_t keyAntiquantMode, int64_t valueAntiquantMode
#define FIA_KEEP_SPLIT_MODES a.keyAntiquantMode = keyAntiquantMode, a.valueAntiquantMode = valueAntiquantMode;

#define FIA_OUTPUTS                                                                                                    \
    const aclTensor *attentionOut, const aclTensor *softmaxLse, uint64_t *workspaceSize, aclOpExecutor **executor
#define FIA_KEEP_OUTPUTS a.attentionOut = attentionOut, a.softmaxLse = softmaxLse;

#define FIA_PHASE_ONE(name, version, lengths, keep, ...)                                                               \
    aclnnStatus name(__VA_ARGS__) {                                                                                    \
        SIM_API;                                                                                                       \
        sim::fia::Arguments a;                                                                                         \
        keep return sim::fia::phaseOne(#name, version, sim::fia::Lengths::lengths, a, workspaceSize, executor);        \
    }
#define FIA_PHASE_TWO(name, version)                                                                                   \
    aclnnStatus name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {           \
        SIM_API;                                                                                                       \
        return sim::fia::phaseTwo(#name, version, workspace, workspaceSize, executor, stream);                         \
    }

#define FIA_KEEP_V1 FIA_KEEP_INPUTS FIA_KEEP_ATTRIBUTES FIA_KEEP_OUTPUTS
#define FIA_KEEP_V2 FIA_KEEP_V1 FIA_KEEP_SPLIT_INPUTS FIA_KEEP_SPLIT_MODES
#define FIA_KEEP_V3 FIA_KEEP_V2 FIA_KEEP_ROPE_INPUTS
#define FIA_KEEP_V4 FIA_KEEP_V3 FIA_KEEP_V4_INPUTS a.queryQuantMode = queryQuantMode;
#define FIA_KEEP_V5 FIA_KEEP_V4 FIA_KEEP_V5_INPUTS a.pseType = pseType;

extern "C" {

FIA_PHASE_ONE(aclnnFusedInferAttentionScoreGetWorkspaceSize, 1, Known, FIA_KEEP_V1, FIA_INPUTS, FIA_ATTRIBUTES,
              FIA_OUTPUTS)
FIA_PHASE_TWO(aclnnFusedInferAttentionScore, 1)

FIA_PHASE_ONE(aclnnFusedInferAttentionScoreV2GetWorkspaceSize, 2, Known, FIA_KEEP_V2, FIA_INPUTS, FIA_SPLIT_INPUTS,
              FIA_ATTRIBUTES, FIA_SPLIT_MODES, FIA_OUTPUTS)
FIA_PHASE_ONE(aclnnFusedInferAttentionScoreV2GetMaxWorkspaceSize, 2, CountsOnly, FIA_KEEP_V2, FIA_INPUTS,
              FIA_SPLIT_INPUTS, FIA_ATTRIBUTES, FIA_SPLIT_MODES, FIA_OUTPUTS)
FIA_PHASE_TWO(aclnnFusedInferAttentionScoreV2, 2)

FIA_PHASE_ONE(aclnnFusedInferAttentionScoreV3GetWorkspaceSize, 3, Known, FIA_KEEP_V3, FIA_INPUTS, FIA_SPLIT_INPUTS,
              FIA_ROPE_INPUTS, FIA_ATTRIBUTES, FIA_SPLIT_MODES, FIA_OUTPUTS)
FIA_PHASE_ONE(aclnnFusedInferAttentionScoreV3GetMaxWorkspaceSize, 3, CountsOnly, FIA_KEEP_V3, FIA_INPUTS,
              FIA_SPLIT_INPUTS, FIA_ROPE_INPUTS, FIA_ATTRIBUTES, FIA_SPLIT_MODES, FIA_OUTPUTS)
FIA_PHASE_TWO(aclnnFusedInferAttentionScoreV3, 3)

FIA_PHASE_ONE(aclnnFusedInferAttentionScoreV4GetWorkspaceSize, 4, Known, FIA_KEEP_V4, FIA_INPUTS, FIA_SPLIT_INPUTS,
              FIA_ROPE_INPUTS, FIA_V4_INPUTS, FIA_ATTRIBUTES, FIA_SPLIT_MODES, int64_t queryQuantMode, FIA_OUTPUTS)
FIA_PHASE_ONE(aclnnFusedInferAttentionScoreV4GetMaxWorkspaceSize, 4, CountsOnly, FIA_KEEP_V4, FIA_INPUTS,
              FIA_SPLIT_INPUTS, FIA_ROPE_INPUTS, FIA_V4_INPUTS, FIA_ATTRIBUTES, FIA_SPLIT_MODES, int64_t queryQuantMode,
              FIA_OUTPUTS)
FIA_PHASE_TWO(aclnnFusedInferAttentionScoreV4, 4)

FIA_PHASE_ONE(aclnnFusedInferAttentionScoreV5GetWorkspaceSize, 5, Known, FIA_KEEP_V5, FIA_INPUTS, FIA_SPLIT_INPUTS,
              FIA_ROPE_INPUTS, FIA_V4_INPUTS, FIA_V5_INPUTS, FIA_ATTRIBUTES, FIA_SPLIT_MODES, int64_t queryQuantMode,
              int64_t pseType, FIA_OUTPUTS)
FIA_PHASE_ONE(aclnnFusedInferAttentionScoreV5GetMaxWorkspaceSize, 5, CountsOnly, FIA_KEEP_V5, FIA_INPUTS,
              FIA_SPLIT_INPUTS, FIA_ROPE_INPUTS, FIA_V4_INPUTS, FIA_V5_INPUTS, FIA_ATTRIBUTES, FIA_SPLIT_MODES,
              int64_t queryQuantMode, int64_t pseType, FIA_OUTPUTS)
FIA_PHASE_TWO(aclnnFusedInferAttentionScoreV5, 5)

}  // extern "C"
