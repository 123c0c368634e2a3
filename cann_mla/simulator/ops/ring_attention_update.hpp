// aclnnRingAttentionUpdate and V2: two partial softmax results over the same queries become one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/operator.hpp"

namespace sim::ring {

enum class SoftmaxLayout { PerBatch, Tnd };  // with TND: packed [N, s_b, 8] a batch, or [T, N, 8]

struct Params {
    bool ascend950 = false;
    const TensorDesc *prevAttnOut, *prevSoftmaxMax, *prevSoftmaxSum, *curAttnOut, *curSoftmaxMax, *curSoftmaxSum;
    const TensorDesc *actualSeqQlen;
    const TensorDesc *attnOut, *softmaxMax, *softmaxSum;
    std::optional<std::string> inputLayout, softmaxLayout;
};

// What phase one refuses.
std::optional<Rejection> check(const Params &params, bool executorIsNull, bool workspaceSizeIsNull);

// What phase one lets pass and phase two refuses: CANN loses the result of tiling on the way.
std::optional<Rejection> checkLate(const Params &params);

Kernel makeKernel(const Params &params);

}  // namespace sim::ring
