// aclnnNpuFormatCast: ND to FRACTAL_NZ and back, from one buffer into another.
#include "aclnnop/aclnn_npu_format_cast.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/entry.hpp"
#include "core/objects.hpp"
#include "ops/npu_format_cast.hpp"

namespace sim::format_cast {

using namespace primitive;

namespace {

constexpr int32_t deviceFault = 507015;

// Phase one describes the result: it takes the view of the source, or is plain again.
void describeResult(aclTensor *handle, const TensorDesc &source, bool toBlocks) {
    auto object = std::make_shared<TensorObject>(*lookupAs<TensorObject>(handle, Kind::Tensor));
    if (toBlocks) {
        object->desc.shape = source.shape;
        object->desc.strides.assign(source.shape.size(), 1);
        for (size_t i = source.shape.size(); i-- > 1;) {
            object->desc.strides[i - 1] = object->desc.strides[i] * source.shape[i];
        }
    } else {
        object->desc.storageShape = object->desc.shape;
        object->desc.format = ACL_FORMAT_ND;
    }
    replaceObject(handle, Kind::Tensor, object);
}

Kernel packKernel(const TensorDesc &src, const TensorDesc &dst) {
    int64_t width = weight_layout::blockWidth(src.dtype);
    bool wide = dst.storageShape.back() == 16 && elementBits(src.dtype) >= 32;  // C0 of a 16-bit companion
    if (!isA950() && wide) width = 16;
    int64_t room = packedBytes(dst.storageNumel(), dst.dtype);
    if (src.rank() < 2) {
        return [](const Launch &) { failWithoutKernel("a format cast of fewer than two dimensions"); };
    }
    weight_layout::Blocks blocks(src.shape, width, src.dtype);
    return [=](const Launch &launch) {
        if (room < blocks.blockBytes()) {
            throw KernelFault(deviceFault, "dstTensor holds " + std::to_string(room) +
                                               " bytes; the blocks of srcTensor take " +
                                               std::to_string(blocks.blockBytes()));
        }
        if (blocks.blockBytes() > 0) blocks.pack(launch.in("srcTensor"), launch.out("dstTensor"));
    };
}

Kernel unpackKernel(const TensorDesc &src, const TensorDesc &dst) {
    int64_t have = packedBytes(src.storageNumel(), src.dtype);
    if (dst.rank() < 2 || src.storageShape.empty()) {
        return [](const Launch &) { failWithoutKernel("a format cast of fewer than two dimensions"); };
    }
    weight_layout::Blocks blocks(dst.shape, std::max<int64_t>(src.storageShape.back(), 1), dst.dtype);
    return [=](const Launch &launch) {
        if (have < blocks.blockBytes()) {
            throw KernelFault(deviceFault, "srcTensor holds " + std::to_string(have) +
                                               " bytes; the blocks of dstTensor take " +
                                               std::to_string(blocks.blockBytes()));
        }
        if (blocks.rowMajorBytes() > 0) blocks.unpack(launch.in("srcTensor"), launch.out("dstTensor"));
    };
}

// Nothing to convert: Ascend950 copies.
Kernel copyKernel(const TensorDesc &src, const TensorDesc &dst) {
    int64_t bytes = std::min(packedBytes(src.numel(), src.dtype), packedBytes(dst.numel(), dst.dtype));
    return [bytes](const Launch &launch) {
        if (bytes > 0) std::memcpy(launch.out("dstTensor"), launch.in("srcTensor"), static_cast<size_t>(bytes));
    };
}

// The element type is not converted, and a result of another one cannot be copied out.
std::optional<Rejection> checkSteps(const TensorDesc &src, const TensorDesc &dst, bool toBlocks) {
    return caught([&] {
        requireSameDtype(innerNullptr, {"dstTensor", &dst}, {"srcTensor", &src});
        if (isA950() && toBlocks && src.isEmpty()) {
            refuse(innerNullptr, "srcTensor has shape " + print(src.shape) + "; it must not be empty");
        }
    });
}

int32_t judge(PhaseOne &call, const aclTensor *srcTensor, aclTensor *dstTensor) {
    const TensorDesc *src = call.input("srcTensor", srcTensor), *dst = call.output("dstTensor", dstTensor);
    if (auto refusal = checkCast(src, dst, call)) return call.reject(*refusal);
    bool toBlocks = isPlain(src->format) && isNz(*dst), toRows = isNz(*src) && isPlain(dst->format);
    bool relabelled = isA950() && isNz(*src) && isNz(*dst) && elementBits(src->dtype) <= 8;  // taken as ND
    if (!toBlocks && !toRows && !isA950()) {
        std::string text = std::string("srcTensor has format ") + formatName(src->format) + " and dstTensor " +
                           formatName(dst->format) +
                           "; allowed: ND and FRACTAL_NZ, either way (real CANN makes no executor here)";
        return call.acceptUntilPhaseTwo({paramNullptr, text});
    }
    if (auto refusal = checkSteps(*src, *dst, toBlocks)) return call.reject(*refusal);
    if (!toBlocks && !toRows && !relabelled) return call.accept(0, copyKernel(*src, *dst));
    Kernel kernel = toRows ? unpackKernel(*src, *dst) : packKernel(*src, *dst);
    describeResult(dstTensor, *src, !toRows);
    return call.accept(systemWorkspace + 512, std::move(kernel));
}

}  // namespace

}  // namespace sim::format_cast

extern "C" {

aclnnStatus aclnnNpuFormatCastGetWorkspaceSize(const aclTensor *srcTensor, aclTensor *dstTensor,
                                               uint64_t *workspaceSize, aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnNpuFormatCast", workspaceSize, executor);
    return sim::format_cast::judge(call, srcTensor, dstTensor);
}

aclnnStatus aclnnNpuFormatCast(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnNpuFormatCast", workspace, workspaceSize, executor, stream);
}

}  // extern "C"
