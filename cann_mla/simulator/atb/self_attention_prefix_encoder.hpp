// AtbSelfAttentionPrefixEncoder: attention of new tokens over paged keys, a prefix and the tokens themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "atb/operation.hpp"

namespace sim::atb {

struct PrefixEncoderParams {
    int maskType;
    int32_t headNum, kvHeadNum;
    float qkScale;

    bool isCausal() const { return maskType == 9; }          // no mask tensor
    bool isNormCompressed() const { return maskType == 3; }  // a triangle of 128
    bool hasSlopes() const { return maskType == 4 || maskType == 5; }
    bool isSquareRoot() const { return maskType == 5; }
    int64_t kvHeads() const { return kvHeadNum == 0 ? headNum : kvHeadNum; }
};

// What the kernel reads besides the tensors.
struct PrefixEncoderWork {
    PrefixEncoderParams params;
    bool bf16;
    int64_t tokens, headSize, blocks, blockSize, tableColumns;
    std::vector<int32_t> q, kv;
};

class SelfAttentionPrefixEncoder final : public Operation {
   public:
    explicit SelfAttentionPrefixEncoder(const PrefixEncoderParams& params)
        : Operation("AtbSelfAttentionPrefixEncoder", "SelfAttentionOperation"), params_(params) {}
    static std::optional<Rejection> check(const PrefixEncoderParams& params);

   protected:
    Definition definition() const override;
    std::optional<Rejection> checkShapes(const Tensors& tensors) const override;
    Plan plan(const Tensors& tensors) const override;

   private:
    std::optional<Rejection> checkRanks(const Tensors& t) const;
    std::optional<Rejection> checkMask(const Tensors& t) const;
    std::optional<Rejection> checkHeads(const Tensors& t) const;
    std::optional<Rejection> checkMaskLengths(const Tensors& t, const PrefixEncoderWork& work) const;
    std::optional<Rejection> tilingFailure(const Tensors& t, const PrefixEncoderWork& work) const;
    int64_t headSizeOf(const Tensor& cache) const;
    int64_t queryHeadSize(const Tensors& t) const;

    const PrefixEncoderParams params_;
};

void prefixEncoderKernel(const PrefixEncoderWork& work, const Launch& launch);

}  // namespace sim::atb
