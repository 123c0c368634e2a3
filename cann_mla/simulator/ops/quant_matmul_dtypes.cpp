// The combinations of dtypes, which differ between products and interfaces.
#include "ops/quant_matmul.hpp"

namespace sim::quant_matmul {

using namespace primitive;

namespace {

using Dtypes = std::initializer_list<aclDataType>;
constexpr Dtypes packedScales = {ACL_UINT64, ACL_INT64};
constexpr Dtypes floatScales = {ACL_FLOAT, ACL_BF16};
constexpr Dtypes anyScale = {ACL_UINT64, ACL_INT64, ACL_FLOAT, ACL_BF16};
constexpr Dtypes anyFloat = {ACL_FLOAT16, ACL_BF16, ACL_FLOAT};

void requireScale(const Params &p, Dtypes allowed) {
    requireDtype(paramInvalid, {p.names.x2Scale, p.x2Scale}, allowed);
}

void requireBias(const Params &p, Dtypes allowed) {
    if (p.bias) requireDtype(paramInvalid, {"bias", p.bias}, allowed);
}

void requireNoOffset(const Params &p) {
    if (!p.x2Offset) return;
    refuse(paramInvalid, std::string(p.names.x2Offset) + " is given and out has dtype " + dtypeName(p.out->dtype) +
                             "; an offset goes with INT8 only");
}

void requireOffset(const Params &p) {
    if (p.x2Offset) requireDtype(paramInvalid, {p.names.x2Offset, p.x2Offset}, {ACL_FLOAT});
}

// Integers with per-token scales: the same rows everywhere.
void checkPerToken(const Params &p) {
    requireDtype(paramInvalid, {p.names.x1Scale, p.x1Scale}, {ACL_FLOAT});
    requireDtype(paramInvalid, {"out", p.out}, {ACL_FLOAT16, ACL_BF16});
    if (p.out->dtype == ACL_BF16) {
        requireScale(p, floatScales);
        return requireBias(p, {ACL_INT32, ACL_BF16, ACL_FLOAT});
    }
    bool late = p.interface != Interface::V5 && !isA950();  // UINT64 fails in phase two there
    requireScale(p, late ? Dtypes{ACL_FLOAT, ACL_UINT64} : Dtypes{ACL_FLOAT});
    requireBias(p, {ACL_INT32, ACL_FLOAT16, ACL_FLOAT});
}

void checkPerChannel(const Params &p) {
    requireDtype(paramInvalid, {"out", p.out}, {ACL_INT8, ACL_FLOAT16, ACL_BF16, ACL_INT32});
    bool packed = isOneOf(p.x2Scale->dtype, packedScales);
    switch (p.out->dtype) {
        case ACL_BF16:
            requireScale(p, isA950() ? anyScale : floatScales);
            if (p.interface == Interface::V5 && !isA950() && p.groupSize != 0) requireScale(p, {ACL_BF16});
            requireBias(p, packed ? Dtypes{ACL_INT32} : Dtypes{ACL_INT32, ACL_BF16, ACL_FLOAT});
            return requireNoOffset(p);
        case ACL_INT32:
            requireScale(p, floatScales);
            requireBias(p, {ACL_INT32});
            // V5 on A2 and A3 forgets to look at the offset.
            if (p.interface != Interface::V5 || isA950()) requireNoOffset(p);
            return;
        case ACL_INT8:
            requireScale(p, packedScales);
            requireBias(p, {ACL_INT32});
            return requireOffset(p);
        default:
            requireScale(p, packedScales);
            requireBias(p, {ACL_INT32});
            requireNoOffset(p);
    }
}

void checkInt4(const Params &p) {
    requireDtype(paramInvalid, {"out", p.out}, {ACL_FLOAT16, ACL_BF16});
    if (isA950()) return checkPerChannel(p);
    requireScale(p, packedScales);
    requireBias(p, {ACL_INT32});
    if (p.interface == Interface::V5) return;
    requireNoOffset(p);
    if (p.out->dtype == ACL_BF16) requireScale(p, floatScales);
}

// Ascend950 only: HIFLOAT8, or the two FLOAT8 in any mixture.
void checkFloat8(const Params &p, const Product &product) {
    requireDtype(paramInvalid, {"out", p.out}, anyFloat);
    requireScale(p, p.x1Scale ? Dtypes{ACL_FLOAT} : packedScales);
    if (p.x1Scale) requireDtype(paramInvalid, {p.names.x1Scale, p.x1Scale}, {ACL_FLOAT});
    requireBias(p, {ACL_FLOAT});
    requireNoOffset(p);
    if (!product.x2.nz) return;
    requireDtype(paramInvalid, {"x2", p.x2}, {ACL_HIFLOAT8, ACL_FLOAT8_E4M3FN});
    requireSameDtype(paramInvalid, {"x1", p.x1}, {"x2", p.x2});
    if (p.x1Scale && product.x1.transposed) {
        refuse(paramInvalid, "x1 is transposed; with 8-bit floats, FLOAT scales and a FRACTAL_NZ x2 it must not be");
    }
}

bool isFloat8(aclDataType dtype) { return dtype == ACL_FLOAT8_E4M3FN || dtype == ACL_FLOAT8_E5M2; }

}  // namespace

void checkDtypes(const Params &p, const Product &product) {
    aclDataType x1 = product.x1.dtype, x2 = product.x2.dtype;
    if (isA950() && ((x1 == ACL_HIFLOAT8 && x2 == ACL_HIFLOAT8) || (isFloat8(x1) && isFloat8(x2)))) {
        return checkFloat8(p, product);
    }
    requireDtype(paramInvalid, {"x1", p.x1}, {ACL_INT8, ACL_INT4, ACL_INT32});
    if (x1 != x2) {
        refuse(paramInvalid, std::string("x1 has dtype ") + dtypeName(p.x1->dtype) + " and x2 " +
                                 dtypeName(p.x2->dtype) + "; they must be equal");
    }
    if (p.x1Scale) {
        checkPerToken(p);
        // V5 on A2 and A3 forgets to look at the offset.
        if (p.interface != Interface::V5 || isA950()) requireNoOffset(p);
    } else if (x1 == ACL_INT4) {
        checkInt4(p);
    } else {
        checkPerChannel(p);
    }
}

}  // namespace sim::quant_matmul
