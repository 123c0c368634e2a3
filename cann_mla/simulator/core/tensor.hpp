// What a tensor is to the simulator: the description behind an aclTensor handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acl/acl_base.h"

namespace sim __attribute__((visibility("default"))) {

// Bits one element occupies in memory (4 for INT4 and FP4, 6 for FP6). 0 for STRING and unknown codes.
int64_t elementBits(aclDataType dtype);

// Bytes that `count` densely packed elements occupy; 4-bit types pack two a byte.
int64_t packedBytes(int64_t count, aclDataType dtype);

// "BF16", "INT8", ...: the names that error texts use. "dtype 77" for unknown codes.
const char *dtypeName(aclDataType dtype);

// The code is one of the enumerators that the headers name.
bool isNamed(aclDataType dtype);
bool isNamed(aclFormat format);

// "ND", "FRACTAL_NZ", ...
const char *formatName(aclFormat format);

// Formats whose memory order the strides do not describe (blocked layouts); always taken as dense.
bool isPrivateFormat(aclFormat format);

struct TensorDesc {
    std::vector<int64_t> shape;         // view shape
    std::vector<int64_t> strides;       // in elements, one for each view dimension
    std::vector<int64_t> storageShape;
    int64_t offset = 0;                 // in elements, from `data`
    aclDataType dtype = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    void *data = nullptr;               // device address (host address for host operands); never dereference it here

    int64_t rank() const { return static_cast<int64_t>(shape.size()); }
    int64_t dim(size_t index) const { return shape[index]; }
    // Elements of the view; 1 for rank 0. Saturates at INT64_MAX.
    int64_t numel() const;
    // Elements of the storage shape; 1 for an empty storage shape. Saturates at INT64_MAX.
    int64_t storageNumel() const;
    bool isEmpty() const { return numel() == 0; }
    // Row-major strides, as CANN judges them: dimensions of size 1 count as dense whatever their stride, and so does
    // a view of at most one element.
    bool isDense() const;
    // Every element of the view lies inside the storage, and no stride is negative.
    bool staysInStorage() const;
    // Bytes from the first to the last byte that a kernel touches, counted from `data + offset`.
    int64_t extentBytes() const;
};

}  // namespace sim
