#include "ops/dynamic_quant.hpp"

namespace sim::dynamic_quant {

using namespace primitive;

namespace {

constexpr int64_t fewestDimensions = 2, mostDimensions = 8;
constexpr int64_t packedIntoInt32 = 8;
constexpr int64_t mostGroups = 1024;

std::vector<int64_t> withoutLast(const TensorDesc &desc) { return {desc.shape.begin(), desc.shape.end() - 1}; }

void checkDtypes(const Params &p) {
    requireDtype(paramInvalid, {"x", p.x}, {ACL_FLOAT16, ACL_BF16});
    if (p.smooth) {
        requireSameDtype(paramInvalid, {"smoothScalesOptional", p.smooth}, {"x", p.x});
        if (p.groupIndex) requireDtype(paramInvalid, {"groupIndexOptional", p.groupIndex}, {ACL_INT32, ACL_INT64});
    }
    if (isA950()) {
        requireDtype(paramInvalid, {"yOut", p.y},
                     {ACL_INT8, ACL_INT4, ACL_INT32, ACL_HIFLOAT8, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN});
    } else {
        requireDtype(paramInvalid, {"yOut", p.y}, {ACL_INT8, ACL_INT4, ACL_INT32});
    }
    requireDtype(paramInvalid, {"scaleOut", p.scale}, {ACL_FLOAT});
    if (p.offset) requireDtype(paramInvalid, {"offsetOut", p.offset}, {ACL_FLOAT});
}

void checkSmooth(const Params &p) {
    if (!p.smooth) return;
    if (p.groupIndex) return requireRank(paramInvalid, {"groupIndexOptional", p.groupIndex}, 1, 1);
    requireShape(paramInvalid, {"smoothScalesOptional", p.smooth}, {p.x->shape.back()}, "the last axis of x");
}

// A result of INT32 holds eight 4-bit values in each element.
void checkResult(const Params &p) {
    std::vector<int64_t> wanted = p.x->shape;
    int64_t last = wanted.back();
    if (p.y->dtype == ACL_INT32) {
        if (last % packedIntoInt32 != 0) {
            refuse(paramInvalid, "the last axis of x is " + std::to_string(last) +
                                     "; with yOut of INT32 it must be a multiple of 8");
        }
        wanted.back() = last / packedIntoInt32;
        return requireShape(paramInvalid, {"yOut", p.y}, wanted, "the shape of x, its last axis divided by 8");
    }
    requireShape(paramInvalid, {"yOut", p.y}, wanted, "the shape of x");
    if (p.y->dtype == ACL_INT4 && last % 2 != 0) {
        refuse(paramInvalid, "the last axis of x is " + std::to_string(last) + "; with yOut of INT4 it must be even");
    }
}

void checkShapes(const Params &p) {
    requireRank(paramInvalid, {"x", p.x}, fewestDimensions, mostDimensions);
    checkSmooth(p);
    checkResult(p);
    requireShape(paramInvalid, {"scaleOut", p.scale}, withoutLast(*p.x), "the shape of x without its last axis");
    if (p.offset) requireShape(paramInvalid, {"offsetOut", p.offset}, p.scale->shape, "the shape of scaleOut");
}

void checkGroups(const Params &p) {
    if (!p.groupIndex) return;
    requireDtype(innerNullptr, {"groupIndexOptional", p.groupIndex}, {ACL_INT32});
    if (!p.smooth) return;
    int64_t groups = p.groupIndex->shape.back();
    if (groups > mostGroups) {
        refuse(innerNullptr, "groupIndexOptional has " + std::to_string(groups) + " groups; at most 1024 are served");
    }
    std::vector<int64_t> wanted{groups, p.x->shape.back()};
    if (groups == 0) wanted.erase(wanted.begin());
    requireShape(innerNullptr, {"smoothScalesOptional", p.smooth}, wanted, "groups and the last axis of x");
}

// The format of x is handed on to the result, and a result in another format than ND cannot be copied out.
void checkCopies(const Params &p) {
    if (p.x->format != ACL_FORMAT_ND) {
        refuse(innerNullptr, std::string("x has format ") + formatName(p.x->format) + "; allowed: ND");
    }
    if (p.y->dtype == ACL_INT4 && !p.y->isDense()) {
        refuse(innerNullptr, "yOut of INT4 is a strided view with strides " + print(p.y->strides) +
                                 "; 4-bit results must be dense");
    }
}

}  // namespace

std::optional<Rejection> check(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"x", p.x}, {"yOut", p.y}, {"scaleOut", p.scale}});
        requirePointers(call);
        checkDtypes(p);
        checkShapes(p);
    });
}

bool isEmpty(const Params &p) { return p.x->isEmpty() || p.y->isEmpty() || p.scale->isEmpty(); }

std::optional<Rejection> checkSteps(const Params &p) {
    return caught([&] {
        checkGroups(p);
        checkCopies(p);
    });
}

}  // namespace sim::dynamic_quant
