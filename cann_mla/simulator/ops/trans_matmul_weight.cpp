// aclnnTransMatmulWeight: a weight becomes FRACTAL_NZ in its own buffer, and its aclTensor says so from phase one on.
#include "aclnnop/aclnn_trans_matmul_weight.h"

#include <memory>

#include "core/entry.hpp"
#include "core/objects.hpp"
#include "ops/weight_layout.hpp"

namespace sim::weight_layout {

namespace {

using namespace primitive;

constexpr int64_t mostFrameworkDimensions = 8;

// How many dimensions a weight may have: two to six, but on Ascend950 two for everything except INT8.
void requireWeightRank(int64_t rank, aclDataType dtype) {
    int64_t most = isA950() && dtype != ACL_INT8 ? 2 : 6;
    if (2 <= rank && rank <= most) return;
    refuse(paramInvalid, "mmWeightRef has " + std::to_string(rank) + " axes; it must have " +
                             (most == 2 ? std::string("2") : std::string("2 to 6")));
}

std::optional<Rejection> check(const TensorDesc *weight, const PhaseOne &call) {
    return caught([&] {
        requirePresent(paramNullptr, {{"mmWeightRef", weight}});
        requirePointers(call);
        Named named{"mmWeightRef", weight};
        requireDtype(paramInvalid, named,
                     {ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_UINT8, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8});
        if (weight->format != ACL_FORMAT_ND) {
            refuse(paramInvalid, std::string("mmWeightRef has format ") + formatName(weight->format) + "; allowed: ND");
        }
        requireRank(paramInvalid, named, 0, mostFrameworkDimensions);
        if (!weight->isEmpty()) requireWeightRank(weight->rank(), weight->dtype);
    });
}

// The aclTensor as phase one leaves it.
void turnIntoBlocks(aclTensor *handle, const TensorDesc &weight) {
    auto object = std::make_shared<TensorObject>(*lookupAs<TensorObject>(handle, Kind::Tensor));
    object->desc.format = ACL_FORMAT_FRACTAL_NZ;
    object->desc.storageShape = blockShape(weight.shape, blockWidth(weight.dtype));
    replaceObject(handle, Kind::Tensor, object);
}

int32_t judge(PhaseOne &call, aclTensor *mmWeightRef) {
    const TensorDesc *weight = call.input("mmWeightRef", mmWeightRef);
    if (auto refusal = check(weight, call)) return call.reject(*refusal);
    if (weight->isEmpty()) return call.acceptEmpty();
    if (auto refusal = call.checkViews()) return call.reject(*refusal);
    Blocks blocks(weight->shape, blockWidth(weight->dtype), weight->dtype);
    turnIntoBlocks(mmWeightRef, *weight);
    call.output("mmWeightRef in blocks", mmWeightRef);
    return call.accept(systemWorkspace, [blocks](const Launch &launch) {
        const char *rows = launch.in<char>("mmWeightRef");
        std::vector<char> copy(rows, rows + blocks.rowMajorBytes());  // the blocks overwrite them
        blocks.pack(copy.data(), launch.out("mmWeightRef in blocks"));
    });
}

int32_t refused(const char *api, const Rejection &rejection) { return fail(api, rejection); }

struct SizeRules {
    const char *api;
    aclDataType dtype;
    int64_t mostDimensions;
    bool zeroAllowed;
};

int32_t weightSize(const SizeRules &rules, const aclIntArray *tensorShape, uint64_t *size) {
    if (!tensorShape || !size) {
        return refused(rules.api,
                       {paramNullptr, std::string(tensorShape ? "weightTensorSize" : "tensorShape") + " is null"});
    }
    auto array = lookupAs<IntArrayObject>(tensorShape, Kind::IntArray);
    if (!array) return refused(rules.api, {paramInvalid, badHandle(tensorShape, Kind::IntArray)});
    const std::vector<int64_t> &shape = array->values;
    auto rank = static_cast<int64_t>(shape.size());
    if (rank < 2 || rank > rules.mostDimensions) {
        return refused(rules.api, {paramInvalid, "tensorShape is " + print(shape) + "; it must have 2 to " +
                                                     std::to_string(rules.mostDimensions) + " dimensions"});
    }
    int64_t count = 1;
    for (int64_t length : blockShape(shape, rules.dtype == ACL_FLOAT16 || rules.dtype == ACL_BF16 ? 16 : 32)) {
        count = static_cast<int64_t>(static_cast<uint64_t>(count) * static_cast<uint64_t>(length));
    }
    for (int64_t length : shape) {
        if (length == 0 && !rules.zeroAllowed) {
            return refused(rules.api, {paramInvalid, "tensorShape is " + print(shape) + "; no axis may be 0"});
        }
    }
    *size = static_cast<uint64_t>(count);
    return 0;
}

}  // namespace

}  // namespace sim::weight_layout

extern "C" {

aclnnStatus aclnnTransMatmulWeightGetWorkspaceSize(aclTensor *mmWeightRef, uint64_t *workspaceSize,
                                                   aclOpExecutor **executor) {
    SIM_API;
    sim::PhaseOne call("aclnnTransMatmulWeight", workspaceSize, executor);
    return sim::weight_layout::judge(call, mmWeightRef);
}

aclnnStatus aclnnTransMatmulWeight(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                   aclrtStream stream) {
    SIM_API;
    return sim::phaseTwo("aclnnTransMatmulWeight", workspace, workspaceSize, executor, stream);
}

// The result counts elements of FLOAT16, whatever the weight will hold.
aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray *tensorShape, uint64_t *weightTensorSize) {
    SIM_API;
    int64_t most = sim::primitive::isA950() ? 2 : 6;
    return sim::weight_layout::weightSize({"aclnnCalculateMatmulWeightSize", ACL_FLOAT16, most, true}, tensorShape,
                                          weightTensorSize);
}

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape, aclDataType dataType,
                                             uint64_t *weightTensorSize) {
    SIM_API;
    return sim::weight_layout::weightSize({"aclnnCalculateMatmulWeightSizeV2", dataType, 6, false}, tensorShape,
                                          weightTensorSize);
}

}  // extern "C"
