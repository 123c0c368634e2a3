// The checks that all operations of ATB share, and how their refusals are worded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "atb/operation.hpp"

namespace sim::atb {

// Dtypes that ATB gives a size to; of all others a tensor has size 0.
bool hasSize(aclDataType dtype);

// Number of tensors, ranks, sizes, and one column of the table for all of them; in ATB's order.
std::optional<Rejection> checkTensors(const Definition& definition, const Tensors& tensors);

std::string shapeText(const std::vector<int64_t>& shape);

// "name has shape [..]; " and then what it must have.
Rejection badShape(int32_t status, const Tensor& tensor, const std::string& wanted);

// The rank is one of those allowed, else 16.
std::optional<Rejection> checkRank(const Tensor& tensor, std::initializer_list<int64_t> allowed);

// One dimension has one of the sizes allowed, else 8.
std::optional<Rejection> checkDim(const Tensor& tensor, size_t index, std::initializer_list<int64_t> allowed,
                                  const std::string& meaning);

// The whole shape, else 8.
std::optional<Rejection> checkShape(const Tensor& tensor, const std::vector<int64_t>& wanted,
                                    const std::string& meaning);

// The values of a tensor of INT32 on the host; refused (1) when it has no address, or one of a device.
struct HostLengths {
    std::vector<int32_t> values;
    std::optional<Rejection> refusal;
};
HostLengths readLengths(const Tensor& tensor);

}  // namespace sim::atb
