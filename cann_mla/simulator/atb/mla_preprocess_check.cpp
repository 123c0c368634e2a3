#include <string>

#include "atb/checks.hpp"
#include "atb/mla_preprocess.hpp"

namespace sim::atb {

namespace {

constexpr int64_t hidden = 7168, down = 2112, latentQuery = 1536, latent = 512, rope = 64, headUp = 192;
constexpr int64_t mostTokens = 1024;

// ATB looks at dimensions before it looks at ranks; one that is not there has no size.
int64_t dimOrZero(const Tensor& tensor, size_t index) {
    return index < tensor.desc().shape.size() ? tensor.dim(index) : 0;
}

}  // namespace

std::optional<Rejection> MlaPreprocess::check(const MlaPreprocessParams& p) {
    auto bad = [](const std::string& text) { return Rejection{ATB_ERROR_INVALID_PARAM, text}; };
    if (product() == Product::A950) return bad("MLAPreprocess runs on Atlas A2 and A3 only");
    if (p.cacheMode > 3) return bad("cacheMode must be 0..3, not " + std::to_string(p.cacheMode));
    if (p.quantMode == 2 || p.quantMode == 3) {
        return bad("quantMode must be 0 (a scale a tensor) or 1 (a scale a token), not " + std::to_string(p.quantMode));
    }
    return std::nullopt;
}

Definition MlaPreprocess::definition() const {
    const aclDataType h = ACL_FLOAT16, b = ACL_BF16, i8 = ACL_INT8;
    const aclFormat nd = ACL_FORMAT_ND, nz = ACL_FORMAT_FRACTAL_NZ;
    bool perToken = params_.perToken();
    const OperandRule half{{h, b}}, nzHalf{{h, b}, nz}, int8Nz{{i8}, nz}, fp16{{h}};
    const OperandRule weight{{i8, i8, i8, i8, h, b, h, b}, nz}, up{{h, b}, nd, false, {nz, nz, nd, nd}};
    const OperandRule scale = perToken ? OperandRule{{h}, nd, true} : half;
    const OperandRule offset = perToken ? OperandRule{{h}, nd, true} : OperandRule{{i8}};
    const OperandRule bias = perToken ? OperandRule{{h, b}, nd, true} : OperandRule{{ACL_INT32}};
    const OperandRule dequant = perToken ? OperandRule{{ACL_FLOAT}} : OperandRule{{ACL_INT64, ACL_FLOAT}};
    const OperandRule cache = params_.isInt8() ? int8Nz : params_.isNz() ? nzHalf : half;
    const OperandRule ropeCache = params_.isNz() ? nzHalf : half;
    OperandRule givenRope = ropeCache, cacheScale = perToken ? fp16 : half;
    givenRope.optional = params_.isCombined();
    cacheScale.optional = !params_.isInt8();
    Definition d{8,
                 {half,       half,
                  half,       scale,
                  offset,     weight,
                  dequant,    bias,
                  half,       half,
                  scale,      offset,
                  weight,     dequant,
                  bias,       half,
                  half,       half,
                  up,         cache,
                  givenRope,  OperandRule{{ACL_INT32}},
                  cacheScale, cacheScale},
                 {params_.isInt8() ? OperandRule{{i8}} : half, cache}};
    if (!params_.isCombined()) d.outputs.insert(d.outputs.end(), {half, ropeCache});
    return d;
}

std::optional<Rejection> MlaPreprocess::checkBlocks(const Tensors& t) const {
    int64_t size = dimOrZero(t["kvCache"], params_.isNz() ? 2 : 1);
    bool legal = params_.isNz() ? size == 128 : (size >= 1 && size <= 128) || size == 256;
    if (legal) return std::nullopt;
    return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t["kvCache"],
                    params_.isNz() ? "blocks of 128 tokens" : "blocks of 1..128 or 256 tokens");
}

// Another hidden size, and weights that are not quantised, take a kernel of aclnn, which ATB finds only at run time;
// the simulator has none, as the host that the statuses were taken from.
std::optional<Rejection> MlaPreprocess::checkHidden(const Tensors& t) const {
    const Tensor& input = t["input"];
    bool otherSize = dimOrZero(input, 1) != hidden, unquantised = t["wdqkv"].desc().dtype == input.desc().dtype;
    if (otherSize || unquantised) {
        std::string why = otherSize ? "hidden size other than 7168" : "wdqkv of the input's dtype";
        if (params_.quantMode != 0) return Rejection{ATB_ERROR_INVALID_PARAM, "input: " + why + " takes quantMode 0"};
        int32_t status = otherSize ? ATB_ERROR_INVALID_TENSOR_DIM_NUM : ATB_ERROR_INVALID_TENSOR_DTYPE;
        return Rejection{status, "input: " + why + " takes the kernel of aclnnMlaPreprocess, which is not simulated"};
    }
    if (auto refusal = checkRank(input, {2})) return refusal;
    for (const char* name : {"gamma0", "beta0"}) {
        if (auto refusal = checkRank(t[name], {1})) return refusal;
        if (auto refusal = checkDim(t[name], 0, {hidden}, "hidden size")) return refusal;
    }
    return std::nullopt;
}

std::optional<Rejection> MlaPreprocess::checkShapes(const Tensors& t) const {
    int64_t tokens = t["input"].dim(0), heads = t["wuk"].dim(0);
    if (tokens > mostTokens) return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t["input"], "at most 1024 tokens");
    if (auto refusal = checkBlocks(t)) return refusal;
    if (auto refusal = checkHidden(t)) return refusal;
    const std::pair<const char*, std::vector<int64_t>> table[] = {
        {"quantScale0", {1}},     {"quantOffset0", {1}},   {"deScale0", {down}},    {"gamma1", {latentQuery}},
        {"beta1", {latentQuery}}, {"quantScale1", {1}},    {"quantOffset1", {1}},   {"deScale1", {heads * headUp}},
        {"gamma2", {latent}},     {"cos", {tokens, rope}}, {"sin", {tokens, rope}}, {"slotmapping", {tokens}},
    };
    for (const auto& [name, shape] : table) {
        if (t[name].isNull()) continue;
        if (auto refusal = checkRank(t[name], {static_cast<int64_t>(shape.size())})) return refusal;
        if (auto refusal = checkShape(t[name], shape, "by tokens and heads of wuk")) return refusal;
    }
    return params_.isNz() ? std::nullopt : checkOutputs(t);
}

std::optional<Rejection> MlaPreprocess::checkOutputs(const Tensors& t) const {
    int64_t tokens = t["input"].dim(0), heads = t["wuk"].dim(0);
    if (auto refusal = checkRank(t["qOut0"], {3})) return refusal;
    if (auto refusal = checkRank(t["kvCacheOut0"], {4})) return refusal;
    if (params_.isCombined()) {
        if (auto refusal = checkShape(t["qOut0"], {tokens, heads, latent + rope}, "tokens, heads, 576")) return refusal;
        return checkShape(t["kvCacheOut0"], t["kvCache"].desc().shape, "as kvCache");
    }
    if (auto refusal = checkRank(t["qOut1"], {3})) return refusal;
    if (auto refusal = checkRank(t["kvCacheOut1"], {4})) return refusal;
    int64_t blocks = t["kvCache"].dim(0), blockSize = dimOrZero(t["kvCache"], 1);
    if (auto refusal = checkShape(t["qOut0"], {tokens, heads, latent}, "tokens, heads, 512")) return refusal;
    if (auto refusal = checkShape(t["kvCacheOut0"], {blocks, blockSize, 1, latent}, "as kvCache")) return refusal;
    if (auto refusal = checkShape(t["qOut1"], {tokens, heads, rope}, "tokens, heads, 64")) return refusal;
    return checkShape(t["kvCacheOut1"], {blocks, blockSize, 1, rope}, "blocks of kvCache, 64");
}

Plan MlaPreprocess::plan(const Tensors& t) const {
    constexpr uint64_t workspace = 256 * 1024 * 1024;  // an upper bound: the size is not part of the contract
    int64_t heads = t["wuk"].dim(0), blocks = t["kvCacheOut0"].dim(0);
    const std::pair<const char*, int64_t> wanted[] = {
        {"wdqkv", down * hidden},
        {"bias0", down},
        {"wuq", heads * headUp * latentQuery},
        {"bias1", heads * headUp},
        {"wuk", heads * 128 * latent},
        {"ctkvScale", 1},
        {"qNopeScale", heads},
    };
    for (auto [name, numel] : wanted) {
        if (t[name].isNull() || t[name].desc().numel() >= numel) continue;
        std::string text = badShape(0, t[name], std::to_string(numel) + " elements").text;
        return {std::nullopt, std::nullopt, workspace, [text](const Launch&) {
                    throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, text + ": the kernel would read past its end");
                }};
    }
    MlaPreprocessWork work{params_,
                           t["input"].desc().dtype == ACL_BF16,
                           t["wuk"].desc().format == ACL_FORMAT_FRACTAL_NZ,
                           t["input"].dim(0),
                           heads,
                           blocks,
                           t["kvCache"].dim(params_.isNz() ? 2 : 1)};
    int64_t row = params_.isCombined() ? latent + rope : latent;
    bool cacheFits = t["kvCacheOut0"].desc().numel() >= blocks * work.blockSize * row &&
                     t["qOut0"].desc().numel() >= work.tokens * heads * row &&
                     (params_.isCombined() || (t["qOut1"].desc().numel() >= work.tokens * heads * rope &&
                                               t["kvCacheOut1"].desc().numel() >= blocks * work.blockSize * rope));
    return {std::nullopt, std::nullopt, workspace, [work, cacheFits](const Launch& launch) {
                if (!cacheFits) {
                    throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION,
                                      "an output is smaller than what the kernel writes");
                }
                mlaPreprocessKernel(work, launch);
            }, {"kvCache", "kvCacheRope", "kvCacheOut0", "kvCacheOut1"}};
}

}  // namespace sim::atb
