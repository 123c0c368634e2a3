// INT8 products are summed exactly in INT32. Then, in FLOAT and in this order: times x2Scale, times x1Scale, plus a
// floating bias, rounded once. An INT32 bias joins the integer sum.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "numeric/convert.hpp"
#include "numeric/gemm.hpp"
#include "ops/quant_matmul.hpp"

namespace sim::quant_matmul {

namespace {

constexpr int64_t exactDepth = 65536;  // sums of that many INT8 products fit in INT32
constexpr int32_t deviceFault = 507015;
constexpr uint32_t packedScaleMask = 0xFFFFE000U;  // the matrix unit takes 19 bits of a packed scale
constexpr size_t blockRows = 16, blockWidth = 32;

struct Task {
    Names names;
    Product product;
    std::vector<int64_t> batch, x1Batch, x2Batch;
    aclDataType scale, bias, out;
    int64_t scales, offsets, outNumel;
    bool hasX1Scale, hasBias, biasPerBatch;
};

// What the sums of one matrix become.
struct Epilogue {
    std::vector<float> scale, offset, bias;
    std::vector<int32_t> integerBias;
    const float *x1Scale = nullptr;
};

std::vector<float> scalesOf(const Task &t, const void *data) {
    std::vector<float> values(static_cast<size_t>(t.scales));
    if (t.scale != ACL_UINT64 && t.scale != ACL_INT64) {
        primitive::loadFloats(t.scale, data, 0, t.scales, values.data());
        return values;
    }
    const auto *packed = static_cast<const uint64_t *>(data);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = numeric::floatFromBits(static_cast<uint32_t>(packed[i]) & packedScaleMask);
    }
    return values;
}

Epilogue epilogueOf(const Task &t, const Launch &launch, int64_t matrix) {
    Epilogue e;
    e.scale = scalesOf(t, launch.in(t.names.x2Scale));
    if (t.offsets > 0) {
        const auto *offset = launch.in<float>(t.names.x2Offset);
        e.offset.assign(offset, offset + t.offsets);
    }
    if (t.hasX1Scale) e.x1Scale = launch.in<float>(t.names.x1Scale);
    if (!t.hasBias) return e;
    int64_t n = t.product.n(), at = t.biasPerBatch ? matrix * n : 0;
    if (t.bias == ACL_INT32) {
        const auto *bias = launch.in<int32_t>("bias") + at;
        e.integerBias.assign(bias, bias + n);
    } else {
        e.bias.resize(static_cast<size_t>(n));
        primitive::loadFloats(t.bias, launch.in("bias"), at, n, e.bias.data());
    }
    return e;
}

int32_t wrappedSum(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

float pick(const std::vector<float> &values, size_t i) { return values.size() == 1 ? values[0] : values[i]; }

// One row of sums, columns [n0, n0 + columns), to out at element `at`.
void finishRow(const Task &t, const Epilogue &e, int32_t *sums, size_t row, size_t n0, size_t columns, void *out,
               int64_t at) {
    for (size_t i = 0; i < columns && !e.integerBias.empty(); ++i) sums[i] = wrappedSum(sums[i], e.integerBias[n0 + i]);
    if (t.out == ACL_INT32) {
        std::memcpy(static_cast<int32_t *>(out) + at, sums, columns * sizeof(int32_t));
        return;
    }
    thread_local std::vector<float> values;
    values.resize(columns);
    for (size_t i = 0; i < columns; ++i) {
        float value = static_cast<float>(sums[i]) * pick(e.scale, n0 + i);
        if (e.x1Scale) value *= e.x1Scale[row];
        if (!e.bias.empty()) value += e.bias[n0 + i];
        if (!e.offset.empty()) value += pick(e.offset, n0 + i);
        values[i] = value;
    }
    if (t.out == ACL_INT8) return numeric::floatToInt8(values.data(), static_cast<int8_t *>(out) + at, columns);
    primitive::storeFloats(t.out, values.data(), static_cast<int64_t>(columns), out, at);
}

// Rows [k0, k0 + depth) of a weight that is stored as its transpose, [n, k] or blocks of it.
numeric::Panel transposedPanel(const int8_t *data, size_t k, size_t n, bool nz) {
    size_t padded = (n + blockRows - 1) / blockRows * blockRows;
    return [=](size_t k0, size_t rows, size_t n0, size_t columns, float *out) {
        for (size_t column = 0; column < columns; ++column) {
            size_t from = n0 + column;
            for (size_t row = 0; row < rows; ++row) {
                size_t depth = k0 + row;
                size_t at =
                    nz ? (depth / blockWidth * padded + from) * blockWidth + depth % blockWidth : from * k + depth;
                out[row * columns + column] = static_cast<float>(data[at]);
            }
        }
    };
}

numeric::Panel weightPanel(const Product &p, const int8_t *data) {
    auto k = static_cast<size_t>(p.k()), n = static_cast<size_t>(p.n());
    if (p.x2.transposed) return transposedPanel(data, k, n, p.x2.nz);
    return p.x2.nz ? numeric::nzPanel(numeric::Storage::Int8, data, k)
                   : numeric::densePanel(numeric::Storage::Int8, data, n);
}

// x1 of one matrix as floats, [m, depth] from column k0 on.
void loadRows(const Product &p, const int8_t *data, int64_t k0, int64_t depth, float *out) {
    int64_t m = p.m(), k = p.k();
    for (int64_t row = 0; row < m; ++row) {
        if (!p.x1.transposed) {
            numeric::int8ToFloat(data + row * k + k0, out + row * depth, static_cast<size_t>(depth));
            continue;
        }
        for (int64_t i = 0; i < depth; ++i) out[row * depth + i] = static_cast<float>(data[(k0 + i) * m + row]);
    }
}

// Adds the products of one stretch of k to `sums`, [m, n], wrapping as INT32 does.
void accumulate(const Product &p, const std::vector<float> &rows, int64_t k0, int64_t depth,
                const numeric::Panel &weight, std::vector<int32_t> &sums) {
    auto m = static_cast<size_t>(p.m()), n = static_cast<size_t>(p.n());
    numeric::Panel shifted = [&weight, k0](size_t k, size_t count, size_t n0, size_t columns, float *out) {
        weight(static_cast<size_t>(k0) + k, count, n0, columns, out);
    };
    numeric::forColumns(n, [&](size_t n0, size_t columns) {
        if (k0 == 0) {
            numeric::multiplyColumnsExact(rows.data(), m, static_cast<size_t>(depth), weight, n0, columns,
                                          sums.data() + n0, n);
            return;
        }
        std::vector<int32_t> part(m * columns);
        numeric::multiplyColumnsExact(rows.data(), m, static_cast<size_t>(depth), shifted, n0, columns, part.data(),
                                      columns);
        for (size_t i = 0; i < part.size(); ++i) {
            int32_t &sum = sums[i / columns * n + n0 + i % columns];
            sum = wrappedSum(sum, part[i]);
        }
    });
}

void run(const Task &t, const Launch &launch) {
    const Product &p = t.product;
    int64_t m = p.m(), k = p.k(), n = p.n(), matrices = t.outNumel / (m * n);
    if (t.scales != 1 && t.scales < n) {
        throw KernelFault(deviceFault, std::string(t.names.x2Scale) + " has " + std::to_string(t.scales) +
                                           " elements for " + std::to_string(n) + " columns");
    }
    const auto *x1 = launch.in<int8_t>("x1"), *x2 = launch.in<int8_t>("x2");
    void *out = launch.out("out");
    std::vector<int32_t> sums(static_cast<size_t>(m * n));
    for (int64_t matrix = 0; matrix < matrices; ++matrix) {
        const int8_t *left = x1 + primitive::broadcastIndex(matrix, t.batch, t.x1Batch) * m * k;
        numeric::Panel weight = weightPanel(p, x2 + primitive::broadcastIndex(matrix, t.batch, t.x2Batch) * k * n);
        for (int64_t k0 = 0; k0 < k; k0 += exactDepth) {
            int64_t depth = std::min(exactDepth, k - k0);
            std::vector<float> rows(static_cast<size_t>(m * depth));
            loadRows(p, left, k0, depth, rows.data());
            accumulate(p, rows, k0, depth, weight, sums);
        }
        Epilogue e = epilogueOf(t, launch, matrix);
        for (int64_t row = 0; row < m; ++row) {
            finishRow(t, e, sums.data() + row * n, static_cast<size_t>(row), 0, static_cast<size_t>(n), out,
                      (matrix * m + row) * n);
        }
    }
}

}  // namespace

Kernel makeKernel(const Params &p) {
    Product product = productOf(p);
    Task task{p.names,
              product,
              product.batch().value_or(std::vector<int64_t>{}),
              {product.x1.shape.begin(), product.x1.shape.end() - 2},
              {product.x2.shape.begin(), product.x2.shape.end() - 2},
              p.x2Scale->dtype,
              p.bias ? p.bias->dtype : ACL_DT_UNDEFINED,
              p.out->dtype,
              p.x2Scale->numel(),
              p.x2Offset ? p.x2Offset->numel() : 0,
              p.out->numel(),
              p.x1Scale != nullptr,
              p.bias != nullptr,
              p.bias && p.bias->rank() == 3};
    // A view with swapped axes arrives here gathered, in the order of the view that the caller gave.
    if (!product.x2.nz && product.x2.shape != p.x2->shape) {
        std::swap(task.product.x2.shape.back(), task.product.x2.shape[task.product.x2.shape.size() - 2]);
        task.product.x2.transposed = p.transposeX2;
    }
    if (product.x1.transposed != p.transposeX1) {
        std::swap(task.product.x1.shape.back(), task.product.x1.shape[task.product.x1.shape.size() - 2]);
        task.product.x1.transposed = p.transposeX1;
    }
    std::string missing;
    if (product.x1.dtype != ACL_INT8) missing = std::string("products of ") + dtypeName(product.x1.dtype);
    if (primitive::isNz(*p.out)) missing = "a result in FRACTAL_NZ";
    if (product.x2.nz && product.x2.shape.size() > 2) missing = "a batch of FRACTAL_NZ weights";
    return [task, missing](const Launch &launch) {
        if (!missing.empty()) primitive::failWithoutKernel(missing);
        run(task, launch);
    };
}

}  // namespace sim::quant_matmul
