// AtbPagedCacheLoad: gathers the tokens of paged key and value caches into contiguous tensors.
#include <climits>
#include <cstring>
#include <string>
#include <vector>

#include "atb/atb_acl.h"
#include "atb/checks.hpp"
#include "atb/operation.hpp"
#include "core/entry.hpp"

namespace sim::atb {

namespace {

struct PagedCacheLoadParams {
    int8_t kvCacheCfg;  // 0: caches in FRACTAL_NZ, 1: ND
    bool isSeqLensCumsumType, hasSeqStarts;

    bool isNz() const { return kvCacheCfg == 0; }
};

// One cache and the tensor it is gathered into.
struct Gather {
    const char *cache, *out;
    bool nz;
    int64_t blocks, blockSize, fraction, elementBytes;
    int64_t rows, rowBytes;  // of the output

    // Copies one token.
    void copy(const uint8_t* from, int64_t block, int64_t row, uint8_t* to, const Launch& launch) const {
        if (!nz) {
            from += (block * blockSize + row) * rowBytes;
            std::memcpy(to, from, static_cast<size_t>(rowBytes));
            launch.reads(from, static_cast<size_t>(rowBytes));
            return;
        }
        int64_t chunk = fraction * elementBytes, chunks = rowBytes / chunk;
        for (int64_t c = 0; c < chunks; ++c) {
            const uint8_t* source = from + ((block * chunks + c) * blockSize + row) * chunk;
            std::memcpy(to + c * chunk, source, static_cast<size_t>(chunk));
            launch.reads(source, static_cast<size_t>(chunk));
        }
    }
};

struct Pages {
    PagedCacheLoadParams params;
    int64_t sequences, tableColumns;
    Gather key, value;
};

KernelFault outside(const std::string& text) { return {ACL_ERROR_RT_AICORE_EXCEPTION, text}; }

void gather(const Pages& pages, const Gather& what, const Launch& launch) {
    const int32_t *table = launch.in<int32_t>("blockTables"), *lengths = launch.in<int32_t>("contextLens");
    const int32_t* starts = pages.params.hasSeqStarts ? launch.in<int32_t>("seqStarts") : nullptr;
    const uint8_t* cache = launch.in<uint8_t>(what.cache);
    uint8_t* out = launch.out<uint8_t>(what.out);
    int64_t token = 0;
    for (int64_t i = 0; i < pages.sequences; ++i) {
        if (pages.params.isSeqLensCumsumType) token = lengths[i];
        int64_t length = pages.params.isSeqLensCumsumType ? lengths[i + 1] - int64_t{lengths[i]} : lengths[i];
        int64_t first = starts ? starts[i] / what.blockSize : 0;  // of a start only the block counts
        for (int64_t j = 0; j < length; ++j, ++token) {
            int64_t column = first + j / what.blockSize;
            if (column < 0 || column >= pages.tableColumns)
                throw outside("blockTables has no column " + std::to_string(column));
            int64_t block = table[i * pages.tableColumns + column];
            if (block < 0) continue;
            if (block >= what.blocks) throw outside(std::string(what.cache) + " has no block " + std::to_string(block));
            if (token < 0 || token >= what.rows)
                throw outside(std::string(what.out) + " has no row " + std::to_string(token));
            what.copy(cache, block, j % what.blockSize, out + token * what.rowBytes, launch);
        }
    }
}

class PagedCacheLoad final : public Operation {
   public:
    explicit PagedCacheLoad(const PagedCacheLoadParams& params)
        : Operation("AtbPagedCacheLoad", "PagedCacheLoadOperation"), params_(params) {}

    static std::optional<Rejection> check(const PagedCacheLoadParams& p) {
        auto bad = [](const std::string& text) { return Rejection{ATB_ERROR_INVALID_PARAM, text}; };
        if (product() == Product::A950) return bad("PagedCacheLoad runs on Atlas A2 and A3 only");
        if (p.kvCacheCfg != 0 && p.kvCacheCfg != 1) {
            return bad("kvCacheCfg must be 0 (NZ) or 1 (ND), not " + std::to_string(p.kvCacheCfg));
        }
        if (p.isNz() && (p.hasSeqStarts || p.isSeqLensCumsumType)) {
            return bad("NZ caches take neither seqStarts nor cumulative lengths");
        }
        return std::nullopt;
    }

   protected:
    Definition definition() const override {
        const OperandRule index{{ACL_INT32}};
        if (params_.isNz()) {
            const std::vector<aclDataType> key{ACL_FLOAT16, ACL_INT8, ACL_BF16, ACL_INT8, ACL_INT8};
            const std::vector<aclDataType> value{ACL_FLOAT16, ACL_INT8, ACL_BF16, ACL_FLOAT16, ACL_BF16};
            const OperandRule keyCache{key, ACL_FORMAT_FRACTAL_NZ}, valueCache{value, ACL_FORMAT_FRACTAL_NZ};
            return {5, {keyCache, valueCache, index, index, {key}, {value}}, {{key}, {value}}};
        }
        const OperandRule any{{ACL_FLOAT16, ACL_INT8, ACL_BF16}}, starts{{ACL_INT32}, ACL_FORMAT_ND, true};
        return {3, {any, any, index, index, any, any, starts}, {any, any}};
    }

    std::optional<Rejection> checkShapes(const Tensors& t) const override {
        if (auto refusal = checkOutputs(t)) return refusal;
        if (auto refusal = checkDim(t["valueCache"], 0, {t["keyCache"].dim(0)}, "blocks of keyCache")) return refusal;
        if (auto refusal = checkDim(t["value"], 0, {t["key"].dim(0)}, "rows of key")) return refusal;
        if (auto refusal = params_.isNz() ? checkBlocksNz(t) : checkBlocksNd(t)) return refusal;
        if (auto refusal = checkRanks(t)) return refusal;
        return params_.isNz() ? checkSizesNz(t) : checkSizesNd(t);
    }

    Plan plan(const Tensors& t) const override {
        Pages pages{params_, t["blockTables"].dim(0), t["blockTables"].dim(1), gatherOf(t, "keyCache", "key"),
                    gatherOf(t, "valueCache", "value")};
        for (const Gather* what : {&pages.key, &pages.value}) {
            if (what->rowBytes > INT_MAX / what->blockSize) {
                return {std::nullopt,
                        Rejection{ATB_ERROR_INVALID_PARAM, std::string(what->cache) + ": a block is too large"}};
            }
        }
        return {std::nullopt, std::nullopt, 0, [pages](const Launch& launch) {
                    gather(pages, pages.key, launch);
                    gather(pages, pages.value, launch);
                }, {"keyCache", "valueCache"}};
    }

   private:
    // ATB looks at dimensions before it looks at ranks; one that is not there equals nothing.
    static int64_t dimOrNone(const Tensor& tensor, size_t index) {
        return index < tensor.desc().shape.size() ? tensor.dim(index) : -1;
    }

    std::optional<Rejection> checkOutputs(const Tensors& t) const {
        for (auto [cache, out] : {std::pair("keyCache", "key"), std::pair("valueCache", "value")}) {
            auto at = [&, c = cache](size_t index) { return dimOrNone(t[c], index); };
            bool fits = params_.isNz() ? dimOrNone(t[out], 1) == at(1) * at(3)
                                       : dimOrNone(t[out], 1) == at(2) && dimOrNone(t[out], 2) == at(3);
            if (t[cache].rank() == 4 && fits) continue;
            return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t[out],
                            std::string(params_.isNz() ? "[tokens, heads x head size]" : "[tokens, heads, head size]") +
                                " of " + cache + " " + shapeText(t[cache].desc().shape));
        }
        return std::nullopt;
    }

    std::optional<Rejection> checkBlocksNd(const Tensors& t) const {
        if (auto refusal = checkDim(t["valueCache"], 1, {t["keyCache"].dim(1)}, "block size of keyCache"))
            return refusal;
        if (auto refusal = checkDim(t["valueCache"], 2, {t["keyCache"].dim(2)}, "heads of keyCache")) return refusal;
        int64_t lengths = t["blockTables"].dim(0) + (params_.isSeqLensCumsumType ? 1 : 0);
        return checkDim(t["contextLens"], 0, {lengths}, "sequences of blockTables, cumulative: and one");
    }

    std::optional<Rejection> checkBlocksNz(const Tensors& t) const {
        if (auto refusal = checkDim(t["valueCache"], 2, {t["keyCache"].dim(2)}, "block size of keyCache"))
            return refusal;
        if (t["keyCache"].dim(2) % 16 != 0) {
            return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t["keyCache"], "a block size that is a multiple of 16");
        }
        return checkDim(t["contextLens"], 0, {t["blockTables"].dim(0)}, "sequences of blockTables");
    }

    std::optional<Rejection> checkRanks(const Tensors& t) const {
        if (auto refusal = checkRank(t["blockTables"], {2})) return refusal;
        if (auto refusal = checkRank(t["contextLens"], {1})) return refusal;
        for (const char* name : {"key", "value"}) {
            if (auto refusal = checkRank(t[name], {params_.isNz() ? 2 : 3})) return refusal;
        }
        return params_.isNz() ? std::nullopt : checkRank(t["seqStarts"], {1});
    }

    std::optional<Rejection> checkSizesNz(const Tensors& t) const {
        constexpr int64_t widest = 147'456 / 32;
        for (const char* name : {"keyCache", "valueCache"}) {
            int64_t fraction = t[name].desc().dtype == ACL_INT8 ? 32 : 16;
            if (auto refusal = checkDim(t[name], 3, {fraction}, "elements of 32 bytes")) return refusal;
            if (t[name].dim(1) > widest) {
                return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t[name], "at most 147456 bytes a token");
            }
        }
        return std::nullopt;
    }

    std::optional<Rejection> checkSizesNd(const Tensors& t) const {
        for (const char* name : {"keyCache", "valueCache"}) {
            int64_t unit = t[name].desc().dtype == ACL_INT8 ? 32 : 16;
            if (t[name].dim(2) * t[name].dim(3) % unit != 0) {
                return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t[name],
                                "heads x head size a multiple of " + std::to_string(unit));
            }
        }
        if (!params_.hasSeqStarts) return std::nullopt;
        return checkDim(t["seqStarts"], 0, {t["blockTables"].dim(0)}, "sequences of blockTables");
    }

    Gather gatherOf(const Tensors& t, const char* cache, const char* out) const {
        int64_t bytes = elementBits(t[cache].desc().dtype) / 8, columns = t[out].desc().numel() / t[out].dim(0);
        return {cache,           out,   params_.isNz(), t[cache].dim(0), t[cache].dim(params_.isNz() ? 2 : 1),
                t[cache].dim(3), bytes, t[out].dim(0),  columns * bytes};
    }

    const PagedCacheLoadParams params_;
};

}  // namespace

}  // namespace sim::atb

extern "C" {

atb_Status AtbPagedCacheLoadGetWorkspaceSize(const aclTensor* keyCache, const aclTensor* valueCache,
                                             const aclTensor* blockTables, const aclTensor* contextLens,
                                             const aclTensor* key, const aclTensor* value, const aclTensor* seqStarts,
                                             int8_t kvCacheCfg, bool isSeqLensCumsumType, bool hasSeqStarts,
                                             uint64_t* workspaceSize, atb_Operation** op, atb_Context* context) {
    SIM_API;
    sim::atb::PhaseOne call("AtbPagedCacheLoad", workspaceSize, op, context);
    sim::atb::PagedCacheLoadParams params{kvCacheCfg, isSeqLensCumsumType, hasSeqStarts};
    if (int32_t status = call.create<sim::atb::PagedCacheLoad>(params)) return status;
    call.input("keyCache", keyCache);
    call.input("valueCache", valueCache);
    call.input("blockTables", blockTables);
    call.input("contextLens", contextLens);
    call.input("key", key);
    call.input("value", value);
    if (hasSeqStarts) call.input("seqStarts", seqStarts);
    call.output("key", key);
    call.output("value", value);
    return call.setup();
}

atb_Status AtbPagedCacheLoad(void* workspace, uint64_t workspaceSize, atb_Operation* op, atb_Context* context) {
    SIM_API;
    return sim::atb::phaseTwo("AtbPagedCacheLoad", workspace, workspaceSize, op, context);
}

}  // extern "C"
