// INT8 products are summed exactly in INT32, those of 8-bit floats in FLOAT. Then, in FLOAT and in this order: times
// x2Scale, times x1Scale, plus a floating bias, rounded once. An INT32 bias joins the integer sum, and the bias of 8-bit
// floats with a packed scale theirs. A result of INT8 passes through nine bits before its offset is added.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "numeric/convert.hpp"
#include "numeric/gemm.hpp"
#include "numeric/parallel.hpp"
#include "ops/quant_matmul_operands.hpp"

namespace sim::quant_matmul {

namespace {

constexpr int64_t exactDepth = 65536;  // sums of that many INT8 products fit in INT32
constexpr int32_t deviceFault = 507015;
constexpr uint32_t packedScaleMask = 0xFFFFE000U;  // the matrix unit takes 19 bits of a packed scale
constexpr unsigned packedOffsetAt = 37;            // nine bits with a sign
constexpr float lowestOfNineBits = -256.0F, highestOfNineBits = 255.0F;

struct Task {
    Names names;
    Product product;
    std::vector<int64_t> batch, x1Batch, x2Batch;
    aclDataType scale, bias, out;
    int64_t scales, offsets, x1Scales, outNumel;
    bool hasBias, biasPerBatch, on950;
    bool isPacked() const { return scale == ACL_UINT64 || scale == ACL_INT64; }
    // Ascend950 hands a single scale to the matrix unit as if it were packed, and the product of two single ones.
    bool joinsScales() const { return on950 && product.x1.dtype != ACL_INT8 && scales == 1 && x1Scales == 1 && !hasBias; }
    bool cutsScale() const {
        bool alone = x1Scales == 0 && (!hasBias || bias == ACL_INT32);
        return on950 && scales == 1 && (joinsScales() || (product.x1.dtype == ACL_INT8 && alone));
    }
};

// What the sums of one matrix become.
struct Epilogue {
    std::vector<float> scale, offset, bias;
    std::vector<int32_t> integerBias;
    const float *x1Scale = nullptr;
};

float to19Bits(float value) { return numeric::floatFromBits(numeric::floatBits(value) & packedScaleMask); }

std::vector<float> scalesOf(const Task &t, const void *data) {
    std::vector<float> values(static_cast<size_t>(t.scales));
    if (!t.isPacked()) {
        primitive::loadFloats(t.scale, data, 0, t.scales, values.data());
        return values;
    }
    const auto *packed = static_cast<const uint64_t *>(data);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = to19Bits(numeric::floatFromBits(static_cast<uint32_t>(packed[i])));
    }
    return values;
}

float toNineBits(float value) { return std::clamp(std::nearbyint(value), lowestOfNineBits, highestOfNineBits); }

// Of a result in INT8: the operand, or what is packed with the scale.
std::vector<float> offsetsOf(const Task &t, const Launch &launch) {
    std::vector<float> values;
    if (t.out != ACL_INT8) return values;
    if (t.offsets > 0) {
        const auto *given = launch.in<float>(t.names.x2Offset);
        for (int64_t i = 0; i < t.offsets; ++i) values.push_back(toNineBits(given[i]));
    } else if (t.isPacked()) {
        const auto *packed = launch.in<uint64_t>(t.names.x2Scale);
        for (int64_t i = 0; i < t.scales; ++i) {
            auto bits = static_cast<int32_t>(packed[i] >> packedOffsetAt & 0x1FFU);
            values.push_back(static_cast<float>(bits >= 256 ? bits - 512 : bits));
        }
    }
    return values;
}

Epilogue epilogueOf(const Task &t, const Launch &launch, int64_t matrix) {
    Epilogue e;
    e.scale = scalesOf(t, launch.in(t.names.x2Scale));
    e.offset = offsetsOf(t, launch);
    if (t.joinsScales()) {
        e.scale[0] *= *launch.in<float>(t.names.x1Scale);
    } else if (t.x1Scales > 0) {
        e.x1Scale = launch.in<float>(t.names.x1Scale);
    }
    if (t.cutsScale()) e.scale[0] = to19Bits(e.scale[0]);
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

// One row of sums to out, from element `at` on.
template <typename Sum>
void finishRow(const Task &t, const Epilogue &e, Sum *sums, size_t row, size_t columns, void *out, int64_t at) {
    if constexpr (std::is_integral_v<Sum>) {
        for (size_t i = 0; i < columns && !e.integerBias.empty(); ++i) sums[i] = wrappedSum(sums[i], e.integerBias[i]);
        if (t.out == ACL_INT32) {
            std::memcpy(static_cast<int32_t *>(out) + at, sums, columns * sizeof(int32_t));
            return;
        }
    }
    thread_local std::vector<float> values;
    values.resize(columns);
    bool biasFirst = std::is_floating_point_v<Sum> && t.isPacked() && !e.bias.empty();
    float x1Scale = !e.x1Scale ? 1.0F : e.x1Scale[t.x1Scales == 1 ? 0 : row];
    for (size_t i = 0; i < columns; ++i) {
        float value = static_cast<float>(sums[i]);
        if (biasFirst) value += e.bias[i];
        value *= pick(e.scale, i);
        if (e.x1Scale) value *= x1Scale;
        if (!biasFirst && !e.bias.empty()) value += e.bias[i];
        if (!e.offset.empty()) value = toNineBits(value) + pick(e.offset, i);
        values[i] = value;
    }
    if (t.out == ACL_INT8) return numeric::floatToInt8(values.data(), static_cast<int8_t *>(out) + at, columns);
    primitive::storeFloats(t.out, values.data(), static_cast<int64_t>(columns), out, at);
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

// The sums of one matrix, [m, n].
void multiply(const Product &p, const uint8_t *left, const numeric::Panel &weight, std::vector<int32_t> &sums) {
    for (int64_t k0 = 0; k0 < p.k(); k0 += exactDepth) {
        int64_t depth = std::min(exactDepth, p.k() - k0);
        std::vector<float> rows(static_cast<size_t>(p.m() * depth));
        loadRows(p, left, k0, depth, rows.data());
        accumulate(p, rows, k0, depth, weight, sums);
    }
}

void multiply(const Product &p, const uint8_t *left, const numeric::Panel &weight, std::vector<float> &sums) {
    auto m = static_cast<size_t>(p.m()), k = static_cast<size_t>(p.k()), n = static_cast<size_t>(p.n());
    std::vector<float> rows(m * k);
    loadRows(p, left, 0, p.k(), rows.data());
    numeric::forColumns(n, [&](size_t n0, size_t columns) {
        numeric::multiplyColumns(rows.data(), m, k, weight, n0, columns, sums.data() + n0, n);
    });
}

template <typename Sum>
void run(const Task &t, const Launch &launch) {
    const Product &p = t.product;
    int64_t m = p.m(), k = p.k(), n = p.n(), matrices = t.outNumel / (m * n);
    if (t.scales != 1 && t.scales < n) {
        throw KernelFault(deviceFault, std::string(t.names.x2Scale) + " has " + std::to_string(t.scales) +
                                           " elements for " + std::to_string(n) + " columns");
    }
    const auto *x1 = launch.in<uint8_t>("x1"), *x2 = launch.in<uint8_t>("x2");
    void *out = launch.out("out");
    std::vector<Sum> sums(static_cast<size_t>(m * n));
    for (int64_t matrix = 0; matrix < matrices; ++matrix) {
        const uint8_t *left = x1 + primitive::broadcastIndex(matrix, t.batch, t.x1Batch) * m * k;
        multiply(p, left, weightPanel(p, x2 + primitive::broadcastIndex(matrix, t.batch, t.x2Batch) * k * n), sums);
        Epilogue e = epilogueOf(t, launch, matrix);
        numeric::parallelFor(static_cast<size_t>(m), [&](size_t row) {
            auto at = static_cast<int64_t>(row) * n;
            finishRow(t, e, sums.data() + at, row, static_cast<size_t>(n), out, matrix * m * n + at);
        });
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
              p.x1Scale ? p.x1Scale->numel() : 0,
              p.out->numel(),
              p.bias != nullptr,
              p.bias && p.bias->rank() == 3,
              primitive::isA950()};
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
    if (product.x1.dtype == ACL_INT4) missing = std::string("products of ") + dtypeName(product.x1.dtype);
    if (primitive::isNz(*p.out)) missing = "a result in FRACTAL_NZ";
    if (product.x2.nz && product.x2.shape.size() > 2) missing = "a batch of FRACTAL_NZ weights";
    return [task, missing](const Launch &launch) {
        if (!missing.empty()) primitive::failWithoutKernel(missing);
        task.product.x1.dtype == ACL_INT8 ? run<int32_t>(task, launch) : run<float>(task, launch);
    };
}

}  // namespace sim::quant_matmul
