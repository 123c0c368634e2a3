// aclnnMm, aclnnMatmul and aclnnMatmulWeightNz: matrix products in 16 and 32-bit floating point.
#pragma once

#include "ops/primitive.hpp"

namespace sim::matmul {

enum class Variant { Mm, Matmul, WeightNz };

// Values of cubeMathType. KeepInner is internal to CANN: A2 and A3 let it through, as Keep.
enum MathType : int8_t { KeepInner = -1, Keep = 0, AllowDown = 1, UseFp16 = 2, UseHf32 = 3, Fp32Add = 4 };

struct Params {
    Variant variant;
    const TensorDesc *self, *mat2, *out;
    int8_t cubeMathType;
};

// What the operator itself refuses.
std::optional<Rejection> check(const Params &params, const PhaseOne &call);

// Nothing to compute and nothing to write.
bool isEmpty(const Params &params);

// What its inner steps refuse.
std::optional<Rejection> checkSteps(const Params &params);

// The product as matrices: every operand with its leading axes, missing ones added.
struct Shapes {
    std::vector<int64_t> selfBatch, mat2Batch, batch;
    int64_t m, k, n;
    int64_t resultNumel() const;
};
Shapes shapesOf(const Params &params);

// mat2 is stored as its transpose, which a FRACTAL_NZ weight says by its strides.
bool isTransposed(const TensorDesc &mat2);

Kernel makeKernel(const Params &params);

}  // namespace sim::matmul
