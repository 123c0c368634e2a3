// On A2 and A3 one API has four kernels with their own rules. Which one judges and computes a call:
//   Shared    FP16 and BF16, nearly always (fused_infer_attention_scene_*.cpp; on 950 every call)
//   SplitFuse TND without rope, D up to 256 (fused_infer_attention_split_fuse.cpp)
//   Decode    the older kernel for one query token or MLA with quantised caches (fused_infer_attention_decode_*.cpp)
//   Prompt    the older kernel for everything else (fused_infer_attention_prompt_*.cpp)
#pragma once

#include "ops/fused_infer_attention.hpp"

namespace sim::fia {

enum class Route { Shared, SplitFuse, Decode, Prompt };

// What the common part of the older paths makes of a call.
struct Legacy {
    std::string layout;
    bool paged = false;
    const Tensor *value = nullptr;  // operand number 2 of CANN: key[1] when key is a list of several
    int64_t b = 0, n = 0, s = 0, t = 0, d = 0, dv = 0;  // s is T where the layout has T
};

// The route of a call on A2 or A3. Reading the older paths' axes may already refuse it.
Route chooseRoute(const Params &params, Legacy &legacy);

void checkSplitFuse(const Params &params);
void checkDecode(const Params &params);
void checkPrompt(const Params &params, const Legacy &legacy);

// CANN's operand number 2.
inline const Tensor &secondOperand(const Params &p) { return p.key->size() > 1 ? (*p.key)[1] : p.value->front(); }

}  // namespace sim::fia
