// Where a layout keeps its axes.
#pragma once

#include "ops/fused_infer_attention_scene.hpp"

namespace sim::fia {

// The axis S of a query, key or prefix in its layout; noAxis where the layout has none.
int64_t axisS(const Shape &shape, Layout layout);

int64_t axisT(const Shape &shape, Layout layout);  // 0 where the layout has none

void requireRank(const char *name, const Shape &shape, Layout layout);

int64_t headDim(const char *name, const Shape &shape, Layout layout, int64_t heads);

}  // namespace sim::fia
