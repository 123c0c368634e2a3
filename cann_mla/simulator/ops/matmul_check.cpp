#include <algorithm>

#include "ops/matmul.hpp"

namespace sim::matmul {

using namespace primitive;

namespace {

constexpr int64_t mostDimensions = 6;
constexpr int64_t blockRows = 16, blockBytes = 32;

bool is16Bit(aclDataType dtype) { return dtype == ACL_FLOAT16 || dtype == ACL_BF16; }

// ---- what all three ask --------------------------------------------------------------------------------------------

void checkDtypes(const Params &p) {
    for (const Named &operand : {Named{"self", p.self}, {"mat2", p.mat2}, {"out", p.out}}) {
        requireDtype(paramInvalid, operand, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
    }
    int8_t lowest = isA950() ? Keep : KeepInner;
    if (p.cubeMathType < lowest || p.cubeMathType > Fp32Add) {
        refuse(paramInvalid, "cubeMathType is " + std::to_string(p.cubeMathType) + "; allowed: 0 to 4");
    }
}

void checkNzDtypes(const Params &p) {
    if (!isNz(*p.mat2) || p.self->dtype == p.mat2->dtype) return;
    if (!is16Bit(p.self->dtype) || !is16Bit(p.mat2->dtype)) return;
    refuse(paramInvalid, std::string("self has dtype ") + dtypeName(p.self->dtype) + " and mat2 " +
                             dtypeName(p.mat2->dtype) + "; a FRACTAL_NZ mat2 must have the dtype of self");
}

void checkInnerAxis(const Params &p) {
    int64_t k = p.self->shape.back(), rank = p.mat2->rank();
    int64_t rows = rank == 1 ? p.mat2->shape[0] : p.mat2->shape[static_cast<size_t>(rank - 2)];
    if (k == rows) return;
    refuse(paramInvalid, "self has shape " + print(p.self->shape) + " and mat2 " + print(p.mat2->shape) +
                             "; the last axis of self must be the rows of mat2");
}

// ---- each of the three ---------------------------------------------------------------------------------------------

void checkMm(const Params &p) {
    checkDtypes(p);
    requireRank(paramInvalid, {"mat2", p.mat2}, 2, 2);
    requireRank(paramInvalid, {"self", p.self}, 2, 2);
    checkInnerAxis(p);
    requireShape(paramInvalid, {"out", p.out}, {p.self->shape[0], p.mat2->shape[1]}, "rows of self, columns of mat2");
}

void checkBroadcast(const Params &p) {
    if (p.self->rank() < 2 || p.mat2->rank() < 2) return;
    auto a = p.self->shape.rbegin() + 2, b = p.mat2->shape.rbegin() + 2;
    for (; a != p.self->shape.rend() && b != p.mat2->shape.rend(); ++a, ++b) {
        if (*a == *b || *a == 1 || *b == 1) continue;
        refuse(paramInvalid, "self has shape " + print(p.self->shape) + " and mat2 " + print(p.mat2->shape) +
                                 "; leading axes must be equal or 1");
    }
}

void checkMatmul(const Params &p) {
    checkDtypes(p);
    checkNzDtypes(p);
    requireRank(paramInvalid, {"self", p.self}, 1, mostDimensions);
    requireRank(paramInvalid, {"mat2", p.mat2}, 1, mostDimensions);
    checkInnerAxis(p);
    checkBroadcast(p);
    requireNd(paramInvalid, {"self", p.self});
    requireNd(paramInvalid, {"out", p.out});
}

void checkWeightNz(const Params &p) {
    checkDtypes(p);
    bool anyFloat = p.self->dtype == ACL_FLOAT || p.mat2->dtype == ACL_FLOAT;
    if (isA950() && isNz(*p.mat2) && anyFloat) {
        refuse(paramInvalid, "self or mat2 has dtype FLOAT; on Ascend950 a FRACTAL_NZ mat2 allows FLOAT16 and BF16");
    }
    if (p.cubeMathType == Keep && p.out->dtype == ACL_FLOAT16 && p.self->dtype == ACL_FLOAT) {
        refuse(paramInvalid, "self has dtype FLOAT and out FLOAT16; with cubeMathType 0 they must be equal");
    }
    checkNzDtypes(p);
    if (!isNz(*p.mat2)) {
        refuse(paramInvalid, std::string("mat2 has format ") + formatName(p.mat2->format) + "; allowed: FRACTAL_NZ");
    }
    requireRank(paramInvalid, {"self", p.self}, 2, 2);
    requireRank(paramInvalid, {"mat2", p.mat2}, 2, 2);
    if (p.mat2->storageShape.size() != 4) {
        refuse(paramInvalid, "mat2 has storage shape " + print(p.mat2->storageShape) + "; FRACTAL_NZ has 4 dimensions");
    }
    if (p.mat2->shape[0] == 1 || p.mat2->shape[1] == 1) {
        refuse(paramInvalid, "mat2 has shape " + print(p.mat2->shape) + "; neither axis may be 1 in FRACTAL_NZ");
    }
    checkInnerAxis(p);
}

// ---- inner steps ---------------------------------------------------------------------------------------------------

int64_t blocks(int64_t size, int64_t unit) { return (size + unit - 1) / unit; }

bool storesBlocks(const TensorDesc &mat2) {
    if (mat2.rank() < 2 || mat2.storageShape.size() != mat2.shape.size() + 2) return false;
    int64_t width = blockBytes * 8 / elementBits(mat2.dtype);
    TensorDesc stored = mat2;
    int64_t rows = stored.shape[mat2.shape.size() - 2], columns = stored.shape.back();
    if (isTransposed(mat2)) std::swap(rows, columns);
    stored.shape.resize(mat2.shape.size() - 2);
    for (int64_t size : {blocks(columns, width), blocks(rows, blockRows), blockRows, width}) {
        stored.shape.push_back(size);
    }
    return stored.numel() == mat2.storageNumel();
}

void checkStorage(const Params &p, int32_t status) {
    if (!isNz(*p.mat2) || storesBlocks(*p.mat2)) return;
    refuse(status, "mat2 has shape " + print(p.mat2->shape) + " and storage shape " + print(p.mat2->storageShape) +
                       "; FRACTAL_NZ stores [columns / C0, rows / 16, 16, C0] in whole blocks");
}

void checkResult(const Params &p, int32_t status) {
    if (p.out->numel() == shapesOf(p).resultNumel()) return;
    refuse(status, "out has shape " + print(p.out->shape) + "; the product of " + print(p.self->shape) + " and " +
                       print(p.mat2->shape) + " has another number of elements");
}

// The weight-NZ path hands out self's dtype, FLOAT for equal 16-bit operands into FLOAT: no cast follows.
void checkWeightNzResult(const Params &p) {
    bool widened = is16Bit(p.self->dtype) && p.self->dtype == p.mat2->dtype && p.out->dtype == ACL_FLOAT;
    aclDataType result = widened || p.cubeMathType == KeepInner ? ACL_FLOAT : p.self->dtype;
    if (p.out->dtype == result) return;
    refuse(innerNullptr, std::string("out has dtype ") + dtypeName(p.out->dtype) + "; the result has " +
                             dtypeName(result) + " and is not converted");
}

}  // namespace

bool isTransposed(const TensorDesc &mat2) {
    size_t rank = mat2.shape.size();
    return rank >= 2 && mat2.strides[rank - 2] == 1 && mat2.strides[rank - 1] == mat2.shape[rank - 2];
}

std::optional<Rejection> check(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"self", p.self}, {"mat2", p.mat2}, {"out", p.out}});
        requirePointers(call);
        switch (p.variant) {
            case Variant::Mm: return checkMm(p);
            case Variant::Matmul: return checkMatmul(p);
            case Variant::WeightNz: return checkWeightNz(p);
        }
    });
}

bool isEmpty(const Params &p) { return p.out->isEmpty() && (p.self->isEmpty() || p.mat2->isEmpty()); }

std::optional<Rejection> checkSteps(const Params &p) {
    return caught([&] {
        if (p.self->isEmpty() || p.mat2->isEmpty()) return;  // out is filled with zeros, whatever its shape
        bool weightNz = p.variant == Variant::WeightNz;
        int32_t status = weightNz ? paramInvalid : innerNullptr;
        checkStorage(p, status);
        checkResult(p, status);
        if (weightNz) return checkWeightNzResult(p);
        if (isA950() && isNz(*p.mat2) && p.mat2->dtype == ACL_FLOAT) {
            refuse(innerNullptr, "mat2 is a FRACTAL_NZ weight of FLOAT; Ascend950 has no kernel for it");
        }
    });
}

}  // namespace sim::matmul
