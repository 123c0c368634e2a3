// aclnnAbs: every element without its sign.
#include "aclnnop/aclnn_abs.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/entry.hpp"
#include "numeric/parallel.hpp"
#include "ops/primitive.hpp"

namespace sim::absolute {

using namespace primitive;

namespace {

constexpr int64_t mostDimensions = 8;
constexpr int64_t stretch = 1 << 16;  // elements that one thread takes at a time

// The absolute value of a complex number is real.
aclDataType resultOf(aclDataType dtype) {
    switch (dtype) {
        case ACL_COMPLEX32: return ACL_FLOAT16;
        case ACL_COMPLEX64: return ACL_FLOAT;
        default: return dtype;
    }
}

std::optional<Rejection> check(const TensorDesc *self, const TensorDesc *out, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"self", self}, {"out", out}});
        requirePointers(call);
        if (self->dtype != ACL_COMPLEX32 || !isA950()) {
            requireDtype(paramInvalid, {"self", self},
                         {ACL_DOUBLE, ACL_FLOAT, ACL_FLOAT16, ACL_INT64, ACL_INT32, ACL_INT16, ACL_INT8, ACL_UINT8,
                          ACL_BOOL, ACL_BF16, ACL_COMPLEX64});
        }
        requireDtype(paramInvalid, {"out", out}, {resultOf(self->dtype)});
        if (self->format != out->format || isPrivateFormat(self->format)) {
            refuse(paramInvalid, std::string("self has format ") + formatName(self->format) + " and out " +
                                     formatName(out->format) + "; allowed: ND for both");
        }
        requireRank(paramInvalid, {"self", self}, 0, mostDimensions);
        requireShape(paramInvalid, {"out", out}, self->shape, "the shape of self");
    });
}

// The smallest integer has no opposite and stays as it is.
template <typename T>
void signless(const T *source, T *destination, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if constexpr (std::is_floating_point_v<T>) {
            destination[i] = std::fabs(source[i]);
        } else {
            using Wide = std::make_unsigned_t<T>;
            destination[i] = source[i] < 0 ? static_cast<T>(Wide{0} - static_cast<Wide>(source[i])) : source[i];
        }
    }
}

void signless16(const uint16_t *source, uint16_t *destination, int64_t count) {
    for (int64_t i = 0; i < count; ++i) destination[i] = source[i] & 0x7FFFU;
}

void run(aclDataType dtype, const void *source, void *destination, int64_t at, int64_t count) {
    auto as = [&](auto carrier, auto kernel) {
        using T = decltype(carrier);
        kernel(static_cast<const T *>(source) + at, static_cast<T *>(destination) + at, count);
    };
    switch (dtype) {
        case ACL_FLOAT: return as(float{}, signless<float>);
        case ACL_DOUBLE: return as(double{}, signless<double>);
        case ACL_FLOAT16:
        case ACL_BF16: return as(uint16_t{}, signless16);
        case ACL_INT8: return as(int8_t{}, signless<int8_t>);
        case ACL_INT16: return as(int16_t{}, signless<int16_t>);
        case ACL_INT32: return as(int32_t{}, signless<int32_t>);
        case ACL_INT64: return as(int64_t{}, signless<int64_t>);
        case ACL_UINT8:
        case ACL_BOOL: return as(uint8_t{}, signless<uint8_t>);
        default: failWithoutKernel(std::string("self of dtype ") + dtypeName(dtype));
    }
}

int32_t judge(PhaseOne &call, const TensorDesc *self, const TensorDesc *out) {
    if (auto refusal = check(self, out, call)) return call.reject(*refusal);
    if (self->isEmpty()) return call.acceptEmpty();
    return call.accept(systemWorkspace, [dtype = self->dtype, count = self->numel()](const Launch &launch) {
        numeric::parallelFor(static_cast<size_t>((count + stretch - 1) / stretch), [&](size_t index) {
            int64_t at = static_cast<int64_t>(index) * stretch;
            run(dtype, launch.in("self"), launch.out("out"), at, std::min(stretch, count - at));
        });
    });
}

}  // namespace

}  // namespace sim::absolute

extern "C" {

aclnnStatus aclnnAbsGetWorkspaceSize(const aclTensor *self, aclTensor *out, uint64_t *workspaceSize,
                                     aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnAbs", workspaceSize, executor);
    const sim::TensorDesc *selfDesc = call.input("self", self);
    return sim::absolute::judge(call, selfDesc, call.inplace("out", out));
}

aclnnStatus aclnnAbs(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnAbs", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
