// Which operands are there, their ranks and formats; what is decided before dtypes and shapes are compared.
#include <algorithm>

#include "ops/quant_matmul.hpp"

namespace sim::quant_matmul {

using namespace primitive;

namespace {

constexpr int64_t mostDimensions = 6, fewestNzDimensions = 4, mostNzDimensions = 8;
constexpr int64_t int4InInt32 = 8;
constexpr int64_t blockRows = 16;

bool isThere(const TensorDesc *desc) { return desc && !desc->isEmpty(); }

bool swapsLastTwo(const TensorDesc &desc) {
    size_t rank = desc.shape.size();
    if (rank < 2 || desc.isDense()) return false;
    return desc.strides[rank - 2] == 1 && desc.strides[rank - 1] == desc.shape[rank - 2];
}

Matrix matrixOf(const TensorDesc &desc, bool transposed, bool nz) {
    Matrix matrix{desc.shape, desc.storageShape, transposed, nz, desc.dtype};
    if (swapsLastTwo(desc)) {
        std::swap(matrix.shape[matrix.shape.size() - 1], matrix.shape[matrix.shape.size() - 2]);
        matrix.transposed = !transposed;
    }
    if (desc.dtype == ACL_INT32) {
        matrix.dtype = ACL_INT4;
        matrix.shape.back() *= int4InInt32;
    }
    return matrix;
}

bool isInt4(aclDataType dtype) { return dtype == ACL_INT4 || dtype == ACL_INT32; }

// 8-bit x1 with a 4-bit weight.
bool isPseudoQuantised(const Params &p) {
    aclDataType x1 = p.x1->dtype, x2 = p.x2->dtype;
    return (x1 == ACL_INT8 && isInt4(x2)) || (x1 == ACL_FLOAT8_E4M3FN && (x2 == ACL_FLOAT || x2 == ACL_FLOAT4_E2M1));
}

void checkRanks(const Params &p) {
    if (p.interface == Interface::WeightNz) requireRank(paramInvalid, {"x2", p.x2}, 2, mostDimensions);
    auto stored = static_cast<int64_t>(p.x2->storageShape.size());
    bool nz = isNz(*p.x2);
    int64_t low = nz ? fewestNzDimensions : 2, high = nz ? mostNzDimensions : mostDimensions;
    if (p.interface != Interface::WeightNz && (stored < low || stored > high)) {
        refuse(paramInvalid, "x2 has storage shape " + print(p.x2->storageShape) + "; it must have " +
                                 std::to_string(low) + " to " + std::to_string(high) + " dimensions");
    }
    requireRank(paramInvalid, {"x1", p.x1}, 2, mostDimensions);
    requireRank(paramInvalid, {"x2", p.x2}, 2, mostNzDimensions);
    requireRank(paramInvalid, {"out", p.out}, 2, mostDimensions);
    bool asWeight = p.interface != Interface::V5 && !isA950() && p.x2Scale->rank() == p.x2->rank();
    if (!asWeight) requireRank(paramInvalid, {p.names.x2Scale, p.x2Scale}, 1, 1);
}

// WeightNz takes x2 as FRACTAL_NZ whatever format it has, as long as the storage is of that size.
void checkNzStorage(const Params &p) {
    if (isA950() && !isNz(*p.x2)) {
        refuse(paramInvalid, std::string("x2 has format ") + formatName(p.x2->format) + "; allowed: FRACTAL_NZ");
    }
    Matrix x2 = matrixOf(*p.x2, p.transposeX2, true);
    int64_t width = p.x2->dtype == ACL_INT4 ? 64 : p.x2->dtype == ACL_INT32 ? 8 : 32;
    TensorDesc blocks;
    blocks.shape.assign(x2.shape.begin(), x2.shape.end() - 2);
    blocks.shape.insert(blocks.shape.end(), {(x2.inner() + width - 1) / width, (x2.outer() + blockRows - 1) / blockRows,
                                             blockRows, width});
    if (blocks.numel() == p.x2->storageNumel()) return;
    refuse(paramInvalid, "x2 has storage shape " + print(p.x2->storageShape) + "; in FRACTAL_NZ it must be " +
                             print(blocks.shape) + " (aclnnTransMatmulWeight makes it so)");
}

void checkUnused(const Params &p) {
    for (const Named &operand : {Named{"x1Offset", p.x1Offset}, {"yOffset", p.yOffset}, {"yScale", p.yScale}}) {
        if (isThere(operand.desc)) {
            refuse(paramInvalid, std::string(operand.name) + " is given; it must be null or empty");
        }
    }
    if (p.groupSize != 0) refuse(paramInvalid, "groupSize is " + std::to_string(p.groupSize) + "; it must be 0");
}

void checkFormats(const Params &p) {
    for (const Named &operand :
         {Named{"x1", p.x1}, {p.names.x1Scale, p.x1Scale}, {p.names.x2Scale, p.x2Scale}, {"bias", p.bias}}) {
        if (operand.desc) requireNd(paramInvalid, operand);
    }
    if (p.x2Offset && p.x2Offset->format != ACL_FORMAT_ND) {
        refuse(paramInvalid,
               std::string(p.names.x2Offset) + " has format " + formatName(p.x2Offset->format) + "; allowed: ND");
    }
    if (isA950() && isInt4(p.x2->dtype)) requireNd(paramInvalid, {"x2", p.x2});
}

void checkMixedWidths(const Params &p) {
    if (!isPseudoQuantised(p)) return;
    bool v5On950 = p.interface == Interface::V5 && isA950() && p.x1->dtype == ACL_INT8 && p.x2->dtype == ACL_INT4;
    std::string text = std::string("x1 has dtype ") + dtypeName(p.x1->dtype) + " and x2 " + dtypeName(p.x2->dtype);
    if (v5On950 && !p.transposeX1 && p.groupSize == 0) refuse(runtimeError, text + "; Ascend950 does not serve this");
    refuse(paramInvalid, text + "; they must be equal");
}

}  // namespace

std::optional<std::vector<int64_t>> Product::batch() const {
    std::vector<int64_t> longer(x1.shape.begin(), x1.shape.end() - 2), shorter(x2.shape.begin(), x2.shape.end() - 2);
    if (longer.size() < shorter.size()) std::swap(longer, shorter);
    for (size_t i = 0; i < shorter.size(); ++i) {
        int64_t &size = longer[longer.size() - 1 - i];
        int64_t other = shorter[shorter.size() - 1 - i];
        if (size > 1 && other > 1 && size != other) return std::nullopt;
        size = std::max(size, other);
    }
    return longer;
}

Product productOf(const Params &p) {
    bool nz = p.interface == Interface::WeightNz || isNz(*p.x2);
    return {matrixOf(*p.x1, p.transposeX1, false), matrixOf(*p.x2, p.transposeX2, nz)};
}

std::optional<Rejection> checkPresence(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePointers(call);
        bool v5 = p.interface == Interface::V5;
        if (v5 && isA950()) {
            requirePresent(paramNullptr, {{"x2", p.x2}});
            requireNd(paramInvalid, {"x2", p.x2});
        }
        requirePresent(paramNullptr, {{"x1", p.x1}, {"x2", p.x2}, {p.names.x2Scale, p.x2Scale}, {"out", p.out}});
        // V5 answers operands that it does not serve with the code of a missing one.
        for (const Named &operand : {Named{"yScale", p.yScale}, {"x1Offset", p.x1Offset}, {"yOffset", p.yOffset}}) {
            if (!v5 || isPseudoQuantised(p) || !isThere(operand.desc)) continue;
            refuse(paramNullptr, std::string(operand.name) + " is given; it must be null or empty");
        }
        if (p.interface != Interface::WeightNz) return;
        checkUnused(p);
        requireRank(paramInvalid, {"x2", p.x2}, 2, mostDimensions);
        checkNzStorage(p);
    });
}

bool isEmpty(const Params &p) {
    if (!isA950() || isPseudoQuantised(p) || p.x1->rank() < 2 || p.x2->rank() < 2) return false;
    auto axis = [](const TensorDesc &desc, bool last) { return desc.shape[desc.shape.size() - (last ? 1 : 2)]; };
    bool nz = p.interface == Interface::WeightNz || isNz(*p.x2);
    return axis(*p.x1, p.transposeX1) == 0 || (!nz && axis(*p.x2, !p.transposeX2) == 0);
}

std::optional<Rejection> check(const Params &p) {
    return caught([&] {
        checkMixedWidths(p);
        checkRanks(p);
        Product product = productOf(p);
        checkDtypes(p, product);
        checkShapes(p, product);
        checkFormats(p);
        if (p.x1->isEmpty() || p.x2->isEmpty()) {
            refuse(paramInvalid, "x1 has shape " + print(p.x1->shape) + " and x2 " + print(p.x2->shape) +
                                     "; they must not be empty");
        }
    });
}

std::optional<Rejection> checkLate(const Params &p) {
    return caught([&] {
        Product product = productOf(p);
        if (isA950()) {
            if (product.x1.dtype == ACL_INT4) {
                refuse(innerNullptr, "x1 and x2 are INT4; Ascend950 has no kernel for them");
            }
            return;
        }
        if (p.out->dtype == ACL_FLOAT16 && p.x1Scale && p.x2Scale->dtype == ACL_UINT64) {
            refuse(innerNullptr, std::string("out is FLOAT16 with per-token scales and ") + p.names.x2Scale +
                                     " of UINT64; allowed: FLOAT");
        }
        if (product.x2.nz && (product.k() == 1 || product.n() == 1)) {
            refuse(innerNullptr, "x2 has shape " + print(p.x2->shape) + "; neither axis may be 1 in FRACTAL_NZ");
        }
    });
}

}  // namespace sim::quant_matmul
