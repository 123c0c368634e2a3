// One row of the online softmax, in FLOAT.
#pragma once

#include <cstddef>

namespace sim::fia {

// What a masked score becomes.
constexpr float masked = -1.0e12F;

float maximum(const float *values, size_t n);

// values = exp(values - max).
void exponentials(float *values, size_t n, float max);

float total(const float *values, size_t n);

void scale(float *values, size_t n, float factor);

// Rounds in place to the numbers of the format, half to even; INT8 also cuts to [-128, 127], FLOAT8_E4M3FN to 448.
void roundToFp16(float *values, size_t n);
void roundToInt8(float *values, size_t n);
void roundToE4m3(float *values, size_t n);
void roundToHifloat8(float *values, size_t n);

}  // namespace sim::fia
