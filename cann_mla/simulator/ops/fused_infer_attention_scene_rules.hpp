// The checkers of the shared path, one a topic. Each throws Rejection with status 561002.
#pragma once

#include "ops/fused_infer_attention_rules.hpp"
#include "ops/fused_infer_attention_scene.hpp"

namespace sim::fia {

void checkHeadsAndLayout(const Scene &s);  // dtypes, formats, numHeads, inputLayout, innerPrecise
void checkShapes(const Scene &s);          // query, key, value, attentionOut against one another
void checkTensorList(const Scene &s);
void checkStrides(const Scene &s);    // 950: key and value are read where they lie
void checkLengths(const Scene &s);    // actualSeqLengths, actualSeqLengthsKv
void checkMask(const Scene &s);       // attenMask, sparseMode, tokens
void checkPaged(const Scene &s);      // blockTable, blockSize, caches
void checkPostQuant(const Scene &s);  // quantScale2, quantOffset2
void checkRope(const Scene &s);       // queryRope, keyRope
void checkPse(const Scene &s);
void checkPadding(const Scene &s);
void checkPrefix(const Scene &s);
void checkLse(const Scene &s);
void checkSink(const Scene &s);
void checkAntiquant(const Scene &s);
void checkFullQuant(const Scene &s);

inline bool powerOfTwoTo128(int64_t n) { return oneOf(n, {1, 2, 4, 8, 16, 32, 64, 128}); }

// -1 when a dense view; else the innermost axis whose stride is not that of a dense tensor.
int firstStridedAxis(const Tensor &t);

}  // namespace sim::fia
