// Words that the refusals of MlaProlog share.
#pragma once

#include "core/error.hpp"
#include "core/tensor.hpp"

#include <initializer_list>
#include <string>
#include <vector>

namespace sim::mla_prolog {

constexpr int32_t kOpApiFailed = -1;       // what op_api returns, whatever the documentation promises
constexpr int32_t kNullPointer = 161001;
constexpr int32_t kInvalidParameter = 161002;
constexpr int32_t kWrongProduct = 361001;
constexpr int32_t kTilingFailed = 561002;

using Shape = std::vector<int64_t>;

inline std::string text(const Shape &shape) {
    std::string joined;
    for (int64_t dim : shape) joined += (joined.empty() ? "" : ", ") + std::to_string(dim);
    return "[" + joined + "]";
}

template <typename T>
std::string oneOf(std::initializer_list<T> values) {
    std::string joined;
    for (T value : values) joined += (joined.empty() ? "" : ", ") + std::to_string(value);
    return joined;
}

// "name is found, must be allowed"
inline std::string mustBe(const std::string &name, const std::string &found, const std::string &allowed) {
    return name + " is " + found + ", must be " + allowed;
}

}  // namespace sim::mla_prolog
