// All in FLOAT, rounded once at the end. The sum of squares is taken in double: the device's own order of additions
// depends on the tiling, and this is the value that all of them approach.
#include <cmath>

#include "numeric/parallel.hpp"
#include "ops/rms_norm.hpp"

namespace sim::rms_norm {

namespace {

constexpr int32_t deviceFault = 507015;

float reciprocalRoot(const float *x, int64_t n, float epsilon) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
    float mean = static_cast<float>(sum) * (1.0F / static_cast<float>(n));
    return 1.0F / std::sqrt(mean + epsilon);
}

}  // namespace

Kernel makeKernel(const Params &p) {
    aclDataType dtype = p.x->dtype, gammaDtype = p.gamma->dtype;
    int64_t n = p.gamma->numel(), rows = p.x->numel() / n, room = p.rstd->numel();
    float epsilon = p.epsilon;
    return [=](const Launch &launch) {
        if (room < rows) {
            throw KernelFault(deviceFault, "rstdOut has " + std::to_string(room) + " elements; the kernel writes " +
                                               std::to_string(rows));
        }
        const void *x = launch.in("x");
        void *y = launch.out("yOut");
        auto *rstd = launch.out<float>("rstdOut");
        std::vector<float> gamma(static_cast<size_t>(n));
        primitive::loadFloats(gammaDtype, launch.in("gamma"), 0, n, gamma.data());
        numeric::parallelFor(static_cast<size_t>(rows), [&](size_t row) {
            thread_local std::vector<float> values;
            values.resize(static_cast<size_t>(n));
            int64_t at = static_cast<int64_t>(row) * n;
            primitive::loadFloats(dtype, x, at, n, values.data());
            float scale = reciprocalRoot(values.data(), n, epsilon);
            for (size_t i = 0; i < values.size(); ++i) values[i] = values[i] * scale * gamma[i];
            primitive::storeFloats(dtype, values.data(), n, y, at);
            rstd[row] = scale;
        });
    };
}

}  // namespace sim::rms_norm
