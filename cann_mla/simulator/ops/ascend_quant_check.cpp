#include <algorithm>

#include "ops/ascend_quant.hpp"
#include "ops/promotion.hpp"

namespace sim::ascend_quant {

using namespace primitive;

namespace {

constexpr int64_t mostDimensions = 8;
constexpr int64_t packedIntoInt32 = 8;
constexpr int64_t servedAxes = 2;  // the last ones

bool isFloat8(aclDataType dtype) { return isOneOf(dtype, {ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E5M2}); }

void checkDtypes(const Params &p) {
    requireDtype(paramInvalid, {"x", p.x}, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
    if (isA950()) {
        requireDtype(paramInvalid, {"y", p.y},
                     {ACL_INT8, ACL_INT32, ACL_INT4, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E5M2, ACL_HIFLOAT8});
    } else {
        requireDtype(paramInvalid, {"y", p.y}, {ACL_INT8, ACL_INT32, ACL_INT4});
    }
    requireDtype(paramInvalid, {"scale", p.scale}, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
    if (p.offset) {
        requireDtype(paramInvalid, {"offset", p.offset}, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
        requireSameDtype(paramInvalid, {"offset", p.offset}, {"scale", p.scale});
    }
    if (p.x->dtype != ACL_FLOAT) requireSameDtype(paramInvalid, {"scale", p.scale}, {"x", p.x});
    if (static_cast<int32_t>(p.y->dtype) != p.dstType) {
        refuse(paramInvalid, "dstType is " + std::to_string(p.dstType) + " and y has dtype " + dtypeName(p.y->dtype) +
                                 ", which is " + std::to_string(p.y->dtype));
    }
}

void checkAxis(const Params &p) {
    int64_t rank = p.x->rank();
    int64_t low = rank > servedAxes ? -servedAxes : -rank, lowFromFront = std::max<int64_t>(0, rank - servedAxes);
    bool served = p.axis < rank && (p.axis >= 0 ? p.axis >= lowFromFront : p.axis >= low);
    if (served) return;
    refuse(paramInvalid, "axis is " + std::to_string(p.axis) + " and x has shape " + print(p.x->shape) +
                             "; it must be one of the last two axes");
}

// A y of INT32 holds eight 4-bit values in each element.
void checkResult(const Params &p) {
    if (p.y->dtype != ACL_INT32) requireShape(paramInvalid, {"y", p.y}, p.x->shape, "the shape of x");
    if (p.y->dtype != ACL_INT32 && p.y->dtype != ACL_INT4) return;
    if (p.x->shape.empty()) refuse(paramInvalid, "x has no axes; 4-bit results need one");
    std::vector<int64_t> wanted = p.x->shape;
    int64_t last = wanted.back(), together = p.y->dtype == ACL_INT4 ? 2 : packedIntoInt32;
    if (last % together != 0) {
        refuse(paramInvalid, "the last axis of x is " + std::to_string(last) + "; with y of " +
                                 dtypeName(p.y->dtype) + " it must be a multiple of " + std::to_string(together));
    }
    if (p.y->dtype == ACL_INT4) return;
    wanted.back() = last / packedIntoInt32;
    requireShape(paramInvalid, {"y", p.y}, wanted, "the shape of x, its last axis divided by 8");
}

void checkScaleOfV3(const Params &p) {
    if (p.offset) requireShape(paramInvalid, {"offset", p.offset}, p.scale->shape, "the shape of scale");
    int64_t rank = p.x->rank(), scaleRank = p.scale->rank();
    std::string shapes = "scale has shape " + print(p.scale->shape) + " and x " + print(p.x->shape);
    if (scaleRank == 0 || (scaleRank != 1 && scaleRank != rank)) {
        refuse(paramInvalid, shapes + "; scale must have one axis or as many as x");
    }
    auto axis = static_cast<size_t>(p.axis < 0 ? p.axis + rank : p.axis);
    int64_t size = p.x->shape[axis], own = p.scale->shape[scaleRank == 1 ? 0 : axis];
    if ((own != size && own != 1) || p.scale->numel() != own) {
        refuse(paramInvalid, shapes + "; along axis " + std::to_string(p.axis) + " scale must have " +
                                 std::to_string(size) + " or 1, along others 1");
    }
}

void checkScaleOfV1(const Params &p) {
    int64_t last = p.x->shape.empty() ? 0 : p.x->shape.back();
    for (const Named &operand : {Named{"scale", p.scale}, {"offset", p.offset}}) {
        if (!operand.desc) continue;
        const std::vector<int64_t> &shape = operand.desc->shape;
        bool fits = !shape.empty() && operand.desc->numel() == shape.back() &&
                    (shape.back() == last || shape.back() == 1) && shape.back() == p.scale->shape.back() &&
                    broadcastShape(shape, p.x->shape) == p.x->shape;
        if (fits) continue;
        refuse(paramInvalid, std::string(operand.name) + " has shape " + print(shape) + " and x " +
                                 print(p.x->shape) + "; it must have as many elements as the last axis of x, or 1");
    }
}

void checkRoundMode(const Params &p) {
    if (!p.roundMode) refuse(paramInvalid, "roundMode is null; give \"round\"");
    std::string mode = p.roundMode;
    bool rounds = mode == "round", any = mode == "floor" || mode == "ceil" || mode == "trunc";
    std::string allowed = "round, floor, ceil, trunc";
    if (p.interface == Interface::V3 && p.y->dtype == ACL_HIFLOAT8) {
        any = mode == "hybrid";
        allowed = "round, hybrid";
    } else if (p.interface == Interface::V3 && isFloat8(p.y->dtype)) {
        any = false;
        allowed = "round";
    }
    if (!rounds && !any) refuse(paramInvalid, "roundMode is \"" + mode + "\"; allowed: " + allowed);
}

}  // namespace

std::optional<Rejection> check(const Params &p, const PhaseOne &call) {
    return caught([&] {
        bool v3 = p.interface == Interface::V3;
        requirePresent(paramNullptr, {{"x", p.x}, {"scale", p.scale}, {"y", p.y}});
        requirePointers(call);
        if (v3 && p.x->shape.empty()) refuse(paramInvalid, "x has no axes; it must have 1 to 8");
        checkDtypes(p);
        if (v3) checkAxis(p);
        checkResult(p);
        requireRank(paramInvalid, {"x", p.x}, 0, mostDimensions);
        v3 ? checkScaleOfV3(p) : checkScaleOfV1(p);
        checkRoundMode(p);
    });
}

}  // namespace sim::ascend_quant
