// AtbFusedAddTopkDiv: the router of DeepSeek's mixture of experts.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "atb/atb_acl.h"
#include "atb/checks.hpp"
#include "atb/operation.hpp"
#include "core/entry.hpp"
#include "numeric/gemm.hpp"
#include "numeric/parallel.hpp"

namespace sim::atb {

namespace {

constexpr int sigmoid = 8;

struct RouterParams {
    uint32_t groupNum, groupTopk, n, k;
    int activationType;
    bool isNorm;
    float scale;
    bool enableExpertMapping;
};

struct Router {
    RouterParams params;
    numeric::Storage storage;
    int64_t tokens, experts, tableColumns;
};

// Indices by descending value; of equal values the lower index comes first.
std::vector<int32_t> ranking(const std::vector<float>& values) {
    std::vector<int32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
    });
    return order;
}

// The chosen scores of groups that are not among the best become 0, which a negative score of a kept group loses to.
void dropGroups(const RouterParams& p, std::vector<float>& scores) {
    size_t size = scores.size() / p.groupNum;
    std::vector<float> best(p.groupNum);
    for (size_t g = 0; g < p.groupNum; ++g) {
        std::vector<float> group(scores.begin() + static_cast<std::ptrdiff_t>(g * size),
                                 scores.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
        std::sort(group.begin(), group.end(), std::greater<>());
        best[g] = std::accumulate(group.begin(), group.begin() + p.n, 0.0F);
    }
    std::vector<int32_t> order = ranking(best);
    for (size_t rank = p.groupTopk; rank < order.size(); ++rank) {
        auto first = scores.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(order[rank]) * size);
        std::fill(first, first + static_cast<std::ptrdiff_t>(size), 0.0F);
    }
}

// A physical copy of an expert: the tokens take the copies in turn.
int32_t mapped(const Router& router, int64_t token, int32_t expert, const int32_t* copies, const int32_t* table) {
    int64_t column = copies[expert] == 0 ? 0 : token % static_cast<uint32_t>(copies[expert]);
    if (column >= router.tableColumns) {
        throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "mappingNum of expert " + std::to_string(expert) +
                                                             " reaches past the columns of mappingTable");
    }
    return table[expert * router.tableColumns + column];
}

void route(const Router& router, const Launch& launch, int64_t token) {
    const RouterParams& p = router.params;
    auto experts = static_cast<size_t>(router.experts), k = static_cast<size_t>(p.k);
    std::vector<float> activated(experts), bias(experts), scores(experts);
    const auto* x = launch.in<uint8_t>("x");
    size_t rowBytes = experts * numeric::storageBytes(router.storage);
    numeric::decode(router.storage, x + static_cast<size_t>(token) * rowBytes, activated.data(), experts);
    numeric::decode(router.storage, launch.in("addNum"), bias.data(), experts);
    for (size_t e = 0; e < experts; ++e) {
        activated[e] = 1.0F / (1.0F + std::exp(-activated[e]));
        scores[e] = activated[e] + bias[e];
    }
    dropGroups(p, scores);
    std::vector<int32_t> order = ranking(scores);
    float *y = launch.out<float>("y") + token * p.k, sum = 0.0F;
    int32_t* indices = launch.out<int32_t>("indices") + token * p.k;
    for (size_t i = 0; i < k; ++i) sum += activated[static_cast<size_t>(order[i])];
    for (size_t i = 0; i < k; ++i) {
        float chosen = activated[static_cast<size_t>(order[i])];
        y[i] = p.isNorm ? chosen / sum * p.scale : chosen;
        indices[i] = p.enableExpertMapping ? mapped(router, token, order[i], launch.in<int32_t>("mappingNum"),
                                                    launch.in<int32_t>("mappingTable"))
                                           : order[i];
    }
}

class FusedAddTopkDiv final : public Operation {
   public:
    explicit FusedAddTopkDiv(const RouterParams& params)
        : Operation("AtbFusedAddTopkDiv", "FusedAddTopkDivOperation"), params_(params) {}

    static std::optional<Rejection> check(const RouterParams& p) {
        auto bad = [](const std::string& text) { return Rejection{ATB_ERROR_INVALID_PARAM, text}; };
        if (p.groupNum == 0 || p.groupTopk == 0 || p.n == 0 || p.k == 0) {
            return bad("groupNum, groupTopk, n and k must be positive");
        }
        if (p.groupTopk > p.groupNum) return bad("groupTopk must not exceed groupNum");
        if (p.activationType != sigmoid) {
            return bad("activationType must be 8 (sigmoid), not " + std::to_string(p.activationType));
        }
        return std::nullopt;
    }

   protected:
    Definition definition() const override {
        const OperandRule any{{ACL_FLOAT16, ACL_BF16, ACL_FLOAT}}, single{{ACL_FLOAT}}, index{{ACL_INT32}};
        Definition definition{3, {any, any}, {single, index}};
        if (params_.enableExpertMapping) definition.inputs.insert(definition.inputs.end(), {index, index});
        return definition;
    }

    std::optional<Rejection> checkShapes(const Tensors& t) const override {
        const Tensor& x = t["x"];
        if (auto refusal = checkRank(x, {2})) return refusal;
        if (auto refusal = checkGroups(x)) return refusal;
        if (auto refusal = checkRank(t["addNum"], {1})) return refusal;
        if (auto refusal = checkDim(t["addNum"], 0, {x.dim(1)}, "experts")) return refusal;
        if (params_.enableExpertMapping) {
            if (auto refusal = checkMapping(t)) return refusal;
        }
        for (const char* name : {"y", "indices"}) {
            if (auto refusal = checkRank(t[name], {2})) return refusal;
            if (auto refusal = checkShape(t[name], {x.dim(0), params_.k}, "tokens and k")) return refusal;
        }
        return std::nullopt;
    }

    Plan plan(const Tensors& t) const override {
        constexpr uint64_t systemWorkspace = 16 * 1024 * 1024, workspacePerCore = 1024;
        constexpr int64_t vectorCores = 48;
        if (product() == Product::A950) {
            return {Rejection{ATB_ERROR_INVALID_PARAM, "FusedAddTopkDiv has a kernel for Atlas A2 and A3 only"}};
        }
        const Tensor& x = t["x"];
        if (x.dim(1) >= 32 && params_.groupNum != 8) {
            return {std::nullopt, Rejection{ATB_ERROR_INVALID_PARAM, "with 32 experts or more, groupNum must be 8"}};
        }
        aclDataType dtype = x.desc().dtype;
        numeric::Storage storage = dtype == ACL_BF16      ? numeric::Storage::Bf16
                                   : dtype == ACL_FLOAT16 ? numeric::Storage::Fp16
                                                          : numeric::Storage::Fp32;
        int64_t columns = params_.enableExpertMapping ? t["mappingTable"].dim(1) : 0;
        Router router{params_, storage, x.dim(0), x.dim(1), columns};
        uint64_t cores = static_cast<uint64_t>(std::min(router.tokens, vectorCores));
        return {std::nullopt, std::nullopt, systemWorkspace + cores * workspacePerCore, [router](const Launch& launch) {
                    numeric::parallelFor(static_cast<size_t>(router.tokens),
                                         [&](size_t token) { route(router, launch, static_cast<int64_t>(token)); });
                }};
    }

   private:
    // Products of parameters wrap as ATB's 32 bits do.
    std::optional<Rejection> checkGroups(const Tensor& x) const {
        int64_t experts = x.dim(1);
        auto wants = [&](const std::string& text) { return badShape(ATB_ERROR_INVALID_TENSOR_DIM, x, text); };
        if (experts % params_.groupNum != 0) return wants("experts that groupNum divides");
        if (experts < params_.k) return wants("at least k experts");
        if (experts < params_.groupNum * params_.n) return wants("at least groupNum x n experts");
        if (experts > params_.groupNum * 32U) return wants("at most 32 experts a group");
        if (params_.groupNum != 8 && experts > 32) return wants("at most 32 experts unless groupNum is 8");
        return std::nullopt;
    }

    std::optional<Rejection> checkMapping(const Tensors& t) const {
        int64_t experts = t["x"].dim(1);
        if (auto refusal = checkRank(t["mappingNum"], {1})) return refusal;
        if (auto refusal = checkDim(t["mappingNum"], 0, {experts}, "experts")) return refusal;
        if (auto refusal = checkRank(t["mappingTable"], {2})) return refusal;
        if (auto refusal = checkDim(t["mappingTable"], 0, {experts}, "experts")) return refusal;
        if (t["mappingTable"].dim(1) <= 128) return std::nullopt;
        return badShape(ATB_ERROR_INVALID_TENSOR_DIM, t["mappingTable"], "at most 128 columns");
    }

    const RouterParams params_;
};

}  // namespace

}  // namespace sim::atb

extern "C" {

atb_Status AtbFusedAddTopkDivGetWorkspaceSize(const aclTensor* x, const aclTensor* addNum, const aclTensor* mappingNum,
                                              const aclTensor* mappingTable, uint32_t groupNum, uint32_t groupTopk,
                                              uint32_t n, uint32_t k, int activationType, bool isNorm, float scale,
                                              bool enableExpertMapping, aclTensor* y, aclTensor* indices,
                                              uint64_t* workspaceSize, atb_Operation** op, atb_Context* context) {
    SIM_API;
    sim::atb::PhaseOne call("AtbFusedAddTopkDiv", workspaceSize, op, context);
    sim::atb::RouterParams params{groupNum, groupTopk, n, k, activationType, isNorm, scale, enableExpertMapping};
    if (int32_t status = call.create<sim::atb::FusedAddTopkDiv>(params)) return status;
    call.input("x", x);
    call.input("addNum", addNum);
    if (enableExpertMapping) {
        call.input("mappingNum", mappingNum);
        call.input("mappingTable", mappingTable);
    }
    call.output("y", y);
    call.output("indices", indices);
    return call.setup();
}

atb_Status AtbFusedAddTopkDiv(void* workspace, uint64_t workspaceSize, atb_Operation* op, atb_Context* context) {
    SIM_API;
    return sim::atb::phaseTwo("AtbFusedAddTopkDiv", workspace, workspaceSize, op, context);
}

}  // extern "C"
