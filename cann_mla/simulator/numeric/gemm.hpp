// Matrix products with weights that are stored narrow (BF16, INT8, 8-bit floats, FRACTAL_NZ or plain) and never wanted
// as one float matrix. A weight is a function that decodes a small panel; a product decodes a panel into the cache,
// multiplies, and goes on to the next, so that memory beyond operands and result stays under 4 MiB a thread.
#pragma once

#include "numeric/blas.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace sim::numeric {

// Writes rows [k0, k0 + rows) of columns [n0, n0 + columns) as a dense row-major float panel.
using Panel = std::function<void(size_t k0, size_t rows, size_t n0, size_t columns, float *out)>;

// ---- where panels come from --------------------------------------------------------------------------------------

enum class Storage { Bf16, Fp16, Fp32, Int8, E4m3, Hifloat8 };

size_t storageBytes(Storage storage);

// Decodes `n` consecutive elements.
void decode(Storage storage, const void *source, float *destination, size_t n);

// A (rows, columns) matrix in row-major order.
Panel densePanel(Storage storage, const void *data, size_t columns);

// A (rows, columns) matrix in FRACTAL_NZ: [ceil(columns/C0)][ceil(rows/16)][16][C0], C0 = 32 bytes of elements.
// n0 of a panel is a multiple of C0.
Panel nzPanel(Storage storage, const void *data, size_t rows);

// ---- products ----------------------------------------------------------------------------------------------------

// C[m,n] = A[m,k] W[k,n], float32 accumulation. In the calling thread, for the columns [n0, n0 + n); C's column 0
// is column n0 of the weight.
void multiplyColumns(const float *a, size_t m, size_t k, const Panel &weight, size_t n0, size_t n, float *c,
                     size_t ldc);

// The same for operands that hold integers of [-128, 127]: exact for k up to 131071.
void multiplyColumnsExact(const float *a, size_t m, size_t k, const Panel &weight, size_t n0, size_t n, int32_t *c,
                          size_t ldc);

// Hands out the columns [0, n) over the pool, in panels of a width that suits the products above.
void forColumns(size_t n, const std::function<void(size_t n0, size_t columns)> &body);

}  // namespace sim::numeric
