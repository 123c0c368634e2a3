// The rotations of RotaryPositionEmbedding, InterleaveRope and InplacePartialRotaryMul.
#pragma once

#include "ops/primitive.hpp"

namespace sim::rotary {

enum class Mode { Half = 0, Interleave = 1, Quarter = 2, InterleaveHalf = 3 };

// y = x * cos + rotated(x) * sin over d values; each product is rounded to FLOAT, then their sum. y must not be x.
void rotate(Mode mode, const float *x, const float *cos, const float *sin, int64_t d, float *y);

// What one launch rotates: rows of x's last axis, of which [start, start + length) turns and the rest stays.
struct Task {
    Mode mode;
    std::vector<int64_t> x, cos;  // shapes; axes of cos are those of x or 1, but for the last, which is `length`
    aclDataType dtype, cosDtype;
    int64_t start, length;
};

// cos fits x axis by axis.
bool broadcasts(const std::vector<int64_t> &cos, const std::vector<int64_t> &x);

// Rows go from `x` to `y`, which may be the same memory. Throws a KernelFault where cos does not fit x.
void run(const Task &task, const void *x, const void *cos, const void *sin, void *y);

}  // namespace sim::rotary
