// y = x * scale (* scale) + offset in FLOAT, made an integer by the rounding mode and saturated; NaN becomes 0.
#include <algorithm>
#include <cmath>

#include "numeric/convert.hpp"
#include "numeric/parallel.hpp"
#include "ops/ascend_quant.hpp"
#include "ops/cast.hpp"

namespace sim::ascend_quant {

namespace {

struct Task {
    aclDataType x, scale, offset, y;
    int64_t rows, length;  // x by its last axis
    int64_t scales;        // 1: for all
    bool alongRows;        // a scale for each row, those of the last axis but one; otherwise for each column
    bool hasOffset, squared;
    std::string roundMode;
};

// The scale goes through the dtype of x.
std::vector<float> loaded(const Task &t, aclDataType dtype, const void *source) {
    std::vector<float> values(static_cast<size_t>(t.scales)), narrow(values.size());
    cast::convert(dtype, t.x, source, narrow.data(), t.scales);
    primitive::loadFloats(t.x, narrow.data(), 0, t.scales, values.data());
    return values;
}

void roundAll(const std::string &mode, std::vector<float> &values) {
    if (mode == "round") {
        for (float &value : values) value = std::nearbyint(value);
    } else if (mode == "floor") {
        for (float &value : values) value = std::floor(value);
    } else if (mode == "ceil") {
        for (float &value : values) value = std::ceil(value);
    } else {
        for (float &value : values) value = std::trunc(value);
    }
}

uint8_t nibble(float value) {
    return value == value ? static_cast<uint8_t>(static_cast<int>(std::clamp(value, -8.0F, 7.0F)) & 0x0F) : uint8_t{0};
}

// Elements [at, at + values.size()) of y.
void store(const Task &t, std::vector<float> &values, void *y, int64_t at) {
    auto *bytes = static_cast<uint8_t *>(y);
    auto count = static_cast<int64_t>(values.size());
    if (primitive::isOneOf(t.y, {ACL_HIFLOAT8, ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN})) {
        return cast::convert(ACL_FLOAT, t.y, values.data(), bytes + at, count);
    }
    roundAll(t.roundMode, values);
    if (t.y == ACL_INT8) {
        return numeric::floatToInt8(values.data(), reinterpret_cast<int8_t *>(bytes + at), values.size());
    }
    for (size_t i = 0; i + 1 < values.size(); i += 2) {  // INT4, also eight in an INT32
        bytes[(static_cast<size_t>(at) + i) / 2] =
            static_cast<uint8_t>(nibble(values[i]) | nibble(values[i + 1]) << 4U);
    }
}

void run(const Task &t, const Launch &launch) {
    const void *x = launch.in("x");
    void *y = launch.out("y");
    std::vector<float> scale = loaded(t, t.scale, launch.in("scale")), offset;
    if (t.hasOffset) offset = loaded(t, t.offset, launch.in("offset"));
    numeric::parallelFor(static_cast<size_t>(t.rows), [&](size_t row) {
        thread_local std::vector<float> values;
        values.resize(static_cast<size_t>(t.length));
        int64_t at = static_cast<int64_t>(row) * t.length;
        primitive::loadFloats(t.x, x, at, t.length, values.data());
        auto scales = static_cast<size_t>(t.scales);
        size_t first = t.alongRows ? row % scales : 0, step = t.alongRows || scales == 1 ? 0 : 1;
        for (size_t i = 0; i < values.size(); ++i) {
            float factor = scale[first + i * step];
            values[i] = t.squared ? values[i] * factor * factor : values[i] * factor;
        }
        for (size_t i = 0; t.hasOffset && i < values.size(); ++i) values[i] += offset[first + i * step];
        store(t, values, y, at);
    });
}

}  // namespace

Kernel makeKernel(const Params &p) {
    int64_t rank = p.x->rank(), length = rank == 0 ? 1 : p.x->shape.back();
    int64_t axis = p.axis < 0 ? p.axis + rank : p.axis;
    Task task{p.x->dtype, p.scale->dtype, p.offset ? p.offset->dtype : ACL_FLOAT, p.y->dtype, p.x->numel() / length,
              length, p.scale->numel(), rank > 1 && axis == rank - 2, p.offset != nullptr, p.sqrtMode, p.roundMode};
    bool blocked = primitive::isNz(*p.x) || primitive::isNz(*p.y);
    return [task, blocked](const Launch &launch) {
        if (blocked) primitive::failWithoutKernel("x or y in FRACTAL_NZ");
        if (task.roundMode == "hybrid") primitive::failWithoutKernel("roundMode hybrid");
        if (task.scales == 0) primitive::failWithoutKernel("an empty scale");
        run(task, launch);
    };
}

}  // namespace sim::ascend_quant
