// AtbRingMLA: attention with separate rope parts, over packed sequences, merged with a previous result on request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "atb/infer_op_params.h"
#include "atb/variant_pack.hpp"

namespace sim::atb {

struct RingMlaParams {
    int32_t headNum, kvHeadNum;
    float qkScale;
    int kernelType, maskType, inputLayout, calcType;

    bool merges() const { return calcType == 0; }
    bool masked() const { return maskType == 1; }
    int64_t kvHeads() const { return kvHeadNum == 0 ? headNum : kvHeadNum; }
};

// What the kernel reads besides the tensors.
struct RingMlaWork {
    RingMlaParams params;
    bool bf16;
    std::vector<int32_t> q, kv;  // tokens of each sequence
    // What the tensors hold, so that lengths and heads which contradict them fault instead of reading outside.
    int64_t queryNumel, keyNumel, lseNumel, maskNumel;
};

constexpr int64_t ringMlaRowBlock = 128;
// Blocks of query rows that have work, over all sequences; of one head.
int64_t ringMlaBlocks(const std::vector<int32_t>& q, const std::vector<int32_t>& kv);

class RingMla final : public PackOperation {
   public:
    explicit RingMla(const RingMlaParams& params) : PackOperation("AtbRingMLA", "RingMLAOperation"), params_(params) {}
    static std::optional<Rejection> check(const RingMlaParams& params);
    // Setup goes by what the parameters are then.
    const RingMlaParams& params() const { return params_; }
    void setParams(const RingMlaParams& params) { params_ = params; }

   protected:
    Definition definition() const override;
    std::optional<Rejection> checkShapes(const Tensors& tensors) const override;
    Plan plan(const Tensors& tensors) const override;
    Slots slots() const override;
    std::optional<Rejection> checkInputs(const Tensors& tensors) const override;
    std::optional<Rejection> inferOutputs(const ::atb::SVector<::atb::TensorDesc>& inputs,
                                          ::atb::SVector<::atb::TensorDesc>& outputs) const override;

   private:
    std::optional<Rejection> checkRanks(const Tensors& t) const;
    std::optional<Rejection> checkPrevious(const Tensors& t) const;
    std::optional<Rejection> checkMask(const Tensors& t, const RingMlaWork& work) const;
    std::optional<Rejection> tilingFailure(const Tensors& t, const RingMlaWork& work) const;
    void reportTraps(const Tensors& t, const RingMlaWork& work) const;

    RingMlaParams params_;
};

void ringMlaKernel(const RingMlaWork& work, const Launch& launch);

}  // namespace sim::atb
