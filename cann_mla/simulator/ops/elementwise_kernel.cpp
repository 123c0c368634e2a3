// The result is walked in pieces of its innermost run: both operands of a piece are brought to one dtype, multiplied or
// divided there, rounded to the dtype of the result and then to that of `out`. 16-bit floats are computed in FLOAT,
// which holds the product of two of them exactly. Integer products wrap.
#include <algorithm>
#include <type_traits>

#include "numeric/parallel.hpp"
#include "ops/cast.hpp"
#include "ops/elementwise.hpp"

namespace sim::elementwise {

namespace {

constexpr int64_t longestPiece = 1 << 14;
constexpr int64_t stretch = 1 << 16;  // elements that one thread takes at a time

// An axis of the result and how far each operand goes with it, in elements: 0 where it is repeated.
struct Axis {
    int64_t size, self, other;
};

int64_t sizeAt(const std::vector<int64_t> &shape, size_t fromLast) {
    return fromLast < shape.size() ? shape[shape.size() - 1 - fromLast] : 1;
}

// Innermost first; axes along which both operands go on as before are joined.
std::vector<Axis> axesOf(const Task &t) {
    std::vector<Axis> axes;
    int64_t self = 1, other = 1;
    for (size_t i = 0; i < t.shape.size(); ++i) {
        int64_t size = sizeAt(t.shape, i), selfSize = sizeAt(t.selfShape, i), otherSize = sizeAt(t.otherShape, i);
        Axis axis{size, selfSize == 1 ? 0 : self, otherSize == 1 ? 0 : other};
        self *= selfSize;
        other *= otherSize;
        if (size == 1) continue;
        bool joins = !axes.empty() && axis.self == axes.back().self * axes.back().size &&
                     axis.other == axes.back().other * axes.back().size;
        if (joins) {
            axes.back().size *= size;
        } else {
            axes.push_back(axis);
        }
    }
    if (axes.empty()) axes.push_back({1, 1, 1});
    return axes;
}

aclDataType carrierOf(aclDataType dtype) {
    return dtype == ACL_FLOAT16 || dtype == ACL_BF16 ? ACL_FLOAT : dtype;
}

// Room for the elements of one piece, reused by the thread.
struct Buffers {
    std::vector<uint8_t> self, other, narrow, result;
};

const void *skip(const void *base, aclDataType dtype, int64_t elements) {
    return static_cast<const uint8_t *>(base) + packedBytes(elements, dtype);
}

void *roomFor(std::vector<uint8_t> &buffer, aclDataType dtype, int64_t count) {
    buffer.resize(static_cast<size_t>(packedBytes(count, dtype)));
    return buffer.data();
}

// `count` elements as the carrier of `inner`; without a copy where they have it already.
const void *bring(const void *source, aclDataType from, aclDataType inner, int64_t count, Buffers &buffers,
                  std::vector<uint8_t> &into) {
    if (from != inner) {
        bool last = carrierOf(inner) == inner;
        void *room = roomFor(last ? into : buffers.narrow, inner, count);
        cast::convert(from, inner, source, room, count);
        source = room;
    }
    if (carrierOf(inner) == inner) return source;
    void *wide = roomFor(into, carrierOf(inner), count);
    cast::convert(inner, carrierOf(inner), source, wide, count);
    return wide;
}

template <typename T>
struct Multiply {
    T operator()(T a, T b) const {
        if constexpr (std::is_integral_v<T>) {
            using Wide = std::make_unsigned_t<std::common_type_t<T, int>>;
            return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
        } else {
            return a * b;
        }
    }
};

template <typename T>
struct Divide {
    T operator()(T a, T b) const { return a / b; }
};

// Loops that the compiler sees the steps of, and makes vectors of.
template <typename T, typename Operator>
void combine(const T *a, bool aRepeats, const T *b, bool bRepeats, T *out, int64_t count, Operator operate) {
    if (aRepeats && bRepeats) {
        std::fill(out, out + count, operate(*a, *b));
    } else if (aRepeats) {
        const T value = *a;
        for (int64_t i = 0; i < count; ++i) out[i] = operate(value, b[i]);
    } else if (bRepeats) {
        const T value = *b;
        for (int64_t i = 0; i < count; ++i) out[i] = operate(a[i], value);
    } else {
        for (int64_t i = 0; i < count; ++i) out[i] = operate(a[i], b[i]);
    }
}

template <typename T>
void operate(Operation operation, const void *a, bool aRepeats, const void *b, bool bRepeats, void *out,
             int64_t count) {
    const auto *left = static_cast<const T *>(a), *right = static_cast<const T *>(b);
    auto *result = static_cast<T *>(out);
    if (operation == Operation::Multiply) return combine(left, aRepeats, right, bRepeats, result, count, Multiply<T>{});
    if constexpr (std::is_floating_point_v<T>) {
        return combine(left, aRepeats, right, bRepeats, result, count, Divide<T>{});
    }
}

void operateAs(aclDataType carrier, Operation operation, const void *a, bool aRepeats, const void *b, bool bRepeats,
               void *out, int64_t count) {
    switch (carrier) {
        case ACL_FLOAT: return operate<float>(operation, a, aRepeats, b, bRepeats, out, count);
        case ACL_DOUBLE: return operate<double>(operation, a, aRepeats, b, bRepeats, out, count);
        case ACL_INT8: return operate<int8_t>(operation, a, aRepeats, b, bRepeats, out, count);
        case ACL_BOOL:  // 0 and 1, whose product is "and"
        case ACL_UINT8: return operate<uint8_t>(operation, a, aRepeats, b, bRepeats, out, count);
        case ACL_INT16: return operate<int16_t>(operation, a, aRepeats, b, bRepeats, out, count);
        case ACL_INT32: return operate<int32_t>(operation, a, aRepeats, b, bRepeats, out, count);
        case ACL_INT64: return operate<int64_t>(operation, a, aRepeats, b, bRepeats, out, count);
        default: primitive::failWithoutKernel(std::string("operands that are computed in ") + dtypeName(carrier));
    }
}

struct Piece {
    int64_t self, other, out, count;  // where its elements begin
    bool selfRepeats, otherRepeats;
};

void compute(const Task &t, const Piece &piece, const void *self, const void *other, void *out) {
    thread_local Buffers buffers;
    aclDataType carrier = carrierOf(t.inner);
    const void *a = bring(skip(self, t.self, piece.self), t.self, t.inner, piece.selfRepeats ? 1 : piece.count, buffers,
                          buffers.self);
    const void *b = bring(skip(other, t.other, piece.other), t.other, t.inner, piece.otherRepeats ? 1 : piece.count,
                          buffers, buffers.other);
    auto *target = const_cast<void *>(skip(out, t.out, piece.out));
    bool direct = carrier == t.out && carrierOf(t.result) == t.result;
    void *computed = direct ? target : roomFor(buffers.result, carrier, piece.count);
    operateAs(carrier, t.operation, a, piece.selfRepeats, b, piece.otherRepeats, computed, piece.count);
    if (direct) return;
    if (carrier != t.result && t.result != t.out) {  // rounded twice
        void *narrow = roomFor(buffers.narrow, t.result, piece.count);
        cast::convert(carrier, t.result, computed, narrow, piece.count);
        return cast::convert(t.result, t.out, narrow, target, piece.count);
    }
    cast::convert(carrier, t.out, computed, target, piece.count);
}

}  // namespace

void run(const Task &t, const void *self, const void *other, void *out) {
    std::vector<Axis> axes = axesOf(t);
    Axis inner = axes.front();
    int64_t piecesInRun = (inner.size + longestPiece - 1) / longestPiece, pieces = piecesInRun;
    for (size_t i = 1; i < axes.size(); ++i) pieces *= axes[i].size;
    int64_t together = std::max<int64_t>(1, stretch / std::min(inner.size, longestPiece));
    auto place = [&](int64_t index) {
        int64_t at = index % piecesInRun * longestPiece, row = index / piecesInRun;
        Piece piece{at * inner.self, at * inner.other, row * inner.size + at, std::min(longestPiece, inner.size - at),
                    inner.self == 0, inner.other == 0};
        for (size_t i = 1; i < axes.size(); ++i) {
            piece.self += row % axes[i].size * axes[i].self;
            piece.other += row % axes[i].size * axes[i].other;
            row /= axes[i].size;
        }
        return piece;
    };
    numeric::parallelFor(static_cast<size_t>((pieces + together - 1) / together), [&](size_t group) {
        int64_t first = static_cast<int64_t>(group) * together;
        for (int64_t i = first; i < std::min(first + together, pieces); ++i) {
            compute(t, place(i), self, other, out);
        }
    });
}

}  // namespace sim::elementwise
