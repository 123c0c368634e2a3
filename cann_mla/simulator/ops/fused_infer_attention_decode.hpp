// What the older decode kernel of A2 and A3 makes of a call. CANN computes these numbers in 32 bits, unsigned; so do
// we.
#pragma once

#include "ops/fused_infer_attention.hpp"

namespace sim::fia {

struct Decode {
    const Params &p;
    const Tensor &value;  // operand number 2
    std::string layout;
    explicit Decode(const Params &params);

    enum class Axes { HiddenLast, HeadsFirst, Tokens, Nz };  // BSH and BSND; BNSD; TND; fractal caches
    Axes query = Axes::HiddenLast, cache = Axes::HiddenLast;

    aclDataType qDtype, kvDtype, outDtype;
    uint32_t heads = 0, kvHeads = 0, group = 0, d = 0, dRope = 0, batch = 0;
    uint32_t s = 0;               // query tokens of a batch; the longest with TND
    int64_t squaredQuerySum = 0;  // TND: what a tree mask holds
    bool rope = false, shortQuery = false, nzCache = false, paged = false, anti = false, full = false;
    bool lengthsUnknown = false;  // a length array without values
    uint32_t blockSize = 0, cacheLength = 0, longestKv = 0;
    std::vector<uint32_t> listLengths;
    bool sameBatch = true;  // query and key agree in axis 0
    bool hasKvLengths = false;
    bool pse = false, mask = false, kvPadding = false, prefix = false;
    uint32_t pseColumns = 0, maskColumns = 0, prefixLength = 0;

    // Antiquantisation: 0 per channel or tensor, 1 per token, 2 key per channel with value per token.
    uint32_t antiquantMode = 0;
    bool perHead = false, inPages = false, split = false;

    bool tokens() const { return query == Axes::Tokens; }
};

// fused_infer_attention_decode.cpp
void readDecodeHeads(Decode &s);
void readDecodeCache(Decode &s);
// fused_infer_attention_decode_operands.cpp
void checkDecodeLengths(Decode &s);
void checkDecodePse(Decode &s);
void checkDecodePostQuant(const Decode &s);
void checkDecodePages(const Decode &s);
void checkDecodePadding(Decode &s);
void checkDecodePrefix(Decode &s);
// fused_infer_attention_decode_antiquant.cpp
void checkDecodeFullQuant(Decode &s);
void checkDecodeAntiquant(Decode &s);
void checkDecodeAntiquantPages(const Decode &s);
uint32_t antiquantLength(const Decode &s);
// fused_infer_attention_decode_mask.cpp
void checkDecodeMask(Decode &s);
// fused_infer_attention_decode_mla.cpp
void checkDecodeMla(Decode &s);
void checkDecodeNz(const Decode &s);

}  // namespace sim::fia
