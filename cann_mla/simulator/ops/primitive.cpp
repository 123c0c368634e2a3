#include "ops/primitive.hpp"

#include <algorithm>
#include <cstring>

#include "numeric/convert.hpp"

namespace sim::primitive {

namespace {

constexpr int32_t notSupported = 207000;  // ACL_ERROR_RT_FEATURE_NOT_SUPPORT

std::string list(std::initializer_list<aclDataType> dtypes) {
    std::string text;
    for (aclDataType dtype : dtypes) text += (text.empty() ? "" : ", ") + std::string(dtypeName(dtype));
    return text;
}

}  // namespace

std::string print(const std::vector<int64_t> &values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
    return text + "]";
}

void refuse(int32_t status, const std::string &text) { throw Rejection{status, text}; }

bool isNz(const TensorDesc &desc) { return desc.format == ACL_FORMAT_FRACTAL_NZ; }

bool isOneOf(aclDataType dtype, std::initializer_list<aclDataType> allowed) {
    return std::find(allowed.begin(), allowed.end(), dtype) != allowed.end();
}

void requirePresent(int32_t status, std::initializer_list<Named> operands) {
    for (const Named &operand : operands) {
        if (!operand.desc) refuse(status, std::string(operand.name) + " is null; it is required");
    }
}

void requirePointers(const PhaseOne &call) {
    if (call.workspaceSizeIsNull()) refuse(paramNullptr, "workspaceSize is null; give the address of an integer");
    if (call.executorIsNull()) refuse(paramNullptr, "executor is null; give the address of one");
}

void requireDtype(int32_t status, const Named &operand, std::initializer_list<aclDataType> allowed) {
    if (isOneOf(operand.desc->dtype, allowed)) return;
    refuse(status, std::string(operand.name) + " has dtype " + dtypeName(operand.desc->dtype) +
                       "; allowed: " + list(allowed));
}

void requireSameDtype(int32_t status, const Named &operand, const Named &as) {
    if (operand.desc->dtype == as.desc->dtype) return;
    refuse(status, std::string(operand.name) + " has dtype " + dtypeName(operand.desc->dtype) + "; that of " + as.name +
                       " is " + dtypeName(as.desc->dtype) + ", and they must be equal");
}

void requireRank(int32_t status, const Named &operand, int64_t low, int64_t high) {
    int64_t rank = operand.desc->rank();
    if (low <= rank && rank <= high) return;
    std::string allowed = low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
    refuse(status, std::string(operand.name) + " has shape " + print(operand.desc->shape) + "; it must have " +
                       allowed + " dimensions");
}

void requireShape(int32_t status, const Named &operand, const std::vector<int64_t> &wanted, const std::string &why) {
    if (operand.desc->shape == wanted) return;
    refuse(status, std::string(operand.name) + " has shape " + print(operand.desc->shape) + "; it must be " +
                       print(wanted) + ": " + why);
}

void requireNd(int32_t status, const Named &operand) {
    if (!isNz(*operand.desc)) return;
    refuse(status, std::string(operand.name) + " has format FRACTAL_NZ; allowed: ND");
}

void failWithoutKernel(const std::string &text) {
    throw KernelFault(notSupported, text + ": CANN takes this, the simulator has no kernel for it");
}

void loadFloats(aclDataType dtype, const void *source, int64_t offset, int64_t count, float *out) {
    auto n = static_cast<size_t>(count);
    switch (dtype) {
        case ACL_FLOAT: std::memcpy(out, static_cast<const float *>(source) + offset, n * sizeof(float)); return;
        case ACL_FLOAT16: return numeric::fp16ToFloat(static_cast<const uint16_t *>(source) + offset, out, n);
        case ACL_BF16: return numeric::bf16ToFloat(static_cast<const uint16_t *>(source) + offset, out, n);
        default: failWithoutKernel(std::string("an operand of dtype ") + dtypeName(dtype));
    }
}

void storeFloats(aclDataType dtype, const float *values, int64_t count, void *destination, int64_t offset) {
    auto n = static_cast<size_t>(count);
    switch (dtype) {
        case ACL_FLOAT: std::memcpy(static_cast<float *>(destination) + offset, values, n * sizeof(float)); return;
        case ACL_FLOAT16: return numeric::floatToFp16(values, static_cast<uint16_t *>(destination) + offset, n);
        case ACL_BF16: return numeric::floatToBf16(values, static_cast<uint16_t *>(destination) + offset, n);
        default: failWithoutKernel(std::string("a result of dtype ") + dtypeName(dtype));
    }
}

int64_t broadcastIndex(int64_t index, const std::vector<int64_t> &batch, const std::vector<int64_t> &own) {
    int64_t found = 0, step = 1;
    for (size_t i = 0; i < own.size(); ++i) {
        int64_t size = batch[batch.size() - 1 - i], ownSize = own[own.size() - 1 - i];
        if (ownSize != 1) found += index % size * step;
        step *= ownSize;
        index /= size;
    }
    return found;
}

}  // namespace sim::primitive
