// What the handles of aclnn's meta functions stand for. Objects never change once they are made: setting an address or
// re-initialising a tensor puts a new object behind the handle, so that whoever holds the old one keeps what it saw.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"
#include "core/handles.hpp"
#include "core/tensor.hpp"

namespace sim __attribute__((visibility("default"))) {

struct TensorObject : Object {
    TensorDesc desc;
    std::string text() const override;
};

struct TensorListObject : Object {
    std::vector<const aclTensor *> members;  // may hold nulls
    bool madeOfDead = false;                 // strict mode told of dead members when the list was made
    std::string text() const override;
};

struct ScalarObject : Object {
    aclDataType dtype = ACL_DT_UNDEFINED;
    std::array<uint8_t, 16> bytes{};
    std::string text() const override;
};

struct ScalarListObject : Object {
    std::vector<const aclScalar *> members;
    bool madeOfDead = false;
    std::string text() const override;
};

std::string arrayText(size_t count);

template <typename T>
struct ArrayObject : Object {
    std::vector<T> values;
    std::string text() const override { return arrayText(values.size()); }
};

using IntArrayObject = ArrayObject<int64_t>;
using FloatArrayObject = ArrayObject<float>;
using BoolArrayObject = ArrayObject<uint8_t>;

}  // namespace sim
