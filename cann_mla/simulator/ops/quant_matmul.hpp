// aclnnQuantMatmulV3, V4, V5 and WeightNz: integer products, scaled on the way out.
#pragma once

#include "ops/primitive.hpp"

namespace sim::quant_matmul {

enum class Interface { V3, V4, V5, WeightNz };

// What the prototype calls the three operands whose names differ.
struct Names {
    const char *x1Scale = "x1Scale", *x2Scale = "x2Scale", *x2Offset = "x2Offset";
};
inline constexpr Names v3Names{"pertokenScaleOptional", "scale", "offset"};  // V4 too

struct Params {
    Interface interface;
    Names names;
    const TensorDesc *x1 = nullptr, *x2 = nullptr, *x1Scale = nullptr, *x2Scale = nullptr, *yScale = nullptr;
    const TensorDesc *x1Offset = nullptr, *x2Offset = nullptr, *yOffset = nullptr, *bias = nullptr, *out = nullptr;
    bool transposeX1 = false, transposeX2 = false;
    int64_t groupSize = 0;
};

// x1 or x2 as the kernel gets it: views with swapped axes are read as their transpose, an INT32 as eight INT4.
struct Matrix {
    std::vector<int64_t> shape, storageShape;
    bool transposed = false, nz = false;
    aclDataType dtype = ACL_DT_UNDEFINED;
    int64_t outer() const { return shape[shape.size() - 2]; }
    int64_t inner() const { return shape.back(); }
};

struct Product {
    Matrix x1, x2;
    int64_t m() const { return x1.transposed ? x1.inner() : x1.outer(); }
    int64_t k() const { return x1.transposed ? x1.outer() : x1.inner(); }
    int64_t x2K() const { return x2.transposed ? x2.inner() : x2.outer(); }
    int64_t n() const { return x2.transposed ? x2.outer() : x2.inner(); }
    // The leading axes of the result; nullopt where those of x1 and x2 do not fit.
    std::optional<std::vector<int64_t>> batch() const;
};

// Only for ranks of at least two.
Product productOf(const Params &params);

// ---- phase one, in this order --------------------------------------------------------------------------------------

std::optional<Rejection> checkPresence(const Params &params, const PhaseOne &call);
// Ascend950 returns at once where m or n is 0.
bool isEmpty(const Params &params);
std::optional<Rejection> check(const Params &params);
// What phase one lets pass and phase two refuses: CANN loses the failure of the inner step on the way.
std::optional<Rejection> checkLate(const Params &params);

// Parts of `check`.
void checkDtypes(const Params &params, const Product &product);
void checkShapes(const Params &params, const Product &product);

Kernel makeKernel(const Params &params);

}  // namespace sim::quant_matmul
