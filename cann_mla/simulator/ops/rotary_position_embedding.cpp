// aclnnRotaryPositionEmbedding, and aclnnInterleaveRope, which on Ascend950 is its mode 3.
#include "aclnnop/aclnn_rotary_position_embedding.h"

#include "aclnnop/aclnn_interleave_rope.h"
#include "core/entry.hpp"
#include "ops/rotary.hpp"

namespace sim::rotary {

using namespace primitive;

namespace {

constexpr int64_t longestOn950 = 1024, longestHalf = 896;
constexpr int64_t vectorCores = 48;  // of A2 and A3
constexpr int64_t vectorMemory = 192 * 1024;

struct Params {
    const TensorDesc *x, *cos, *sin, *out;
    int32_t mode;
};

using Shape = std::vector<int64_t>;

// Every refusal of this operator has one code: an inner step failed.
[[noreturn]] void refuseShapes(const Params &p, const std::string &wanted) {
    refuse(innerNullptr, "x has shape " + print(p.x->shape) + ", cos " + print(p.cos->shape) + " and sin " +
                             print(p.sin->shape) + "; " + wanted);
}

// Three leading axes; those of [T, N, D] get a 1 in front.
Shape leading(const Shape &shape) {
    Shape result(shape.begin(), shape.end() - 1);
    if (result.size() == 2) result.insert(result.begin(), 1);
    return result;
}

void checkOperands(const Params &p) {
    requirePresent(innerNullptr, {{"cos", p.cos}, {"sin", p.sin}});
    requireDtype(innerNullptr, {"x", p.x}, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
    for (const Named &operand : {Named{"cos", p.cos}, {"sin", p.sin}, {"out", p.out}}) {
        requireSameDtype(innerNullptr, operand, {"x", p.x});
    }
    requireRank(innerNullptr, {"x", p.x}, 3, 4);
    if (p.cos->shape != p.sin->shape || p.cos->rank() != p.x->rank() || p.cos->shape.back() != p.x->shape.back()) {
        refuseShapes(p, "cos and sin must have equal shapes, the rank of x and its last axis");
    }
    requireShape(innerNullptr, {"out", p.out}, p.x->shape, "the shape of x");
    if (p.x->format != ACL_FORMAT_ND) {
        refuse(innerNullptr, std::string("x has format ") + formatName(p.x->format) + "; allowed: ND");
    }
    if (!p.out->isDense()) {
        refuse(innerNullptr, "out is a strided view with strides " + print(p.out->strides) + "; it must be dense");
    }
}

void checkOn950(const Params &p) {
    if (p.mode < 0 || p.mode > 3) refuse(innerNullptr, "mode is " + std::to_string(p.mode) + "; allowed: 0, 1, 2, 3");
    int64_t d = p.x->shape.back(), unit = p.mode == 2 ? 4 : 2;
    if (d > longestOn950 || d % unit != 0) {
        refuseShapes(p, "the last axis must be a multiple of " + std::to_string(unit) + " up to 1024");
    }
    if (p.x->isEmpty() || p.cos->isEmpty()) refuseShapes(p, "no axis may be 0");
    Shape x = leading(p.x->shape), r = leading(p.cos->shape);
    bool rows = p.x->rank() == 3 && p.cos->shape[0] == 1 && p.cos->shape[1] == p.x->shape[1];
    bool fits = rows || r == x || r == Shape{1, 1, 1} || (r[2] == 1 && r[0] == 1 && r[1] == x[1]) ||
                (r[2] == 1 && r[0] == x[0] && (r[1] == 1 || r[1] == x[1])) ||
                (r[1] == 1 && r[2] == x[2] && (r[0] == 1 || r[0] == x[0])) ||
                (r[0] == 1 && r[1] == x[1] && r[2] == x[2]);
    if (!fits) refuseShapes(p, "each leading axis of cos must be 1 or that of x");
}

// Mode 1 on A2 and A3: all leading axes of cos but one are 1.
void checkInterleaved(const Params &p) {
    Shape x = leading(p.x->shape), r = leading(p.cos->shape);
    bool fits = (r[1] == 1 && r[2] == 1 && r[0] == x[0]) || (r[0] == 1 && r[2] == 1 && r[1] == x[1]) ||
                (r[0] == 1 && r[1] == 1 && r[2] == x[2]);
    if (!fits) refuseShapes(p, "with mode 1 two of the leading axes of cos must be 1 and the third that of x");
    bool wide = p.x->dtype == ACL_FLOAT;
    int64_t unit = wide ? 8 : 16, row = (p.x->shape.back() + unit - 1) / unit * unit * (wide ? 16 : 22);
    if (row > vectorMemory) refuseShapes(p, "the last axis is too long for the vector memory");
}

// The other modes on A2 and A3, which all compute mode 0.
bool halfLayoutFits(const Shape &x, const Shape &r) {
    bool differs[3] = {x[0] != r[0], x[1] != r[1], x[2] != r[2]};
    int count = differs[0] + differs[1] + differs[2];
    if (count == 0 || r == Shape{1, 1, 1} || count >= 2) return true;
    if (differs[0]) return r[1] == 1 || r[2] == 1;
    return differs[1] || differs[2];
}

// Many heads over few positions are left to other operators.
bool halfIsSlow(const Params &p, const Shape &x, const Shape &r) {
    bool bnsd = r != Shape{1, 1, 1} && r != x && x[0] != r[0] && x[1] != r[1];
    if (!bnsd) return false;
    int64_t d = p.x->shape.back(), heads = x[0] * x[1], unit = p.x->dtype == ACL_FLOAT ? 8 : 16;
    if (d / 2 % unit == 0) return heads > x[2] * 8;
    return heads * 2 > (x[2] + vectorCores - 1) / vectorCores && d < 80;
}

void checkHalf(const Params &p) {
    int64_t d = p.x->shape.back();
    if (d > longestHalf || d % 2 != 0) refuseShapes(p, "the last axis must be even and at most 896");
    Shape x = leading(p.x->shape), r = leading(p.cos->shape);
    if (!halfLayoutFits(x, r)) refuseShapes(p, "this layout is not known");
    if (halfIsSlow(p, x, r)) refuseShapes(p, "so many heads over so few positions are refused");
}

std::optional<Rejection> check(const Params &p) {
    return caught([&] {
        checkOperands(p);
        if (isA950()) return checkOn950(p);
        return p.mode == 1 ? checkInterleaved(p) : checkHalf(p);
    });
}

int32_t judgeEmbedding(PhaseOne &call, const aclTensor *x, const aclTensor *cos, const aclTensor *sin, int64_t mode,
                       aclTensor *out) {
    const TensorDesc *xDesc = call.input("x", x), *cosDesc = call.input("cos", cos), *sinDesc = call.input("sin", sin);
    Params p{xDesc, cosDesc, sinDesc, call.output("out", out), static_cast<int32_t>(mode)};
    auto missing = caught([&] {
        requirePointers(call);
        requirePresent(paramNullptr, {{"x", p.x}, {"out", p.out}});  // real CANN crashes here
    });
    if (missing) return call.reject(*missing);
    if (p.out->isEmpty()) return call.acceptEmpty();
    if (auto refusal = check(p)) return call.reject(*refusal);
    Mode meant = isA950() || p.mode == 1 ? static_cast<Mode>(p.mode) : Mode::Half;
    Task task{meant, p.x->shape, p.cos->shape, p.x->dtype, p.cos->dtype, 0, p.x->shape.back()};
    bool blocked = isNz(*p.out) || isNz(*p.cos) || isNz(*p.sin);
    return call.accept(systemWorkspace + 512, [task, blocked](const Launch &launch) {
        if (blocked) failWithoutKernel("FRACTAL_NZ in a rotary embedding");
        run(task, launch.in("x"), launch.in("cos"), launch.in("sin"), launch.out("out"));
    });
}

// ---- InterleaveRope on A2 and A3 -----------------------------------------------------------------------------------

constexpr int64_t interleaveWidth = 64;
constexpr uint64_t interleaveWorkspace = 32;

std::optional<Rejection> checkInterleaveDefinition(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"x", p.x}, {"cos", p.cos}, {"sin", p.sin}, {"out", p.out}});
        requirePointers(call);
        requireDtype(paramInvalid, {"x", p.x}, {ACL_FLOAT16, ACL_BF16});
        for (const Named &operand : {Named{"x", p.x}, {"cos", p.cos}, {"sin", p.sin}, {"out", p.out}}) {
            requireSameDtype(paramInvalid, operand, {"x", p.x});
            requireNd(paramInvalid, operand);
        }
    });
}

// The shape of out is not looked at.
std::optional<Rejection> checkInterleaveTiling(const Params &p) {
    return caught([&] {
        for (const Named &operand : {Named{"x", p.x}, {"cos", p.cos}, {"sin", p.sin}}) {
            requireRank(tilingFailed, operand, 4, 4);
        }
        if (p.x->isEmpty()) refuse(tilingFailed, "x has shape " + print(p.x->shape) + "; it must not be empty");
        const Shape &x = p.x->shape, &cos = p.cos->shape;
        if (x[3] != interleaveWidth) {
            refuse(tilingFailed, "the last axis of x is " + std::to_string(x[3]) + "; it must be 64");
        }
        requireShape(tilingFailed, {"sin", p.sin}, cos, "the shape of cos");
        requireShape(tilingFailed, {"cos", p.cos}, {x[0], 1, cos[2] == 1 ? 1 : x[2], x[3]}, "[B, 1, S or 1, D] of x");
    });
}

int32_t judgeInterleave(PhaseOne &call, const aclTensor *x, const aclTensor *cos, const aclTensor *sin,
                        aclTensor *out) {
    const TensorDesc *xDesc = call.input("x", x), *cosDesc = call.input("cos", cos), *sinDesc = call.input("sin", sin);
    Params p{xDesc, cosDesc, sinDesc, call.output("out", out), 3};
    if (auto refusal = checkInterleaveDefinition(p, call)) return call.reject(*refusal);
    if (call.allOutputsEmpty()) return call.acceptEmpty();
    if (auto refusal = call.checkViews()) return call.reject(*refusal);
    if (auto refusal = checkInterleaveTiling(p)) return call.reject(*refusal);
    Task task{Mode::InterleaveHalf, p.x->shape, p.cos->shape, p.x->dtype, p.cos->dtype, 0, interleaveWidth};
    int64_t room = p.out->numel(), wanted = p.x->numel();
    return call.accept(interleaveWorkspace, [task, room, wanted](const Launch &launch) {
        if (room < wanted) {
            throw KernelFault(507015, "out has " + std::to_string(room) + " elements; the kernel writes " +
                                          std::to_string(wanted));
        }
        run(task, launch.in("x"), launch.in("cos"), launch.in("sin"), launch.out("out"));
    });
}

}  // namespace

}  // namespace sim::rotary

extern "C" {

aclnnStatus aclnnRotaryPositionEmbeddingGetWorkspaceSize(const aclTensor *x, const aclTensor *cos, const aclTensor *sin,
                                                         int64_t mode, aclTensor *out, uint64_t *workspaceSize,
                                                         aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnRotaryPositionEmbedding", workspaceSize, executor);
    return sim::rotary::judgeEmbedding(call, x, cos, sin, mode, out);
}

aclnnStatus aclnnRotaryPositionEmbedding(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                         aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnRotaryPositionEmbedding", workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnInterleaveRopeGetWorkspaceSize(const aclTensor *x, const aclTensor *cos, const aclTensor *sin,
                                                aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnInterleaveRope", workspaceSize, executor);
    if (sim::primitive::isA950()) return sim::rotary::judgeEmbedding(call, x, cos, sin, 3, out);
    return sim::rotary::judgeInterleave(call, x, cos, sin, out);
}

aclnnStatus aclnnInterleaveRope(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnInterleaveRope", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
