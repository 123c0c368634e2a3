// AtbMLA, attention of single queries over a paged cache of latent keys, and AtbMLAPreFill, attention of whole
// sequences over contiguous keys: one operation of ATB, told apart by calcType.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "atb/operation.hpp"

namespace sim::atb {

enum class MlaCalc : int { Plain = 0, Spec = 1, Ring = 2, SpecAndRing = 3, Prefill = 4 };
enum class MlaCache : uint8_t { KvCache = 0, KropeCtkv = 1, Int8Nz = 2, Nz = 3 };
constexpr int mlaMaskNone = 0, mlaMaskSpec = 1, mlaMaskFree = 2, mlaMaskCausal = 3, mlaMaskSwa = 4;

struct MlaParams {
    int32_t headNum;
    float qkScale;
    int32_t kvHeadNum;
    int maskType, calcType;
    uint8_t cacheMode;

    MlaCalc calc() const { return static_cast<MlaCalc>(calcType); }
    MlaCache cache() const { return static_cast<MlaCache>(cacheMode); }
    bool isPrefill() const { return calc() == MlaCalc::Prefill; }
    bool takesMask() const { return maskType != mlaMaskNone && maskType != mlaMaskCausal; }
    bool takesQueryLengths() const { return calc() == MlaCalc::Spec || calc() == MlaCalc::SpecAndRing; }
    bool givesLse() const { return calc() == MlaCalc::Ring || calc() == MlaCalc::SpecAndRing; }
    bool isInt8() const { return cache() == MlaCache::Int8Nz; }
};

// What the kernel of AtbMLA reads besides the tensors.
struct MlaWork {
    MlaParams params;
    bool bf16;
    int64_t tokens, blocks, tableColumns;
    int64_t maskColumns, maskNumel;  // 0 without a mask
    int64_t maskPlane;               // elements of one sequence's mask; 0: all share one
    std::vector<int32_t> q, kv;
};

// What the kernel of AtbMLAPreFill reads besides the tensors.
struct MlaPrefillWork {
    MlaParams params;
    bool bf16;
    int64_t tokens;
    int64_t keyTokens;  // rows of all keys
    int64_t keyStride;  // rows from one sequence's keys to the next one's; 0: they are packed
    std::vector<int32_t> lengths;
};

class Mla final : public Operation {
   public:
    explicit Mla(const MlaParams& params)
        : Operation(params.isPrefill() ? "AtbMLAPreFill" : "AtbMLA", "MultiLatentAttentionOperation"),
          params_(params) {}
    static std::optional<Rejection> check(const MlaParams& params);

   protected:
    Definition definition() const override;
    std::optional<Rejection> checkShapes(const Tensors& tensors) const override;
    Plan plan(const Tensors& tensors) const override;

   private:
    Definition prefillDefinition() const;
    std::optional<Rejection> checkDecode(const Tensors& t) const;
    std::optional<Rejection> checkCaches(const Tensors& t) const;
    std::optional<Rejection> checkOptional(const Tensors& t) const;
    std::optional<Rejection> checkPrefill(const Tensors& t) const;
    std::optional<Rejection> checkPrefillKeys(const Tensors& t) const;
    Plan planDecode(const Tensors& t) const;
    Plan planPrefill(const Tensors& t) const;

    const MlaParams params_;
};

void mlaKernel(const MlaWork& work, const Launch& launch);
void mlaPrefillKernel(const MlaPrefillWork& work, const Launch& launch);

}  // namespace sim::atb
