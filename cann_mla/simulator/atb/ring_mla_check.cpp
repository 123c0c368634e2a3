#include <algorithm>
#include <numeric>
#include <string>

#include "atb/checks.hpp"
#include "atb/ring_mla.hpp"
#include "checker/finding.hpp"

namespace sim::atb {

namespace {

constexpr int64_t nopeSize = 128, ropeSize = 64, valueSize = 128, maskLength = 512, shortMaskLength = 128;
constexpr int64_t cubeCores = 24;
constexpr uint64_t scratchPerBlock = 5 * 2'097'152;  // scores, probabilities and partial outputs of one core

Rejection badParam(const std::string& text) { return {ATB_ERROR_INVALID_PARAM, text}; }

int32_t largest(const std::vector<int32_t>& values) { return *std::max_element(values.begin(), values.end()); }
int32_t smallest(const std::vector<int32_t>& values) { return *std::min_element(values.begin(), values.end()); }
int64_t total(const std::vector<int32_t>& values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

// Lengths as ATB reads them: one row serves queries and keys, of several the second is that of the keys.
void splitLengths(const Tensor& seqLen, const std::vector<int32_t>& values, RingMlaWork& work) {
    auto batch = static_cast<std::ptrdiff_t>(seqLen.dim(static_cast<size_t>(seqLen.rank() - 1)));
    bool one = static_cast<std::ptrdiff_t>(values.size()) == batch;
    work.q.assign(values.begin(), values.begin() + batch);
    work.kv.assign(values.begin() + (one ? 0 : batch), values.begin() + (one ? batch : 2 * batch));
}

}  // namespace

int64_t ringMlaBlocks(const std::vector<int32_t>& q, const std::vector<int32_t>& kv) {
    int64_t blocks = 0;
    for (size_t i = 0; i < q.size(); ++i) {
        if (kv[i] > 0) blocks += (q[i] + ringMlaRowBlock - 1) / ringMlaRowBlock;
    }
    return blocks;
}

std::optional<Rejection> RingMla::check(const RingMlaParams& p) {
    auto got = [](int value) { return ", not " + std::to_string(value); };
    if (product() == Product::A950) return badParam("RingMLA runs on Atlas A2 and A3 only");
    if (p.calcType != 0 && p.calcType != 1) return badParam("calcType must be 0 or 1" + got(p.calcType));
    if (p.headNum <= 0) return badParam("headNum must be positive" + got(p.headNum));
    if (p.kvHeadNum < 0) return badParam("kvHeadNum must be 0 (as headNum) or positive" + got(p.kvHeadNum));
    if (p.kvHeadNum > 0 && p.headNum % p.kvHeadNum != 0) {
        return badParam("kvHeadNum must divide headNum " + std::to_string(p.headNum) + got(p.kvHeadNum));
    }
    if (p.maskType != 0 && p.maskType != 1) return badParam("maskType must be 0 or 1" + got(p.maskType));
    if (p.inputLayout != 0) return badParam("inputLayout must be 0 (BSND)" + got(p.inputLayout));
    if (p.kernelType != 1) return badParam("kernelType must be 1 (high precision)" + got(p.kernelType));
    return std::nullopt;
}

Definition RingMla::definition() const {
    const OperandRule half{{ACL_FLOAT16, ACL_BF16}}, single{{ACL_FLOAT}};
    const OperandRule lengths{{ACL_INT32, ACL_INT32, ACL_UINT32, ACL_UINT32}};
    Definition definition{4, {half, half, half, half, half, half, lengths}, {half, single}};
    if (params_.merges()) definition.inputs.insert(definition.inputs.end(), {half, single});
    return definition;
}

std::optional<Rejection> RingMla::checkRanks(const Tensors& t) const {
    for (const char* name : {"querySplit1", "querySplit2", "keySplit1", "keySplit2", "value"}) {
        if (auto refusal = checkRank(t[name], {3})) return refusal;
    }
    if (params_.masked()) {
        if (auto refusal = checkRank(t["mask"], {2, 3})) return refusal;
    }
    if (auto refusal = checkRank(t["seqLen"], {1, 2})) return refusal;
    if (!params_.merges()) return std::nullopt;
    if (auto refusal = checkRank(t["prevOut"], {3})) return refusal;
    return checkRank(t["prevLse"], {2});
}

std::optional<Rejection> RingMla::checkPrevious(const Tensors& t) const {
    int64_t tokens = t["querySplit1"].dim(0), heads = t["querySplit1"].dim(1);
    if (auto refusal = checkShape(t["prevOut"], {tokens, heads, valueSize}, "as the output")) return refusal;
    return checkShape(t["prevLse"], {heads, tokens}, "heads and query tokens");
}

std::optional<Rejection> RingMla::checkShapes(const Tensors& t) const {
    if (auto refusal = checkInputs(t)) return refusal;
    int64_t tokens = t["querySplit1"].dim(0), heads = t["querySplit1"].dim(1);
    if (auto refusal = checkShape(t["output"], {tokens, heads, valueSize}, "tokens, heads, size of a head"))
        return refusal;
    return checkShape(t["softmaxLse"], {heads, tokens}, "heads and query tokens");
}

std::optional<Rejection> RingMla::checkInputs(const Tensors& t) const {
    if (auto refusal = checkRanks(t)) return refusal;
    int64_t tokens = t["querySplit1"].dim(0), heads = t["querySplit1"].dim(1);
    int64_t kvTokens = t["keySplit1"].dim(0), kvHeads = t["keySplit1"].dim(1);
    if (auto refusal = checkDim(t["querySplit1"], 2, {nopeSize}, "the part without rope")) return refusal;
    if (auto refusal = checkShape(t["querySplit2"], {tokens, heads, ropeSize}, "as querySplit1, rope part"))
        return refusal;
    if (auto refusal = checkDim(t["keySplit1"], 2, {nopeSize}, "the part without rope")) return refusal;
    if (auto refusal = checkShape(t["keySplit2"], {kvTokens, kvHeads, ropeSize}, "as keySplit1, rope part"))
        return refusal;
    if (auto refusal = checkDim(t["value"], 1, {kvHeads}, "heads of the keys")) return refusal;
    if (auto refusal = checkDim(t["value"], 2, {valueSize}, "size of a head")) return refusal;
    const Tensor &mask = t["mask"], &seqLen = t["seqLen"];
    if (mask.rank() == 3) {
        int64_t batch = seqLen.dim(seqLen.rank() == 2 ? 1 : 0);
        if (auto refusal = checkDim(mask, 0, {batch}, "sequences")) return refusal;
    }
    return params_.merges() ? checkPrevious(t) : std::nullopt;
}

// The kernel's own view of the mask, and of the lengths it goes with.
std::optional<Rejection> RingMla::checkMask(const Tensors& t, const RingMlaWork& work) const {
    auto refuse = [](const std::string& text) { return Rejection{ATB_ERROR_RT_FAIL, text}; };
    int32_t maxQ = largest(work.q), maxKv = largest(work.kv);
    if (maxQ <= 0 || maxKv <= 0)
        return refuse("with a mask, seqLen must hold a positive length for queries and for keys");
    if (smallest(work.q) < 0 || smallest(work.kv) < 0) return refuse("seqLen holds a negative length");
    for (size_t i = 0; i < work.q.size(); ++i) {
        if (work.kv[i] != 0 && work.kv[i] < work.q[i]) {
            return refuse("with a mask, keys must be 0 or no fewer than queries; sequence " + std::to_string(i) +
                          " has " + std::to_string(work.kv[i]) + " keys for " + std::to_string(work.q[i]) + " queries");
        }
    }
    const TensorDesc& mask = t["mask"].desc();
    auto rank = static_cast<size_t>(mask.rank());
    int64_t rows = mask.dim(rank - 2), columns = mask.dim(rank - 1);
    bool compressed = (columns == shortMaskLength || columns == maskLength) && rows >= shortMaskLength;
    bool covers = rows >= maxQ && columns >= maxKv;
    if (compressed || covers) return std::nullopt;
    return badShape(ATB_ERROR_RT_FAIL, t["mask"],
                    "[512, 512]; ATB also lets pass what covers the longest sequences, [" + std::to_string(maxQ) +
                        ", " + std::to_string(maxKv) + "], but the kernel reads rows of 512");
}

std::optional<Rejection> RingMla::tilingFailure(const Tensors& t, const RingMlaWork& work) const {
    constexpr int64_t mostHeads = 128, mostSequences = 2'000'000;
    auto refuse = [](const std::string& text) { return Rejection{ATB_ERROR_INVALID_PARAM, text}; };
    if (params_.headNum > mostHeads) return refuse("headNum is " + std::to_string(params_.headNum) + "; at most 128");
    if (params_.masked()) {
        int64_t columns = t["mask"].dim(static_cast<size_t>(t["mask"].rank() - 1));
        if (columns != maskLength && std::max(largest(work.q), largest(work.kv)) > columns) {
            return refuse("a sequence is longer than the mask's " + std::to_string(columns) +
                          " columns; give [512, 512]");
        }
    }
    if (static_cast<int64_t>(work.q.size()) > mostSequences) return refuse("too many sequences");
    if (smallest(work.q) <= 0) return refuse("seqLen holds a query length of 0 or below");
    if (smallest(work.kv) < 0) return refuse("seqLen holds a negative key length");
    if (ringMlaBlocks(work.q, work.kv) == 0) return refuse("no sequence has keys");
    return std::nullopt;
}

void RingMla::reportTraps(const Tensors& t, const RingMlaWork& work) const {
    auto tell = [&](const std::string& text) { report("ring-mla-trap", std::string(api()) + ": " + text); };
    const Tensor &query = t["querySplit1"], &key = t["keySplit1"], &seqLen = t["seqLen"], &mask = t["mask"];
    if (query.dim(1) != params_.headNum) {
        tell("headNum is " + std::to_string(params_.headNum) + ", but the queries have " +
             std::to_string(query.dim(1)) + " heads; the kernel goes by headNum");
    }
    if (key.dim(1) != params_.kvHeads()) {
        tell("kvHeadNum means " + std::to_string(params_.kvHeads()) + ", but the keys have " +
             std::to_string(key.dim(1)) + " heads; the kernel goes by kvHeadNum");
    }
    if (total(work.q) != query.dim(0) || total(work.kv) != key.dim(0)) {
        tell("seqLen adds up to " + std::to_string(total(work.q)) + " queries and " + std::to_string(total(work.kv)) +
             " keys, the tensors have " + std::to_string(query.dim(0)) + " and " + std::to_string(key.dim(0)));
    }
    if (seqLen.rank() == 2 && seqLen.dim(0) != 1 && seqLen.dim(0) != 2) {
        tell("seqLen " + shapeText(seqLen.desc().shape) + " has rows that nothing reads; it must be [B] or [2, B]");
    }
    auto rank = static_cast<size_t>(mask.rank());
    if (params_.masked() && (mask.dim(rank - 1) != maskLength || mask.dim(rank - 2) != maskLength)) {
        tell("mask " + shapeText(mask.desc().shape) + " is read in rows of 512; only [512, 512] computes what it says");
    }
}

Plan RingMla::plan(const Tensors& t) const {
    HostLengths lengths = readLengths(t["seqLen"]);
    if (lengths.refusal) return {lengths.refusal};
    RingMlaWork work{params_,
                     t["querySplit1"].desc().dtype == ACL_BF16,
                     {},
                     {},
                     t["querySplit1"].desc().numel(),
                     std::min(t["keySplit1"].desc().numel(), t["value"].desc().numel()),
                     t["softmaxLse"].desc().numel(),
                     t["mask"].desc().numel()};
    splitLengths(t["seqLen"], lengths.values, work);
    if (params_.masked()) {
        if (auto refusal = checkMask(t, work)) return {refusal};
    }
    reportTraps(t, work);
    if (auto failure = tilingFailure(t, work)) return {std::nullopt, failure};
    auto cores = std::min<int64_t>(cubeCores, params_.headNum * ringMlaBlocks(work.q, work.kv));
    return {std::nullopt, std::nullopt, static_cast<uint64_t>(cores) * scratchPerBlock,
            [work](const Launch& launch) { ringMlaKernel(work, launch); }};
}

}  // namespace sim::atb
