// C++ members that CANN's libnnopbase.so exports besides its C functions. Programs that are compiled against CANN's own
// opdev headers leave them to the linker: samples keep their host data in op::fp16_t, tests ask an aclTensor for its
// shape. The headers of this project have the former inline and keep aclTensor opaque.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "core/objects.hpp"
#include "numeric/convert.hpp"

#define EXPORTED __attribute__((visibility("default")))

namespace op {

struct EXPORTED tagFp16 {  // op::fp16_t
    uint16_t val;
    tagFp16 &operator=(const float &value);
    tagFp16 &operator=(const double &value);
    tagFp16 &operator=(const int32_t &value);
    operator float() const;
};

tagFp16 &tagFp16::operator=(const float &value) {
    val = sim::numeric::floatToFp16(value);
    return *this;
}

tagFp16 &tagFp16::operator=(const double &value) { return *this = static_cast<float>(value); }

tagFp16 &tagFp16::operator=(const int32_t &value) { return *this = static_cast<float>(value); }

tagFp16::operator float() const { return sim::numeric::fp16ToFloat(val); }

}  // namespace op

namespace {

// The layout of gert::Shape, which op::Shape is.
struct Shape {
    size_t rank;
    int64_t dims[25];
    uint8_t reserved[40];
};

}  // namespace

// const op::Shape &aclTensor::GetViewShape() const. What it returns lives until the thread asks again.
extern "C" EXPORTED const Shape *viewShape(const aclTensor *tensor) __asm__("_ZNK9aclTensor12GetViewShapeEv");

const Shape *viewShape(const aclTensor *tensor) {
    thread_local Shape shape;
    shape = {};
    if (auto object = sim::lookupAs<sim::TensorObject>(tensor, sim::Kind::Tensor)) {
        const std::vector<int64_t> &dims = object->desc.shape;
        shape.rank = std::min(dims.size(), std::size(shape.dims));
        std::copy_n(dims.begin(), shape.rank, shape.dims);
    }
    return &shape;
}
