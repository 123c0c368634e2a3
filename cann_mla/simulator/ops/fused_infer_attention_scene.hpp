// What CANN's shared parser makes of a call before its checkers judge it: layouts, axes, lengths, features.
// Used on 950 for every call, and on A2/A3 for FP16 and BF16 (see fused_infer_attention_routes.cpp).
#pragma once

#include <vector>

#include "ops/fused_infer_attention.hpp"

namespace sim::fia {

enum class Storage { Contiguous, List, Paged };
enum class Quant { None, Anti, Full };
enum class Rope { None, Split, Combined };
enum class Mla { None, Split512, Split128, Combined128 };
// Full quantisation by the modes of (query, key, value).
enum class FullQuant { None, PerTensor, Mxfp8, Mla, Fp8Gqa };

struct Scene {
    const Params &p;
    explicit Scene(const Params &params) : p(params) {}

    std::string layout;
    Layout qLayout{}, outLayout{}, kvLayout{};
    Storage storage = Storage::Contiguous;
    Quant quant = Quant::None;
    FullQuant fullQuant = FullQuant::None;
    Rope rope = Rope::None;
    Mla mla = Mla::None;

    aclDataType qDtype{}, kvDtype{}, outDtype{};
    // CANN asks for operand number 2 where it means value; with a key list of several entries that is key[1].
    const Tensor *valueDesc = nullptr;

    int64_t b = 0, n1 = 0, n2 = 0, g = 0, s1 = 0, s2 = 0, d = 0, dv = 0, dRope = 0, t1 = 0, t2 = 0;
    int64_t blockSize = 0, maxBlocksPerBatch = 0;

    bool empty = false;           // nothing to compute: every later rule is skipped
    bool lengthsUnknown = false;  // a length array without values: rules about lengths are skipped
    bool plainDecode = false;     // S1 = 1 in BSH, BSND, BNSD with D = Dv and no rope

    // Operands and attributes as the parser leaves them: on A2/A3 plain decode drops some.
    MaybeArray qLens;
    const MaybeArray &kvLens() const { return p.actualSeqLengthsKv; }
    bool hasQueryPaddingOperand = false;
    int32_t sparseMode = 0;
    int64_t preTokens = 0, nextTokens = 0;  // effective and clamped

    bool mask = false, qPadding = false, kvPadding = false, pse = false, prefix = false, postQuant = false;
    int64_t prefixLen = 0, prefixMax = 0;
    int64_t maxActualKv = 0;
    std::vector<int64_t> qSizes, kvSizes;  // per batch, as far as known
    std::vector<int64_t> listSeqLens;      // S of each list entry
    bool dDiffers = false;                 // D of query and value differ, other than 192 and 128

    bool a2() const { return !p.ascend950; }
    bool tokensFirst(Layout l) const { return l == Layout::TND || l == Layout::NTD; }
};

Scene readScene(const Params &params);

// Runs every checker of the shared path; throws Rejection.
void checkScene(const Params &params);

}  // namespace sim::fia
