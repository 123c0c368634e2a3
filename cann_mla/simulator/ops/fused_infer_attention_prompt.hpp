// What the older prompt kernel of A2 and A3 makes of a call: INT8 throughout, quantised key and value with more than
// one query token, layout NSD, and what no newer kernel takes.
#pragma once

#include "ops/fused_infer_attention_routes.hpp"

namespace sim::fia {

struct Prompt {
    const Params &p;
    const Legacy &legacy;
    const Tensor &value;
    const std::string &layout;
    Prompt(const Params &params, const Legacy &common)
        : p(params), legacy(common), value(*common.value), layout(common.layout) {}

    bool paged = false, list = false, prefix = false, emptyList = false;
    bool splitScales = false;    // any of keyAntiquantScale and valueAntiquantScale
    bool fp16Antiquant = false;  // FP16 query with INT8 key, whole-tensor scales [2, ...]
    int64_t ratio = 1;           // query heads to a key head
    uint32_t b = 0, bKv = 0, s = 0, s2 = 0;
    uint64_t h = 0;
    uint32_t longestKv = 0;  // s2, or what the block table can address
    uint32_t prefixLength = 0;
    std::vector<int64_t> listLengths;

    bool tokens() const { return layout == "TND" || layout == "NTD_TND"; }
    bool headsFirst() const { return layout == "BNSD" || layout == "BNSD_BSND" || layout == "NSD"; }
    bool hasMask() const { return p.attenMask && elements(p.attenMask->shape) != 0; }
    bool int8Query() const { return p.query->dtype == ACL_INT8; }
    bool int8Out() const { return p.attentionOut->dtype == ACL_INT8; }
};

inline bool hasValues(const MaybeArray &array) { return array && array->hasValues(); }

// fused_infer_attention_prompt.cpp
uint32_t promptLength(const MaybeArray &lens, size_t batch);
// fused_infer_attention_prompt_shapes.cpp
void checkPromptList(Prompt &s);
void checkPromptPadding(const Prompt &s);
void checkPromptRanks(const Prompt &s);
void checkPromptPrefix(Prompt &s);
void checkPromptHeads(Prompt &s);
void readPromptAxes(Prompt &s);
void checkPromptPrefixFits(Prompt &s);
void checkPromptLengths(const Prompt &s);
// fused_infer_attention_prompt_paged.cpp
void checkPromptPages(Prompt &s);
// fused_infer_attention_prompt_tokens.cpp
void checkPromptTokens(Prompt &s);
void checkPromptTokenPages(Prompt &s);
void checkPromptTokenMask(const Prompt &s);
// fused_infer_attention_prompt_mask.cpp
void checkPromptMask(const Prompt &s);
void checkPromptPse(const Prompt &s);
void checkPromptBand(const Prompt &s);
// fused_infer_attention_prompt_quant.cpp
void checkPromptDtypes(Prompt &s);
void checkPromptPostQuant(const Prompt &s);
void checkPromptAntiquant(const Prompt &s);

}  // namespace sim::fia
