// How a rule is written down: require(condition, text...). The first broken rule ends the check.
#pragma once

#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "ops/fused_infer_attention.hpp"

namespace sim::fia {

constexpr int32_t paramNullptr = 161001;
constexpr int32_t paramInvalid = 161002;
constexpr int32_t runtimeError = 361001;
constexpr int32_t tilingError = 561002;
constexpr int32_t innerNullptr = 561103;

namespace text {

inline void put(std::ostringstream &out, const Shape &shape) {
    out << '[';
    for (size_t i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
    out << ']';
}
inline void put(std::ostringstream &out, aclDataType dtype) { out << dtypeName(dtype); }
inline void put(std::ostringstream &out, aclFormat format) { out << formatName(format); }
template <class Part>
void put(std::ostringstream &out, const Part &part) {
    out << part;
}

}  // namespace text

// Parts are put together only when the rule is broken: a call that passes pays for the comparisons alone.
template <class... Parts>
[[noreturn]] void refuse(int32_t status, const Parts &...parts) {
    std::ostringstream out;
    (text::put(out, parts), ...);
    throw Rejection{status, out.str()};
}

template <class... Parts>
void require(bool holds, const Parts &...parts) {
    if (!holds) refuse(tilingError, parts...);
}

// Topics whose rules do not build on one another. CANN ends at the first broken rule, and so does the status; the text
// goes on with the first broken rule of every later topic, so that a caller can mend them together.
template <class Call, class... Topics>
void checkTopics(Call &call, const Topics &...topics) {
    std::optional<Rejection> broken;
    auto check = [&](const auto &topic) {
        try {
            topic(call);
        } catch (const Rejection &rejection) {
            if (broken) {
                broken->text += "\n  also: " + rejection.text;
            } else {
                broken = rejection;
            }
        }
    };
    (check(topics), ...);
    if (broken) throw *broken;
}

template <class Value>
bool oneOf(const Value &value, std::initializer_list<std::common_type_t<Value>> allowed) {
    for (const auto &candidate : allowed) {
        if (value == candidate) return true;
    }
    return false;
}

inline bool oneOf(const std::string &value, std::initializer_list<const char *> allowed) {
    for (const char *candidate : allowed) {
        if (value == candidate) return true;
    }
    return false;
}

// The advice for prefix sums that begin with 0, as other operators want them: here that is one more, empty, sequence.
inline const char *emptyFirst(const MaybeArray &ends) {
    bool empty = ends && !ends->values.empty() && ends->values.front() == 0;
    return empty ? " (the first sequence of actualSeqLengthsOptional is empty; drop the leading 0)" : "";
}

}  // namespace sim::fia
