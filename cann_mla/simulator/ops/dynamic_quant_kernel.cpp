// Rows are quantised in FLOAT, symmetric ones as Ascend950 does: divided by the scale. A2 and A3 have several kernels
// that multiply by a reciprocal instead, chosen by the tiling; their integers differ by one at most, their scales by a
// unit in the last place.
#include <algorithm>
#include <cmath>

#include "numeric/convert.hpp"
#include "numeric/parallel.hpp"
#include "ops/dynamic_quant.hpp"

namespace sim::dynamic_quant {

namespace {

constexpr float smallestAsymmetricScale = 1e-12F;

float largestOf(aclDataType dtype) {
    switch (dtype) {
        case ACL_INT8: return 127.0F;
        case ACL_HIFLOAT8: return 32768.0F;
        case ACL_FLOAT8_E5M2: return 57344.0F;
        case ACL_FLOAT8_E4M3FN: return 448.0F;
        default: return 7.0F;  // INT4, also eight in an INT32
    }
}

bool isInteger(aclDataType dtype) { return dtype == ACL_INT8 || dtype == ACL_INT4 || dtype == ACL_INT32; }

struct Row {
    float scale, offset;
};

// values becomes what the result's dtype has to hold.
Row quantiseSymmetric(std::vector<float> &values, float largest) {
    float most = 0;
    for (float value : values) most = std::max(most, std::fabs(value));
    float scale = most * (1.0F / largest);
    if (most == 0) return {0.0F, 0.0F};  // a row of zeros stays one
    for (float &value : values) value /= scale;
    return {scale, 0.0F};
}

Row quantiseAsymmetric(std::vector<float> &values, bool divides, float largest) {
    auto [low, high] = std::minmax_element(values.begin(), values.end());
    float most = *high, range = most - *low, steps = 2 * largest + 1;
    float scale = divides ? range * (1.0F / steps) : std::max(range / steps, smallestAsymmetricScale);
    float offset = largest - most / scale, factor = 1.0F / scale;
    for (float &value : values) value = (divides ? value / scale : value * factor) + offset;
    return {scale, offset};
}

uint8_t nibble(float value) {
    float whole = std::nearbyint(value);
    if (!(whole == whole)) return 0;
    return static_cast<uint8_t>(static_cast<int8_t>(std::clamp(whole, -8.0F, 7.0F))) & 0x0FU;
}

void store(aclDataType dtype, const std::vector<float> &values, void *y, int64_t at) {
    auto *bytes = static_cast<uint8_t *>(y);
    if (dtype == ACL_INT4 || dtype == ACL_INT32) {
        bytes += at / 2;
        for (size_t i = 0; i + 1 < values.size(); i += 2) {
            bytes[i / 2] = static_cast<uint8_t>(nibble(values[i]) | nibble(values[i + 1]) << 4U);
        }
        return;
    }
    bytes += at;
    for (size_t i = 0; i < values.size(); ++i) {
        switch (dtype) {
            case ACL_INT8: bytes[i] = static_cast<uint8_t>(numeric::floatToInt8(values[i])); break;
            case ACL_HIFLOAT8: bytes[i] = numeric::floatToHifloat8(values[i]); break;
            case ACL_FLOAT8_E5M2: bytes[i] = numeric::floatToE5m2(values[i]); break;
            default: bytes[i] = numeric::floatToE4m3(values[i]);
        }
    }
}

struct Task {
    aclDataType dtype, yDtype;
    int64_t rows, length, groups;
    bool smooth, asymmetric, divides;
};

// The group of each row, from the rows where the groups end; -1 past the last one.
std::vector<int64_t> groupOfRows(const int32_t *ends, int64_t groups, int64_t rows) {
    std::vector<int64_t> of(static_cast<size_t>(rows), -1);
    int64_t row = 0;
    for (int64_t group = 0; group < groups; ++group) {
        for (; row < std::min<int64_t>(ends[group], rows); ++row) of[static_cast<size_t>(row)] = group;
    }
    return of;
}

void run(const Task &t, const Launch &launch) {
    const void *x = launch.in("x"), *smooth = t.smooth ? launch.in("smoothScalesOptional") : nullptr;
    void *y = launch.out("yOut");
    auto *scale = launch.out<float>("scaleOut");
    float *offset = t.asymmetric ? launch.out<float>("offsetOut") : nullptr;
    std::vector<int64_t> groupOf;
    if (t.groups > 0) groupOf = groupOfRows(launch.in<int32_t>("groupIndexOptional"), t.groups, t.rows);
    float largest = largestOf(t.yDtype);
    numeric::parallelFor(static_cast<size_t>(t.rows), [&](size_t row) {
        int64_t group = groupOf.empty() ? 0 : groupOf[row];
        if (group < 0) return;  // rows past the last group are not written
        thread_local std::vector<float> values, factors;
        values.resize(static_cast<size_t>(t.length));
        int64_t at = static_cast<int64_t>(row) * t.length;
        primitive::loadFloats(t.dtype, x, at, t.length, values.data());
        if (smooth) {
            factors.resize(values.size());
            primitive::loadFloats(t.dtype, smooth, group * t.length, t.length, factors.data());
            for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
        }
        Row result = t.asymmetric ? quantiseAsymmetric(values, t.divides, largest)
                                  : quantiseSymmetric(values, largest);
        store(t.yDtype, values, y, at);
        scale[row] = result.scale;
        if (offset) offset[row] = result.offset;
    });
}

}  // namespace

Kernel makeKernel(const Params &p) {
    int64_t length = p.x->shape.back();
    Task task{p.x->dtype,
              p.y->dtype,
              p.x->numel() / length,
              length,
              p.smooth && p.groupIndex ? p.groupIndex->numel() : 0,
              p.smooth != nullptr,
              p.offset != nullptr,
              primitive::isA950()};
    return [task](const Launch &launch) {
        if (task.asymmetric && !isInteger(task.yDtype)) {
            primitive::failWithoutKernel(std::string("asymmetric quantisation to ") + dtypeName(task.yDtype));
        }
        run(task, launch);
    };
}

}  // namespace sim::dynamic_quant
