#include "core/strided.hpp"

#include <cstring>

namespace sim {
namespace {

// Calls row(offset of the row's first element, its place in row-major order) for every innermost row of the view.
template <typename Row>
void forEachRow(const TensorDesc &view, Row row) {
    const size_t outer = view.shape.empty() ? 0 : view.shape.size() - 1;
    const int64_t width = view.shape.empty() ? 1 : view.shape.back();
    std::vector<int64_t> index(outer, 0);
    int64_t offset = 0;
    for (int64_t place = 0, count = view.numel(); place < count; place += width) {
        row(offset, place);
        for (size_t axis = outer; axis-- > 0;) {
            offset += view.strides[axis];
            if (++index[axis] < view.shape[axis]) break;
            offset -= view.strides[axis] * view.shape[axis];
            index[axis] = 0;
        }
    }
}

uint8_t nibble(const uint8_t *bytes, int64_t index) { return bytes[index / 2] >> (index % 2 * 4) & 0xF; }

void setNibble(uint8_t *bytes, int64_t index, uint8_t value) {
    int shift = index % 2 * 4;
    bytes[index / 2] = static_cast<uint8_t>((bytes[index / 2] & ~(0xF << shift)) | value << shift);
}

struct Row {
    int64_t width;
    int64_t stride;
};

Row innermost(const TensorDesc &view) {
    return view.shape.empty() ? Row{1, 1} : Row{view.shape.back(), view.strides.back()};
}

}  // namespace

void gather(const TensorDesc &view, const void *base, void *dense) {
    const auto *from = static_cast<const uint8_t *>(base);
    auto *to = static_cast<uint8_t *>(dense);
    const auto [width, stride] = innermost(view);
    if (elementBits(view.dtype) == 4) {
        forEachRow(view, [&, width = width, stride = stride](int64_t offset, int64_t place) {
            for (int64_t i = 0; i < width; ++i) setNibble(to, place + i, nibble(from, offset + i * stride));
        });
        return;
    }
    const int64_t bytes = elementBits(view.dtype) / 8;
    forEachRow(view, [&, width = width, stride = stride](int64_t offset, int64_t place) {
        if (stride == 1) {
            std::memcpy(to + place * bytes, from + offset * bytes, static_cast<size_t>(width * bytes));
            return;
        }
        for (int64_t i = 0; i < width; ++i) {
            std::memcpy(to + (place + i) * bytes, from + (offset + i * stride) * bytes, static_cast<size_t>(bytes));
        }
    });
}

void scatter(const TensorDesc &view, const void *dense, void *base) {
    const auto *from = static_cast<const uint8_t *>(dense);
    auto *to = static_cast<uint8_t *>(base);
    const auto [width, stride] = innermost(view);
    if (elementBits(view.dtype) == 4) {
        forEachRow(view, [&, width = width, stride = stride](int64_t offset, int64_t place) {
            for (int64_t i = 0; i < width; ++i) setNibble(to, offset + i * stride, nibble(from, place + i));
        });
        return;
    }
    const int64_t bytes = elementBits(view.dtype) / 8;
    forEachRow(view, [&, width = width, stride = stride](int64_t offset, int64_t place) {
        for (int64_t i = 0; i < width; ++i) {
            std::memcpy(to + (offset + i * stride) * bytes, from + (place + i) * bytes, static_cast<size_t>(bytes));
        }
    });
}

}  // namespace sim
