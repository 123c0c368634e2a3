// aclnnInplacePartialRotaryMul: a slice of the last axis turns in place, pairs staying interleaved.
#include "aclnnop/aclnn_inplace_partial_rotary_mul.h"

#include "core/entry.hpp"
#include "ops/rotary.hpp"

namespace sim::rotary {

using namespace primitive;

namespace {

constexpr int64_t longestAxis = 1024;

struct PartialParams {
    const TensorDesc *x, *cos, *sin;
    int64_t mode;
    std::optional<std::vector<int64_t>> slice;
};

struct Slice {
    int64_t start, end;
    int64_t length() const { return end - start; }
};

[[noreturn]] void refuseCos(const PartialParams &p, const std::string &wanted) {
    refuse(tilingFailed, "xRef has shape " + print(p.x->shape) + " and cos " + print(p.cos->shape) + "; " + wanted);
}

std::optional<Rejection> checkDefinition(const PartialParams &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"xRef", p.x}, {"cos", p.cos}, {"sin", p.sin}});
        requirePointers(call);
        requireDtype(paramInvalid, {"xRef", p.x}, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
        if (p.cos->dtype != ACL_FLOAT) requireSameDtype(paramInvalid, {"cos", p.cos}, {"xRef", p.x});
        requireSameDtype(paramInvalid, {"sin", p.sin}, {"cos", p.cos});
        for (const Named &operand : {Named{"xRef", p.x}, {"cos", p.cos}, {"sin", p.sin}}) {
            requireNd(paramInvalid, operand);
        }
    });
}

// The slice that the caller means: all of the last axis without an array.
Slice sliceOf(const PartialParams &p) {
    int64_t d = p.x->shape.back();
    if (!p.slice) return {0, d};
    bool longEnough = p.slice->size() == 2 || (isA950() && p.slice->size() > 2);
    if (!longEnough) refuse(tilingFailed, "partialSlice is " + print(*p.slice) + "; it must hold a start and an end");
    return {(*p.slice)[0], (*p.slice)[1]};
}

void checkSlice(const PartialParams &p, const Slice &slice) {
    int64_t d = p.x->shape.back();
    bool inside = slice.start >= 0 && slice.length() >= 0 && slice.end <= d;
    if (!inside || slice.length() % 2 != 0) {
        refuse(tilingFailed, "partialSlice is [" + std::to_string(slice.start) + ", " + std::to_string(slice.end) +
                                 "]; it must be an even stretch of the last axis of xRef, which is " +
                                 std::to_string(d));
    }
    if (d > longestAxis || d % 2 != 0) {
        refuse(tilingFailed, "the last axis of xRef is " + std::to_string(d) + "; it must be even and at most 1024");
    }
}

void checkLayoutOn950(const PartialParams &p) {
    if (p.cos->isEmpty() || p.x->isEmpty()) refuseCos(p, "no axis may be 0");
    const auto &x = p.x->shape, &r = p.cos->shape;
    bool all = r[0] == x[0] && r[1] == x[1] && r[2] == x[2], none = r[0] == 1 && r[1] == 1 && r[2] == 1;
    bool fits = all || none || (r[2] == 1 && r[0] == 1 && r[1] == x[1]) ||
                (r[2] == 1 && r[0] == x[0] && (r[1] == 1 || r[1] == x[1])) ||
                (r[1] == 1 && r[2] == x[2] && (r[0] == 1 || r[0] == x[0])) ||
                (r[0] == 1 && r[1] == x[1] && r[2] == x[2]);
    if (!fits) refuseCos(p, "each leading axis of cos must be 1 or that of xRef");
}

void checkLayoutOnA2(const PartialParams &p) {
    const auto &x = p.x->shape, &r = p.cos->shape;
    if (r[0] != x[0] || r[2] != 1 || (r[1] != 1 && r[1] != x[1])) refuseCos(p, "cos must be [B, S or 1, 1, length]");
}

std::optional<Rejection> checkTiling(const PartialParams &p) {
    return caught([&] {
        for (const Named &operand : {Named{"xRef", p.x}, {"cos", p.cos}, {"sin", p.sin}}) {
            requireRank(tilingFailed, operand, 4, 4);
        }
        requireShape(tilingFailed, {"sin", p.sin}, p.cos->shape, "the shape of cos");
        if (p.mode != 1) refuse(tilingFailed, "rotary_mode is " + std::to_string(p.mode) + "; allowed: 1");
        Slice slice = sliceOf(p);
        int64_t d = p.x->shape.back(), length = slice.length();
        // A2 and A3 look no further at an empty slice, wherever it lies.
        if (!isA950() && length == 0) return;
        if (isA950() && (length == 0 || p.cos->shape.back() == 0) && slice.start >= 0 && length >= 0 &&
            slice.end <= d) {
            return;
        }
        checkSlice(p, slice);
        if (p.cos->shape.back() != length) refuseCos(p, "the last axis of cos must be the length of partialSlice");
        return isA950() ? checkLayoutOn950(p) : checkLayoutOnA2(p);
    });
}

int32_t judge(PhaseOne &call, const aclTensor *xRef, const aclTensor *cos, const aclTensor *sin, int64_t rotaryMode,
              const aclIntArray *partialSlice) {
    const TensorDesc *x = call.inplace("xRef", xRef), *cosDesc = call.input("cos", cos),
                     *sinDesc = call.input("sin", sin);
    const std::vector<int64_t> *given = call.intArray("partialSlice", partialSlice);
    // Ascend950 reads the lower half of the mode.
    int64_t mode = isA950() ? static_cast<int32_t>(rotaryMode) : rotaryMode;
    PartialParams p{x, cosDesc, sinDesc, mode, std::nullopt};
    if (given) p.slice = *given;
    if (auto refusal = checkDefinition(p, call)) return call.reject(*refusal);
    if (p.slice && p.slice->empty()) {
        return call.reject(innerNullptr, "partialSlice is []; give a start and an end, or null for the whole axis");
    }
    if (call.allOutputsEmpty()) return call.acceptEmpty();
    if (auto refusal = call.checkViews()) return call.reject(*refusal);
    if (auto refusal = checkTiling(p)) return call.reject(*refusal);
    Slice slice = sliceOf(p);
    int64_t length = p.cos->shape.back() == 0 ? 0 : slice.length();
    Task task{Mode::Interleave, x->shape, p.cos->shape, x->dtype, p.cos->dtype, slice.start, length};
    return call.accept(systemWorkspace, [task](const Launch &launch) {
        if (task.length == 0) return;
        run(task, launch.in("xRef"), launch.in("cos"), launch.in("sin"), launch.out("xRef"));
    });
}

}  // namespace

}  // namespace sim::rotary

extern "C" {

aclnnStatus aclnnInplacePartialRotaryMulGetWorkspaceSize(const aclTensor *xRef, const aclTensor *cos,
                                                         const aclTensor *sin, int64_t rotary_mode,
                                                         const aclIntArray *partialSlice, uint64_t *workspaceSize,
                                                         aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnInplacePartialRotaryMul", workspaceSize, executor);
    return sim::rotary::judge(call, xRef, cos, sin, rotary_mode, partialSlice);
}

aclnnStatus aclnnInplacePartialRotaryMul(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                         aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnInplacePartialRotaryMul", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
