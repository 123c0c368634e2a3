// AtbMLAPreprocess: from hidden states to the queries of MLA and the rows of its paged caches, with int8 weights.
#pragma once

#include <cstdint>
#include <optional>

#include "atb/operation.hpp"

namespace sim::atb {

enum class PreprocessCache : uint8_t { Combined = 0, Split = 1, Int8Nz = 2, Nz = 3 };

struct MlaPreprocessParams {
    uint8_t cacheMode;
    uint16_t quantMode;  // 0: a scale a tensor, with offset; 1: a scale a token

    PreprocessCache cache() const { return static_cast<PreprocessCache>(cacheMode); }
    bool perToken() const { return quantMode == 1; }
    bool isCombined() const { return cache() == PreprocessCache::Combined; }
    bool isInt8() const { return cache() == PreprocessCache::Int8Nz; }
    bool isNz() const { return isInt8() || cache() == PreprocessCache::Nz; }
};

// What the kernel reads besides the tensors.
struct MlaPreprocessWork {
    MlaPreprocessParams params;
    bool bf16, wukNz;
    int64_t tokens, heads, blocks, blockSize;
};

class MlaPreprocess final : public Operation {
   public:
    explicit MlaPreprocess(const MlaPreprocessParams& params)
        : Operation("AtbMLAPreprocess", "MlaPreprocessOperation"), params_(params) {}
    static std::optional<Rejection> check(const MlaPreprocessParams& params);

   protected:
    Definition definition() const override;
    std::optional<Rejection> checkShapes(const Tensors& tensors) const override;
    Plan plan(const Tensors& tensors) const override;

   private:
    std::optional<Rejection> checkBlocks(const Tensors& t) const;
    std::optional<Rejection> checkHidden(const Tensors& t) const;
    std::optional<Rejection> checkOutputs(const Tensors& t) const;

    const MlaPreprocessParams params_;
};

void mlaPreprocessKernel(const MlaPreprocessWork& work, const Launch& launch);

}  // namespace sim::atb
