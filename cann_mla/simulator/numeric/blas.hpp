// The BLAS under the kernels: the copy of OpenBLAS in the scipy-openblas32 wheel, opened at the first product.
//
// Looked for in this order: the file or folder named by CANN_MLA_SIM_BLAS, the scipy_openblas32 package beside the
// installed cann_mla package, the file CMake found when the simulator was built. It runs one thread a call; the
// simulator's own pool provides the parallelism, so that NumPy's OpenBLAS in the same process finds no second set of
// spinning threads.
#pragma once

#include <cstddef>
#include <string>

namespace sim::numeric {

enum class Transposed { No, Yes };

// C[m,n] = A[m,k] B[k,n] + beta C, all row major, float32, in the calling thread. `ldX` is the distance between rows
// as stored. With Transposed::Yes the operand is stored as its transpose: A as [k,m], B as [n,k].
// beta 0 ignores what C holds (NaN too). k = 0 scales C by beta. Throws std::runtime_error when no BLAS can be opened.
void sgemm(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c,
           size_t ldc, Transposed transposeA = Transposed::No, Transposed transposeB = Transposed::No);

// The path of the opened library; opens it. Throws like sgemm.
const std::string &blasPath();

}  // namespace sim::numeric
