#include <algorithm>
#include <string>

#include "atb/atb_acl.h"
#include "atb/checks.hpp"
#include "atb/self_attention_prefix_encoder.hpp"
#include "core/entry.hpp"

namespace sim::atb {

namespace {

constexpr int64_t largestHead = 128, slopesMask = 256, shortMask = 128;
constexpr uint64_t cubeCores = 24, scratchPerCore = 5 * 2'097'152;

Rejection badParam(const std::string& text) { return {ATB_ERROR_INVALID_PARAM, text}; }

int32_t largest(const std::vector<int32_t>& values) { return *std::max_element(values.begin(), values.end()); }
int32_t smallest(const std::vector<int32_t>& values) { return *std::min_element(values.begin(), values.end()); }

// Every wanted size of the last two dimensions is there; those before are equal.
bool covers(const std::vector<int64_t>& shape, const std::vector<int64_t>& wanted) {
    if (shape.size() != wanted.size()) return false;
    for (size_t i = 0; i < shape.size(); ++i) {
        bool inner = i + 2 >= shape.size();
        if (inner ? shape[i] < wanted[i] : shape[i] != wanted[i]) return false;
    }
    return true;
}

}  // namespace

std::optional<Rejection> SelfAttentionPrefixEncoder::check(const PrefixEncoderParams& p) {
    if (product() == Product::A950) {
        return Rejection{ATB_ERROR_CANN_ERROR, "SelfAttentionPrefixEncoder runs on Atlas A2 and A3 only"};
    }
    if (p.headNum <= 0) return badParam("headNum must be positive, not " + std::to_string(p.headNum));
    if (p.kvHeadNum < 0)
        return badParam("kvHeadNum must be 0 (as headNum) or positive, not " + std::to_string(p.kvHeadNum));
    if (p.kvHeadNum > 0 && (p.headNum % p.kvHeadNum != 0 || p.headNum < p.kvHeadNum)) {
        return badParam("kvHeadNum " + std::to_string(p.kvHeadNum) + " must divide headNum " +
                        std::to_string(p.headNum));
    }
    if (!p.isCausal() && !p.isNormCompressed() && !p.hasSlopes()) {
        return badParam("maskType must be 3, 4, 5 or 9, not " + std::to_string(p.maskType));
    }
    return std::nullopt;
}

Definition SelfAttentionPrefixEncoder::definition() const {
    const OperandRule half{{ACL_FLOAT16, ACL_BF16}}, index{{ACL_INT32}};
    const OperandRule lengths{{ACL_INT32, ACL_INT32, ACL_UINT32, ACL_UINT32}};
    Definition d{4, {half, half, half, index}, {half}};
    if (!params_.isCausal()) d.inputs.push_back(half);
    d.inputs.insert(d.inputs.end(), {lengths, lengths});
    if (params_.hasSlopes()) d.inputs.push_back({{ACL_FLOAT}});
    return d;
}

std::optional<Rejection> SelfAttentionPrefixEncoder::checkRanks(const Tensors& t) const {
    if (auto refusal = checkRank(t["query"], {2, 3})) return refusal;
    if (auto refusal = checkRank(t["key"], {3, 4})) return refusal;
    if (auto refusal = checkRank(t["value"], {t["key"].rank()})) return refusal;
    if (auto refusal = checkRank(t["blockTables"], {2})) return refusal;
    if (auto refusal = checkRank(t["seqLen"], {1})) return refusal;
    if (auto refusal = checkRank(t["kvSeqLen"], {1})) return refusal;
    return params_.hasSlopes() ? checkRank(t["slopes"], {1}) : std::nullopt;
}

std::optional<Rejection> SelfAttentionPrefixEncoder::checkMask(const Tensors& t) const {
    if (params_.isCausal()) return std::nullopt;
    const Tensor& mask = t["mask"];
    if (params_.isNormCompressed()) {
        if (mask.rank() != 2) return badShape(ATB_ERROR_INVALID_TENSOR_SIZE, mask, "2 dimensions");
        return checkShape(mask, {shortMask, shortMask}, "the compressed triangle");
    }
    if (mask.rank() == 2) return checkShape(mask, {slopesMask, slopesMask}, "the compressed triangle");
    if (mask.rank() == 3 && mask.dim(0) != params_.headNum && mask.dim(2) != shortMask) {
        return badShape(ATB_ERROR_INVALID_TENSOR_DIM, mask, "[headNum, length, 128]");
    }
    if (mask.rank() == 4) return badShape(ATB_ERROR_INVALID_TENSOR_SIZE, mask, "2 or 3 dimensions");
    return std::nullopt;
}

int64_t SelfAttentionPrefixEncoder::headSizeOf(const Tensor& cache) const {
    int64_t last = cache.desc().shape.back();
    return cache.rank() == 3 ? last / params_.kvHeads() : last;
}

int64_t SelfAttentionPrefixEncoder::queryHeadSize(const Tensors& t) const {
    int64_t last = t["query"].desc().shape.back();
    return t["query"].rank() == 2 ? last / params_.headNum : last;
}

std::optional<Rejection> SelfAttentionPrefixEncoder::checkHeads(const Tensors& t) const {
    int64_t headSize = headSizeOf(t["key"]), querySize = queryHeadSize(t);
    for (auto [name, size] : {std::pair("key", headSize), std::pair("query", querySize)}) {
        if (size > largestHead || size % 16 != 0) {
            return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t[name], "a head size that is a multiple of 16, at most 128");
        }
    }
    if (t["key"].dim(1) * headSize > largestHead * largestHead) {
        return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t["key"], "block size x head size of at most 16384");
    }
    return std::nullopt;
}

std::optional<Rejection> SelfAttentionPrefixEncoder::checkShapes(const Tensors& t) const {
    if (auto refusal = checkRanks(t)) return refusal;
    if (auto refusal = checkMask(t)) return refusal;
    if (auto refusal = checkHeads(t)) return refusal;
    int64_t batch = t["blockTables"].dim(0);
    for (const char* name : {"seqLen", "kvSeqLen"}) {
        if (auto refusal = checkDim(t[name], 0, {batch}, "sequences of blockTables")) return refusal;
    }
    for (const char* name : {"key", "value"}) {
        if (t[name].rank() == 3 && t[name].dim(2) % params_.kvHeads() != 0) {
            return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t[name], "a width that kvHeadNum divides");
        }
    }
    int64_t largestValue = params_.hasSlopes() ? 128 : headSizeOf(t["key"]) == headSizeOf(t["value"]) ? 576 : 256;
    if (headSizeOf(t["value"]) > largestValue) {
        return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t["value"],
                        "a head size of at most " + std::to_string(largestValue));
    }
    return checkShape(t["attnOut"], t["query"].desc().shape, "as query");
}

std::optional<Rejection> SelfAttentionPrefixEncoder::checkMaskLengths(const Tensors& t,
                                                                      const PrefixEncoderWork& w) const {
    auto refuse = [](const std::string& text) { return Rejection{ATB_ERROR_RT_FAIL, text}; };
    int64_t maxQ = largest(w.q), maxKv = largest(w.kv), heads = params_.headNum;
    if (maxKv <= 0 || smallest(w.kv) < 0) return refuse("kvSeqLen holds a negative length, or none above 0");
    if (maxQ <= 0 || smallest(w.q) < 0) return refuse("seqLen holds a negative length, or none above 0");
    if (maxKv < maxQ) return refuse("the longest sequence of kvSeqLen is shorter than that of seqLen");
    const std::vector<int64_t>& shape = t["mask"].desc().shape;
    auto batch = static_cast<int64_t>(w.q.size());
    bool isShort = shape.back() == shortMask;
    bool fits = covers(shape, {maxQ, maxKv}) || covers(shape, {batch, heads, maxQ, maxKv}) ||
                (isShort && (covers(shape, {shortMask, shortMask}) || covers(shape, {batch, shortMask, shortMask})));
    if (params_.hasSlopes()) {
        bool flat = isShort && shape.size() > 1 && shape[shape.size() - 2] != shortMask;
        fits = fits || covers(shape, {slopesMask, slopesMask}) || covers(shape, {heads, maxQ, maxKv}) ||
               (flat && covers(shape, {heads, maxQ, shortMask}));
    } else {
        fits = fits || covers(shape, {batch, maxQ, maxKv});
    }
    if (fits) return std::nullopt;
    return badShape(ATB_ERROR_RT_FAIL, t["mask"], params_.hasSlopes() ? "[256, 256]" : "[128, 128]");
}

std::optional<Rejection> SelfAttentionPrefixEncoder::tilingFailure(const Tensors& t, const PrefixEncoderWork& w) const {
    int64_t valueWidth = t["value"].desc().shape.back(), headSize = queryHeadSize(t);
    if (valueWidth != headSize && valueWidth != params_.kvHeads() * headSize) {
        return badShape(ATB_ERROR_INVALID_PARAM, t["value"], "the head size of the query");
    }
    if (w.blockSize != 128) return badShape(ATB_ERROR_INVALID_PARAM, t["key"], "blocks of 128 tokens");
    for (size_t i = 0; i < w.q.size(); ++i) {
        if (w.q[i] < 0 || w.kv[i] < 0 || (w.kv[i] - w.q[i]) % 128 != 0) {
            return badParam("kvSeqLen minus seqLen of sequence " + std::to_string(i) + " is " +
                            std::to_string(w.kv[i] - w.q[i]) +
                            "; it must be a multiple of 128, and no length negative");
        }
    }
    if (largest(w.q) == 0) return badParam("no sequence has queries");
    return std::nullopt;
}

Plan SelfAttentionPrefixEncoder::plan(const Tensors& t) const {
    HostLengths query = readLengths(t["seqLen"]), key = readLengths(t["kvSeqLen"]);
    for (const HostLengths* lengths : {&query, &key}) {
        if (lengths->refusal) return {lengths->refusal};
    }
    PrefixEncoderWork work{params_,
                           t["query"].desc().dtype == ACL_BF16,
                           t["query"].dim(0),
                           queryHeadSize(t),
                           t["key"].dim(0),
                           t["key"].dim(1),
                           t["blockTables"].dim(1),
                           query.values,
                           key.values};
    if (!params_.isCausal()) {
        if (auto refusal = checkMaskLengths(t, work)) return {refusal};
    }
    if (auto failure = tilingFailure(t, work)) return {std::nullopt, failure};
    if (params_.hasSlopes() && t["mask"].rank() != 2) {
        return {std::nullopt, std::nullopt, cubeCores * scratchPerCore, [](const Launch&) {
                    throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION,
                                      "mask: the form [headNum, length, 128] is not simulated");
                }};
    }
    bool matches =
        t["key"].rank() == 3 || (t["key"].dim(2) == params_.kvHeads() && t["value"].dim(2) == params_.kvHeads());
    if (!matches || headSizeOf(t["key"]) != work.headSize) {
        Rejection trap = badShape(0, t["key"], std::to_string(params_.kvHeads()) + " heads of the query's size");
        return {std::nullopt, std::nullopt, cubeCores * scratchPerCore, [trap](const Launch&) {
                    throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION,
                                      trap.text + "; the kernel would read other elements");
                }};
    }
    return {std::nullopt, std::nullopt, cubeCores * scratchPerCore,
            [work](const Launch& launch) { prefixEncoderKernel(work, launch); }, {"key", "value"}};
}

}  // namespace sim::atb

extern "C" {

atb_Status AtbSelfAttentionPrefixEncoderGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
                                                         const aclTensor* value, const aclTensor* blockTables,
                                                         const aclTensor* mask, const aclTensor* seqLen,
                                                         const aclTensor* kvSeqLen, const aclTensor* slopes,
                                                         int maskType, int32_t headNum, int32_t kvHeadNum,
                                                         float qkScale, aclTensor* attnOut, uint64_t* workspaceSize,
                                                         atb_Operation** op, atb_Context* context) {
    SIM_API;
    sim::atb::PhaseOne call("AtbSelfAttentionPrefixEncoder", workspaceSize, op, context);
    sim::atb::PrefixEncoderParams params{maskType, headNum, kvHeadNum, qkScale};
    if (int32_t status = call.create<sim::atb::SelfAttentionPrefixEncoder>(params)) return status;
    call.input("query", query);
    call.input("key", key);
    call.input("value", value);
    call.input("blockTables", blockTables);
    if (!params.isCausal()) call.input("mask", mask);
    call.hostInput("seqLen", seqLen);
    call.hostInput("kvSeqLen", kvSeqLen);
    if (params.hasSlopes()) call.input("slopes", slopes);
    call.output("attnOut", attnOut);
    return call.setup();
}

atb_Status AtbSelfAttentionPrefixEncoder(void* workspace, uint64_t workspaceSize, atb_Operation* op,
                                         atb_Context* context) {
    SIM_API;
    return sim::atb::phaseTwo("AtbSelfAttentionPrefixEncoder", workspace, workspaceSize, op, context);
}

}  // extern "C"
