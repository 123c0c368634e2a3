#include "ops/rotary.hpp"

#include "numeric/parallel.hpp"

namespace sim::rotary {

namespace {

constexpr int32_t deviceFault = 507015;

void rotateHalf(const float *x, const float *cos, const float *sin, int64_t d, float *y) {
    int64_t half = d / 2;
    for (int64_t i = 0; i < half; ++i) {
        y[i] = x[i] * cos[i] + -x[i + half] * sin[i];
        y[i + half] = x[i + half] * cos[i + half] + x[i] * sin[i + half];
    }
}

void rotateInterleaved(const float *x, const float *cos, const float *sin, int64_t d, float *y) {
    for (int64_t i = 0; i + 1 < d; i += 2) {
        y[i] = x[i] * cos[i] + -x[i + 1] * sin[i];
        y[i + 1] = x[i + 1] * cos[i + 1] + x[i] * sin[i + 1];
    }
}

// The row of cos that belongs to row `index` of x.
int64_t cosRow(int64_t index, const Task &t) {
    std::vector<int64_t> rows(t.x.begin(), t.x.end() - 1), own(t.cos.begin(), t.cos.end() - 1);
    return primitive::broadcastIndex(index, rows, own);
}

}  // namespace

void rotate(Mode mode, const float *x, const float *cos, const float *sin, int64_t d, float *y) {
    switch (mode) {
        case Mode::Half: return rotateHalf(x, cos, sin, d, y);
        case Mode::Interleave: return rotateInterleaved(x, cos, sin, d, y);
        case Mode::Quarter: {
            int64_t half = d / 2;  // each half turns on its own
            rotateHalf(x, cos, sin, half, y);
            return rotateHalf(x + half, cos + half, sin + half, half, y + half);
        }
        case Mode::InterleaveHalf: {
            thread_local std::vector<float> sorted;  // even elements, then odd ones; they stay that way
            sorted.resize(static_cast<size_t>(d));
            for (int64_t i = 0; i < d; ++i) sorted[static_cast<size_t>(i % 2 * (d / 2) + i / 2)] = x[i];
            return rotateHalf(sorted.data(), cos, sin, d, y);
        }
    }
}

bool broadcasts(const std::vector<int64_t> &cos, const std::vector<int64_t> &x) {
    if (cos.size() != x.size()) return false;
    for (size_t i = 0; i + 1 < x.size(); ++i) {
        if (cos[i] != 1 && cos[i] != x[i]) return false;
    }
    return true;
}

void run(const Task &t, const void *x, const void *cos, const void *sin, void *y) {
    if (!broadcasts(t.cos, t.x)) {
        throw KernelFault(deviceFault, "cos has shape " + primitive::print(t.cos) + ", which does not fit x of shape " +
                                           primitive::print(t.x) + ": the kernel reads outside it");
    }
    int64_t d = t.x.back(), rows = 1;
    for (size_t i = 0; i + 1 < t.x.size(); ++i) rows *= t.x[i];
    if (t.length == 0 || rows == 0) return;
    numeric::parallelFor(static_cast<size_t>(rows), [&](size_t row) {
        thread_local std::vector<float> values, factors, turned;
        auto length = static_cast<size_t>(t.length);
        values.resize(length);
        factors.resize(2 * length);
        turned.resize(length);
        auto index = static_cast<int64_t>(row);
        int64_t at = index * d + t.start, cosAt = cosRow(index, t) * t.length;
        primitive::loadFloats(t.dtype, x, at, t.length, values.data());
        primitive::loadFloats(t.cosDtype, cos, cosAt, t.length, factors.data());
        primitive::loadFloats(t.cosDtype, sin, cosAt, t.length, factors.data() + length);
        rotate(t.mode, values.data(), factors.data(), factors.data() + length, t.length, turned.data());
        primitive::storeFloats(t.dtype, turned.data(), t.length, y, at);
    });
}

}  // namespace sim::rotary
