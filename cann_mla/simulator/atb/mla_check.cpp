#include <algorithm>
#include <string>

#include "atb/checks.hpp"
#include "atb/mla.hpp"

namespace sim::atb {

namespace {

constexpr int64_t latent = 512, rope = 64, blockSize = 128, mostSequences = 8192;
constexpr int64_t prefillSize = 128;  // of keys and values
constexpr uint64_t cubeCores = 24;

Rejection badParam(const std::string& text) { return {ATB_ERROR_INVALID_PARAM, text}; }

std::optional<Rejection> checkDecodeParams(const MlaParams& p) {
    if (p.headNum != 8 && p.headNum != 16 && p.headNum != 32 && p.headNum != 64 && p.headNum != 128) {
        return badParam("headNum must be 8, 16, 32, 64 or 128, not " + std::to_string(p.headNum));
    }
    if (p.kvHeadNum != 1) return badParam("kvHeadNum must be 1, not " + std::to_string(p.kvHeadNum));
    if (p.cache() == MlaCache::KvCache) return badParam("cacheMode 0 (one cache for keys and rope) is not supported");
    if (!p.takesQueryLengths() && p.maskType != mlaMaskNone) return badParam("only calcType 1 and 3 take a mask");
    if (p.takesQueryLengths() && p.maskType == mlaMaskSwa) return badParam("maskType 4 belongs to prefill");
    if (p.isInt8() && p.givesLse() && p.maskType != mlaMaskNone) {
        return badParam("an int8 cache with lse takes no mask");
    }
    return std::nullopt;
}

std::optional<Rejection> checkPrefillParams(const MlaParams& p) {
    if (p.headNum < 1 || p.headNum > 128) return badParam("headNum must be 1..128, not " + std::to_string(p.headNum));
    if (p.maskType != mlaMaskCausal && p.headNum != p.kvHeadNum) return badParam("kvHeadNum must equal headNum");
    if (p.maskType == mlaMaskSpec) return badParam("prefill takes no mask of maskType 1");
    if (p.cache() != MlaCache::KropeCtkv) return badParam("cacheMode must be 1, not " + std::to_string(p.cacheMode));
    if (p.maskType == mlaMaskSwa) return badParam("maskType 4 wants a window size, which the C interface cannot give");
    return std::nullopt;
}

int32_t largest(const std::vector<int32_t>& values) { return *std::max_element(values.begin(), values.end()); }
int32_t smallest(const std::vector<int32_t>& values) { return *std::min_element(values.begin(), values.end()); }

}  // namespace

std::optional<Rejection> Mla::check(const MlaParams& p) {
    if (product() == Product::A950) return badParam("MLA runs on Atlas A2 and A3 only");
    if (p.qkScale <= 0 || p.qkScale > 1)
        return badParam("qkScale must lie in (0, 1], not " + std::to_string(p.qkScale));
    if (p.maskType < mlaMaskNone || p.maskType > mlaMaskSwa) {
        return badParam("maskType must be 0..4, not " + std::to_string(p.maskType));
    }
    if (p.calcType < 0 || p.calcType > 4) return badParam("calcType must be 0..4, not " + std::to_string(p.calcType));
    if (p.cacheMode > 3) return badParam("cacheMode must be 0..3, not " + std::to_string(p.cacheMode));
    return p.isPrefill() ? checkPrefillParams(p) : checkDecodeParams(p);
}

// ATB's table has no entry for some combinations (query lengths or lse with NZ caches); dtypes go unchecked there.
Definition Mla::definition() const {
    if (params_.isPrefill()) return prefillDefinition();
    const OperandRule half{{ACL_FLOAT16, ACL_BF16}}, index{{ACL_INT32}}, single{{ACL_FLOAT}}, int8{{ACL_INT8}};
    const OperandRule nzHalf{half.dtypes, ACL_FORMAT_FRACTAL_NZ}, nzInt8{int8.dtypes, ACL_FORMAT_FRACTAL_NZ};
    bool nz = params_.cache() != MlaCache::KropeCtkv, int8Cache = params_.isInt8();
    Definition d{2,
                 {int8Cache ? int8 : half, half,
                  int8Cache ? nzInt8
                  : nz      ? nzHalf
                            : half,
                  nz ? nzHalf : half, index, index},
                 {half}};
    if (params_.takesMask()) d.inputs.push_back(half);
    if (params_.takesQueryLengths()) d.inputs.push_back(index);
    if (int8Cache) d.inputs.insert(d.inputs.end(), {single, single});
    if (params_.givesLse()) d.outputs.push_back(int8Cache ? single : half);
    bool listed = !nz || (!params_.takesQueryLengths() && !(params_.givesLse() && !int8Cache));
    if (!listed) d.columns = 0;
    return d;
}

Definition Mla::prefillDefinition() const {
    const OperandRule half{{ACL_FLOAT16, ACL_BF16}}, index{{ACL_INT32}};
    Definition d{2, {half, half, half, half, half, index, index}, {half}};
    if (params_.takesMask()) d.inputs.push_back(half);
    return d;
}

std::optional<Rejection> Mla::checkShapes(const Tensors& t) const {
    return params_.isPrefill() ? checkPrefill(t) : checkDecode(t);
}

std::optional<Rejection> Mla::checkDecode(const Tensors& t) const {
    constexpr std::pair<const char*, int64_t> ranks[] = {{"qNope", 3}, {"qRope", 3},       {"ctKV", 4},
                                                         {"kRope", 4}, {"blockTables", 2}, {"contextLens", 1}};
    for (auto [name, rank] : ranks) {
        if (auto refusal = checkRank(t[name], {rank})) return refusal;
    }
    int64_t batch = t["blockTables"].dim(0), tokens = t["qNope"].dim(0);
    if (batch > mostSequences)
        return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t["blockTables"], "at most 8192 sequences");
    if (params_.calc() == MlaCalc::Plain) {
        if (auto refusal = checkDim(t["qNope"], 0, {batch}, "one token a sequence")) return refusal;
    }
    if (auto refusal = checkDim(t["contextLens"], 0, {batch}, "sequences of blockTables")) return refusal;
    if (auto refusal = checkCaches(t)) return refusal;
    if (auto refusal = checkShape(t["qNope"], {tokens, params_.headNum, latent}, "tokens, headNum, latent"))
        return refusal;
    if (auto refusal = checkShape(t["qRope"], {tokens, params_.headNum, rope}, "as qNope, rope part")) return refusal;
    return checkOptional(t);
}

std::optional<Rejection> Mla::checkCaches(const Tensors& t) const {
    int64_t blocks = t["ctKV"].dim(0);
    switch (params_.cache()) {
        case MlaCache::Int8Nz:
            if (auto refusal = checkShape(t["ctKV"], {blocks, latent / 32, blockSize, 32}, "NZ of int8"))
                return refusal;
            return checkShape(t["kRope"], {blocks, rope / 16, blockSize, 16}, "NZ");
        case MlaCache::Nz:
            if (auto refusal = checkShape(t["ctKV"], {blocks, latent / 16, blockSize, 16}, "NZ")) return refusal;
            return checkShape(t["kRope"], {blocks, rope / 16, blockSize, 16}, "NZ");
        default:
            if (auto refusal = checkShape(t["ctKV"], {blocks, blockSize, 1, latent}, "blocks of 128")) return refusal;
            return checkShape(t["kRope"], {blocks, blockSize, 1, rope}, "blocks of 128");
    }
}

// The scales of an int8 cache and the outputs are looked at in one mode only.
std::optional<Rejection> Mla::checkOptional(const Tensors& t) const {
    int64_t batch = t["contextLens"].dim(0);
    if (params_.takesQueryLengths()) {
        if (auto refusal = checkRank(t["qSeqLen"], {1})) return refusal;
        if (auto refusal = checkDim(t["qSeqLen"], 0, {batch}, "sequences")) return refusal;
    }
    if (!params_.givesLse() || params_.maskType != mlaMaskNone || !params_.isInt8()) return std::nullopt;
    for (const char* name : {"qkDescale", "pvDescale"}) {
        if (auto refusal = checkRank(t[name], {1})) return refusal;
    }
    for (const char* name : {"qkDescale", "pvDescale"}) {
        if (auto refusal = checkDim(t[name], 0, {params_.headNum}, "headNum")) return refusal;
    }
    int64_t tokens = t["qNope"].dim(0);
    if (auto refusal = checkRank(t["attenOut"], {3})) return refusal;
    if (auto refusal = checkShape(t["attenOut"], {tokens, params_.headNum, latent}, "as qNope")) return refusal;
    if (auto refusal = checkRank(t["lse"], {3})) return refusal;
    return checkShape(t["lse"], {tokens, params_.headNum, 1}, "tokens, headNum, 1");
}

std::optional<Rejection> Mla::checkPrefill(const Tensors& t) const {
    if (auto refusal = checkRank(t["q"], {2, 3})) return refusal;
    if (auto refusal = checkRank(t["qRope"], {t["q"].rank()})) return refusal;
    for (const char* name : {"k", "kRope", "v"}) {
        if (auto refusal = checkRank(t[name], {3})) return refusal;
    }
    for (const char* name : {"qSeqLen", "kvSeqLen"}) {
        if (auto refusal = checkRank(t[name], {1})) return refusal;
    }
    bool masked = params_.maskType == mlaMaskFree;
    if (masked) {
        if (auto refusal = checkRank(t["mask"], {2, 3})) return refusal;
    }
    int64_t batch = t["qSeqLen"].dim(0), tokens = t["q"].dim(0), heads = params_.headNum;
    if (batch > mostSequences) return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t["qSeqLen"], "at most 8192 sequences");
    if (auto refusal = checkDim(t["kvSeqLen"], 0, {batch}, "sequences of qSeqLen")) return refusal;
    bool flat = t["q"].rank() == 2;
    auto shape = [&](int64_t width) {
        return flat ? std::vector<int64_t>{tokens, heads * width} : std::vector<int64_t>{tokens, heads, width};
    };
    if (auto refusal = checkShape(t["q"], shape(prefillSize), "tokens, headNum, 128")) return refusal;
    if (auto refusal = checkShape(t["qRope"], shape(rope), "as q, rope part")) return refusal;
    if (auto refusal = checkPrefillKeys(t)) return refusal;
    if (masked && t["mask"].rank() == 2) {
        if (auto refusal = checkShape(t["mask"], {512, 512}, "the compressed triangle")) return refusal;
    }
    if (auto refusal = checkRank(t["attenOut"], {t["q"].rank()})) return refusal;
    return checkShape(t["attenOut"], t["q"].desc().shape, "as q");
}

std::optional<Rejection> Mla::checkPrefillKeys(const Tensors& t) const {
    const Tensor& k = t["k"];
    int64_t kvHeads = params_.kvHeadNum;
    bool packed = k.dim(1) == kvHeads && k.dim(2) == prefillSize && params_.maskType != mlaMaskCausal;
    bool padded = k.dim(0) == t["qSeqLen"].dim(0) && k.dim(2) == kvHeads * prefillSize;
    if (!packed && !padded) {
        return badShape(ATB_ERROR_INVALID_TENSOR_DIM, k,
                        "[tokens, kvHeadNum, 128] or [sequences, length, kvHeadNum x 128]");
    }
    if (auto refusal = checkShape(t["kRope"], {k.dim(0), k.dim(1), k.dim(2) / 2}, "as k, rope part")) return refusal;
    return checkShape(t["v"], k.desc().shape, "as k");
}

Plan Mla::plan(const Tensors& t) const { return params_.isPrefill() ? planPrefill(t) : planDecode(t); }

Plan Mla::planDecode(const Tensors& t) const {
    HostLengths context = readLengths(t["contextLens"]);
    if (context.refusal) return {context.refusal};
    MlaWork work{params_,
                 t["qRope"].desc().dtype == ACL_BF16,
                 t["qNope"].dim(0),
                 t["ctKV"].dim(0),
                 t["blockTables"].dim(1),
                 0,
                 0,
                 0,
                 {},
                 context.values};
    if (params_.takesQueryLengths()) {
        HostLengths query = readLengths(t["qSeqLen"]);
        if (query.refusal) return {query.refusal};
        work.q = query.values;
    } else {
        work.q.assign(work.kv.size(), 1);
    }
    if (params_.takesMask()) {
        work.maskColumns = t["mask"].desc().shape.back();
        work.maskNumel = t["mask"].desc().numel();
        if (t["mask"].rank() == 3) work.maskPlane = t["mask"].dim(1) * t["mask"].dim(2);
    }
    if (largest(work.q) <= 0) return {std::nullopt, badParam("qSeqLen holds no positive length")};
    if (largest(work.kv) < 0) return {std::nullopt, badParam("contextLens holds only negative lengths")};
    bool ignoresMask = params_.headNum == 128 || (params_.isInt8() && largest(work.q) > 1);
    if (params_.maskType == mlaMaskFree && t["mask"].rank() == 3 && !ignoresMask && !params_.isInt8() &&
        t["mask"].dim(0) != static_cast<int64_t>(work.kv.size())) {
        return {std::nullopt, badShape(ATB_ERROR_INVALID_PARAM, t["mask"], "one plane a sequence")};
    }
    constexpr uint64_t workspacePerCore = 4 * 1024 * 1024;  // an upper bound: the size is not part of the contract
    return {std::nullopt, std::nullopt, cubeCores * workspacePerCore,
            [work](const Launch& launch) { mlaKernel(work, launch); }, {"ctKV", "kRope"}};
}

Plan Mla::planPrefill(const Tensors& t) const {
    HostLengths query = readLengths(t["qSeqLen"]), key = readLengths(t["kvSeqLen"]);
    for (const HostLengths* lengths : {&key, &query}) {
        if (lengths->refusal) return {lengths->refusal};
    }
    if (query.values != key.values) return {badParam("kvSeqLen must equal qSeqLen")};
    auto refuse = [](const std::string& text) { return Rejection{ATB_ERROR_RT_FAIL, text}; };
    if (params_.maskType == mlaMaskFree) {
        if (largest(query.values) <= 0 || smallest(query.values) < 0) return {refuse("qSeqLen holds no usable length")};
        if (t["mask"].rank() != 2) return {badShape(ATB_ERROR_RT_FAIL, t["mask"], "2 dimensions")};
    }
    if (smallest(query.values) <= 0) return {std::nullopt, badParam("qSeqLen holds a length of 0 or below")};
    // What ATB takes for padded is [sequences x longest, heads, 128]; it reads everything else, [sequences, length,
    // heads x 128] too, as if one sequence's keys began where the last one's end.
    int64_t longest = largest(query.values);
    bool padded = static_cast<int64_t>(query.values.size()) * longest == t["k"].dim(0);
    MlaPrefillWork work{params_,
                        t["q"].desc().dtype == ACL_BF16,
                        t["q"].dim(0),
                        t["k"].desc().numel() / (params_.kvHeadNum * prefillSize),
                        padded ? longest : 0,
                        query.values};
    constexpr uint64_t workspacePerCore = 5 * 2'097'152;
    return {std::nullopt, std::nullopt, cubeCores * workspacePerCore,
            [work](const Launch& launch) { mlaPrefillKernel(work, launch); }};
}

}  // namespace sim::atb
