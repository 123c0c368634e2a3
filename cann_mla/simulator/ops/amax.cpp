// aclnnAmax: the largest element along some axes.
#include "aclnnop/aclnn_amax.h"

#include <algorithm>

#include "core/entry.hpp"
#include "numeric/parallel.hpp"
#include "ops/cast.hpp"
#include "ops/primitive.hpp"

namespace sim::amax {

using namespace primitive;

namespace {

constexpr size_t mostDimensions = 8;

struct Params {
    const TensorDesc *self;
    const std::vector<int64_t> *dim;
    bool keepDim;
    const TensorDesc *out;
};

// Which axes of self are reduced; an empty list stands for all.
std::vector<bool> reducedAxes(const Params &p) {
    std::vector<bool> reduced(p.self->shape.size(), p.dim->empty());
    for (int64_t axis : *p.dim) {
        if (!reduced.empty()) reduced[static_cast<size_t>(axis < 0 ? axis + p.self->rank() : axis)] = true;
    }
    return reduced;
}

void checkAxes(const Params &p) {
    int64_t rank = std::max<int64_t>(p.self->rank(), 1);
    std::vector<bool> seen(static_cast<size_t>(rank));
    for (int64_t axis : *p.dim) {
        std::string text = "dim is " + print(*p.dim) + " and self has shape " + print(p.self->shape);
        if (axis >= rank || axis < -rank) {
            refuse(paramInvalid, text + "; axes lie in [" + std::to_string(-rank) + ", " + std::to_string(rank) + ")");
        }
        auto index = static_cast<size_t>(axis < 0 ? axis + rank : axis);
        if (!p.self->shape.empty() && p.self->shape[index] == 0) {
            refuse(paramInvalid, text + "; an axis without elements has no largest one");
        }
        if (seen[index]) refuse(paramInvalid, text + "; every axis may be named once");
        seen[index] = true;
    }
}

void checkShapes(const Params &p) {
    requireRank(paramInvalid, {"self", p.self}, 0, mostDimensions);
    requireRank(paramInvalid, {"out", p.out}, 0, mostDimensions);
    std::vector<int64_t> wanted;
    std::vector<bool> reduced = reducedAxes(p);
    for (size_t i = 0; i < reduced.size(); ++i) {
        if (!reduced[i]) wanted.push_back(p.self->shape[i]);
        if (reduced[i] && p.keepDim) wanted.push_back(1);
    }
    requireShape(paramInvalid, {"out", p.out}, wanted, "self without the axes of dim");
}

std::optional<Rejection> check(const Params &p, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"self", p.self}});
        if (!p.dim) refuse(paramNullptr, "dim is null; it is required");
        requirePresent(paramNullptr, {{"out", p.out}});
        requirePointers(call);
        requireSameDtype(paramInvalid, {"out", p.out}, {"self", p.self});
        requireDtype(paramInvalid, {"self", p.self},
                     {ACL_FLOAT, ACL_FLOAT16, ACL_UINT8, ACL_INT32, ACL_INT64, ACL_INT16, ACL_INT8, ACL_DOUBLE,
                      ACL_BOOL, ACL_BF16});
        checkAxes(p);
        checkShapes(p);
    });
}

struct Task {
    aclDataType dtype;
    std::vector<int64_t> shape;
    std::vector<bool> reduced;
    int64_t results;
};

// Where element `index` of the axes that are reduced (or kept) lies in self.
int64_t placeOf(const Task &t, bool reduced, int64_t index) {
    int64_t place = 0, step = 1;
    for (size_t i = t.shape.size(); i-- > 0;) {
        if (t.reduced[i] == reduced) {
            place += index % t.shape[i] * step;
            index /= t.shape[i];
        }
        step *= t.shape[i];
    }
    return place;
}

// NaN counts as the largest.
template <typename T>
void reduce(const Task &t, const T *self, T *out) {
    int64_t length = 1;
    for (size_t i = 0; i < t.shape.size(); ++i) length *= t.reduced[i] ? t.shape[i] : 1;
    std::vector<int64_t> places(static_cast<size_t>(length));
    for (int64_t i = 0; i < length; ++i) places[static_cast<size_t>(i)] = placeOf(t, true, i);
    numeric::parallelFor(static_cast<size_t>(t.results), [&](size_t index) {
        const T *row = self + placeOf(t, false, static_cast<int64_t>(index));
        T largest = row[0];
        for (int64_t place : places) largest = row[place] > largest || row[place] != row[place] ? row[place] : largest;
        out[index] = largest;
    });
}

// 16-bit floats and BOOL as FLOAT, which keeps their order and values.
void reduceAsFloat(const Task &t, const void *self, void *out) {
    int64_t count = 1;
    for (int64_t size : t.shape) count *= size;
    std::vector<float> wide(static_cast<size_t>(count)), results(static_cast<size_t>(t.results));
    cast::convert(t.dtype, ACL_FLOAT, self, wide.data(), count);
    reduce(t, wide.data(), results.data());
    cast::convert(ACL_FLOAT, t.dtype, results.data(), out, t.results);
}

void run(const Task &t, const void *self, void *out) {
    auto as = [&](auto carrier) {
        using T = decltype(carrier);
        reduce(t, static_cast<const T *>(self), static_cast<T *>(out));
    };
    switch (t.dtype) {
        case ACL_FLOAT: return as(float{});
        case ACL_DOUBLE: return as(double{});
        case ACL_INT8: return as(int8_t{});
        case ACL_UINT8: return as(uint8_t{});
        case ACL_INT16: return as(int16_t{});
        case ACL_INT32: return as(int32_t{});
        case ACL_INT64: return as(int64_t{});
        default: return reduceAsFloat(t, self, out);
    }
}

int32_t judge(PhaseOne &call, const Params &p) {
    if (auto refusal = check(p, call)) return call.reject(*refusal);
    if (p.self->isEmpty()) return call.acceptEmpty();
    Task task{p.self->dtype, p.self->shape, reducedAxes(p), p.out->numel()};
    bool blocked = isNz(*p.self) || isNz(*p.out);
    return call.accept(systemWorkspace, [task, blocked](const Launch &launch) {
        if (blocked) failWithoutKernel("an operand in FRACTAL_NZ");
        run(task, launch.in("self"), launch.out("out"));
    });
}

}  // namespace

}  // namespace sim::amax

extern "C" {

aclnnStatus aclnnAmaxGetWorkspaceSize(const aclTensor *self, const aclIntArray *dim, bool keepDim, aclTensor *out,
                                      uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnAmax", workspaceSize, executor);
    const sim::TensorDesc *selfDesc = call.input("self", self);
    const std::vector<int64_t> *axes = call.intArray("dim", dim);
    return sim::amax::judge(call, {selfDesc, axes, keepDim, call.inplace("out", out)});
}

aclnnStatus aclnnAmax(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnAmax", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
