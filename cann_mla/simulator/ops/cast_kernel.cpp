// Narrower floats round to nearest even; floats become integers by dropping the fraction, saturated, NaN as 0; integers
// wrap into narrower ones. 16 and 8-bit floats travel as FLOAT.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "numeric/convert.hpp"
#include "numeric/parallel.hpp"
#include "ops/cast.hpp"

namespace sim::cast {

namespace {

constexpr int64_t stretch = 1 << 16;  // elements that one thread converts at a time

struct Bool {
    uint8_t value;
};

template <typename To, typename From>
To convertOne(From value) {
    if constexpr (std::is_same_v<From, Bool>) {
        return convertOne<To>(static_cast<uint8_t>(value.value != 0));
    } else if constexpr (std::is_same_v<To, Bool>) {
        return Bool{static_cast<uint8_t>(value != From{0})};
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        if (!(value == value)) return To{0};
        // The limits as floats may lie one past the last integer, so compare before converting.
        if (value >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
        if (value <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
        return static_cast<To>(value);
    } else {
        return static_cast<To>(value);
    }
}

bool isCarriedAsFloat(aclDataType dtype) {
    return primitive::isOneOf(dtype, {ACL_FLOAT16, ACL_BF16, ACL_HIFLOAT8, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E5M2});
}

void decode(aclDataType dtype, const void *source, int64_t at, int64_t count, float *out) {
    const auto *bytes = static_cast<const uint8_t *>(source) + at;
    auto n = static_cast<size_t>(count);
    switch (dtype) {
        case ACL_HIFLOAT8: return numeric::hifloat8ToFloat(bytes, out, n);
        case ACL_FLOAT8_E4M3FN: return numeric::e4m3ToFloat(bytes, out, n);
        case ACL_FLOAT8_E5M2: return numeric::e5m2ToFloat(bytes, out, n);
        default: return primitive::loadFloats(dtype, source, at, count, out);
    }
}

void encode(aclDataType dtype, const float *values, int64_t count, void *out, int64_t at) {
    auto *bytes = static_cast<uint8_t *>(out) + at;
    auto n = static_cast<size_t>(count);
    switch (dtype) {
        case ACL_HIFLOAT8: return numeric::floatToHifloat8(values, bytes, n);
        case ACL_FLOAT8_E4M3FN: return numeric::floatToE4m3(values, bytes, n);
        case ACL_FLOAT8_E5M2:
            for (size_t i = 0; i < n; ++i) bytes[i] = numeric::floatToE5m2(values[i]);
            return;
        default: return primitive::storeFloats(dtype, values, count, out, at);
    }
}

// Calls visit with a value of the C++ type that carries elements of `dtype`.
template <typename Visit>
void withCarrier(aclDataType dtype, const Visit &visit) {
    if (isCarriedAsFloat(dtype)) return visit(float{});
    switch (dtype) {
        case ACL_FLOAT: return visit(float{});
        case ACL_DOUBLE: return visit(double{});
        case ACL_INT8: return visit(int8_t{});
        case ACL_UINT8: return visit(uint8_t{});
        case ACL_INT16: return visit(int16_t{});
        case ACL_UINT16: return visit(uint16_t{});
        case ACL_INT32: return visit(int32_t{});
        case ACL_UINT32: return visit(uint32_t{});
        case ACL_INT64: return visit(int64_t{});
        case ACL_UINT64: return visit(uint64_t{});
        case ACL_BOOL: return visit(Bool{});
        default: primitive::failWithoutKernel(std::string("a cast from or to ") + dtypeName(dtype));
    }
}

template <typename To, typename From>
void convertEach(const From *source, To *destination, int64_t count) {
    for (int64_t i = 0; i < count; ++i) destination[i] = convertOne<To>(source[i]);
}

// Elements [at, at + count).
void convertStretch(aclDataType from, aclDataType to, const void *source, void *destination, int64_t at,
                    int64_t count) {
    withCarrier(from, [&](auto sourceCarrier) {
        using From = decltype(sourceCarrier);
        withCarrier(to, [&](auto resultCarrier) {
            using To = decltype(resultCarrier);
            std::vector<From> decoded;
            std::vector<To> result;
            const From *values = static_cast<const From *>(source) + at;
            if constexpr (std::is_same_v<From, float>) {
                if (isCarriedAsFloat(from)) {
                    decoded.resize(static_cast<size_t>(count));
                    decode(from, source, at, count, decoded.data());
                    values = decoded.data();
                }
            }
            if (!isCarriedAsFloat(to)) return convertEach(values, static_cast<To *>(destination) + at, count);
            if constexpr (std::is_same_v<To, float>) {
                result.resize(static_cast<size_t>(count));
                convertEach(values, result.data(), count);
                encode(to, result.data(), count, destination, at);
            }
        });
    });
}

}  // namespace

void convert(aclDataType from, aclDataType to, const void *source, void *destination, int64_t count) {
    if (from != to) return convertStretch(from, to, source, destination, 0, count);
    std::memcpy(destination, source, static_cast<size_t>(packedBytes(count, to)));
}

Kernel makeKernel(const Params &p) {
    aclDataType from = p.self->dtype, to = p.dtype;
    int64_t count = p.self->numel();
    bool blocked = primitive::isNz(*p.out);
    return [=](const Launch &launch) {
        if (blocked) primitive::failWithoutKernel("a result in FRACTAL_NZ");
        const void *self = launch.in("self");
        void *out = launch.out("out");
        if (from == to) return convert(from, to, self, out, count);
        numeric::parallelFor(static_cast<size_t>((count + stretch - 1) / stretch), [&](size_t index) {
            int64_t at = static_cast<int64_t>(index) * stretch;
            convertStretch(from, to, self, out, at, std::min(stretch, count - at));
        });
    };
}

}  // namespace sim::cast
