// aclTensor: creation, reading, addresses.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "aclnn/acl_meta.h"
#include "checker/launch_rules.hpp"
#include "core/entry.hpp"
#include "core/error.hpp"
#include "core/objects.hpp"
#include "core/settings.hpp"

using sim::fail;
using sim::Kind;
using sim::TensorObject;

namespace {

// Row-major strides. Products wrap as they do in CANN: any dimensions are taken, and judged later.
std::vector<int64_t> denseStrides(const std::vector<int64_t> &shape) {
    std::vector<int64_t> strides(shape.size());
    uint64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
        strides[i] = static_cast<int64_t>(stride);
        stride *= static_cast<uint64_t>(shape[i]);
    }
    return strides;
}

struct TensorArguments {
    const int64_t *viewDims;
    uint64_t viewDimsNum;
    aclDataType dataType;
    const int64_t *stride;
    int64_t offset;
    aclFormat format;
    const int64_t *storageDims;
    uint64_t storageDimsNum;
    void *data;
};

// Guards against reading an array of an absurd length (an uninitialised count) from the caller.
constexpr uint64_t kMaxRank = 1024;

int32_t checkArguments(const char *api, const TensorArguments &arguments) {
    auto bad = [&](const char *what, const void *dims, uint64_t count) -> int32_t {
        if (dims == nullptr && count > 0) {
            return fail(api, ACLNN_ERR_PARAM_NULLPTR,
                        std::string(what) + " is null, but " + what + "Num is " + std::to_string(count));
        }
        if (count > kMaxRank) {
            return fail(api, ACLNN_ERR_PARAM_INVALID,
                        std::string(what) + "Num is " + std::to_string(count) + "; at most 1024 are taken");
        }
        return 0;
    };
    if (int32_t status = bad("viewDims", arguments.viewDims, arguments.viewDimsNum)) return status;
    return bad("storageDims", arguments.storageDims, arguments.storageDimsNum);
}

std::shared_ptr<TensorObject> makeTensor(const TensorArguments &arguments) {
    auto object = std::make_shared<TensorObject>();
    sim::TensorDesc &desc = object->desc;
    desc.shape.assign(arguments.viewDims, arguments.viewDims + arguments.viewDimsNum);
    if (arguments.stride != nullptr) {
        desc.strides.assign(arguments.stride, arguments.stride + arguments.viewDimsNum);
    } else {
        desc.strides = denseStrides(desc.shape);
    }
    desc.storageShape.assign(arguments.storageDims, arguments.storageDims + arguments.storageDimsNum);
    desc.offset = arguments.offset;
    desc.dtype = arguments.dataType;
    desc.format = arguments.format;
    desc.data = arguments.data;
    return object;
}

// The tensor behind a handle; sets the error text and *status when there is none.
std::shared_ptr<TensorObject> open(const char *api, const aclTensor *tensor, int32_t *status) {
    if (tensor == nullptr) {
        *status = fail(api, ACLNN_ERR_PARAM_NULLPTR, "tensor is null");
        return nullptr;
    }
    auto object = sim::lookupAs<TensorObject>(tensor, Kind::Tensor);
    if (!object) *status = fail(api, ACLNN_ERR_PARAM_INVALID, sim::badHandle(tensor, Kind::Tensor));
    return object;
}

// Hands out a copy that the caller frees (delete[] in C++, which is free here).
aclnnStatus giveArray(const char *api, const std::vector<int64_t> &values, int64_t **out, uint64_t *count) {
    auto *copy = static_cast<int64_t *>(std::malloc(std::max<size_t>(values.size(), 1) * sizeof(int64_t)));
    if (copy == nullptr) return fail(api, ACLNN_ERR_INNER_NULLPTR, "the host has no memory left");
    std::copy(values.begin(), values.end(), copy);
    *out = copy;
    *count = values.size();
    return ACL_SUCCESS;
}

aclnnStatus getArray(const char *api, const aclTensor *tensor, std::vector<int64_t> sim::TensorDesc::*member,
                     int64_t **out, uint64_t *count) {
    int32_t status = 0;
    auto object = open(api, tensor, &status);
    if (!object) return status;
    if (out == nullptr || count == nullptr) return fail(api, ACLNN_ERR_PARAM_NULLPTR, "an output pointer is null");
    return giveArray(api, object->desc.*member, out, count);
}

template <typename T>
aclnnStatus getValue(const char *api, const aclTensor *tensor, T sim::TensorDesc::*member, T *out) {
    int32_t status = 0;
    auto object = open(api, tensor, &status);
    if (!object) return status;
    if (out == nullptr) return fail(api, ACLNN_ERR_PARAM_NULLPTR, "the output pointer is null");
    *out = object->desc.*member;
    return ACL_SUCCESS;
}

}  // namespace

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                           void *tensorData) {
    SIM_API;
    TensorArguments arguments{viewDims, viewDimsNum, dataType,       stride,    offset,
                              format,   storageDims, storageDimsNum, tensorData};
    if (checkArguments(__func__, arguments) != 0) return nullptr;
    auto tensor = makeTensor(arguments);
    void *handle = sim::makeHandle(Kind::Tensor, tensor, __func__);
    if (sim::strict()) sim::checker::checkView(*tensor);
    return static_cast<aclTensor *>(handle);
}

aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
                          uint64_t storageDimsNum, void *tensorDataAddr) {
    SIM_API;
    int32_t status = 0;
    if (!open(__func__, tensor, &status)) return status;
    TensorArguments arguments{viewDims, viewDimsNum, dataType,       stride,        offset,
                              format,   storageDims, storageDimsNum, tensorDataAddr};
    if ((status = checkArguments(__func__, arguments)) != 0) return status;
    auto renewed = makeTensor(arguments);
    sim::replaceObject(tensor, Kind::Tensor, renewed);
    if (sim::strict()) sim::checker::checkView(*renewed);
    return ACL_SUCCESS;
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor) {
    SIM_API;
    if (tensor == nullptr || sim::retire(tensor, Kind::Tensor, {__func__})) return ACL_SUCCESS;
    return fail(__func__, ACLNN_ERR_PARAM_INVALID, sim::badHandle(tensor, Kind::Tensor));
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum) {
    SIM_API;
    return getArray(__func__, tensor, &sim::TensorDesc::shape, viewDims, viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims, uint64_t *storageDimsNum) {
    SIM_API;
    return getArray(__func__, tensor, &sim::TensorDesc::storageShape, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum) {
    SIM_API;
    return getArray(__func__, tensor, &sim::TensorDesc::strides, stridesValue, stridesNum);
}

aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset) {
    SIM_API;
    return getValue(__func__, tensor, &sim::TensorDesc::offset, offset);
}

aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format) {
    SIM_API;
    const int32_t status = getValue(__func__, tensor, &sim::TensorDesc::format, format);
    if (status == 0 && !sim::isNamed(*format)) *format = ACL_FORMAT_UNDEFINED;  // as CANN's own library answers
    return status;
}

aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType) {
    SIM_API;
    const int32_t status = getValue(__func__, tensor, &sim::TensorDesc::dtype, dataType);
    if (status == 0 && !sim::isNamed(*dataType)) *dataType = ACL_DT_UNDEFINED;
    return status;
}

aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr) {
    SIM_API;
    return getValue(__func__, tensor, &sim::TensorDesc::data, addr);
}

aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr) {
    SIM_API;
    int32_t status = 0;
    auto object = open(__func__, tensor, &status);
    if (!object) return status;
    auto changed = std::make_shared<TensorObject>(*object);
    changed->desc.data = addr;
    sim::replaceObject(tensor, Kind::Tensor, changed);
    return ACL_SUCCESS;
}
