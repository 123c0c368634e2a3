// Operands are brought to the type of the matrix unit, products are summed in FLOAT, and the result is rounded where it
// leaves the unit and once more where `out` has yet another type.
#include <algorithm>
#include <cstring>

#include "numeric/convert.hpp"
#include "numeric/gemm.hpp"
#include "ops/matmul.hpp"

namespace sim::matmul {

namespace {

constexpr uint32_t hf32Dropped = 12;  // FLOAT has 23 bits of mantissa, HF32 keeps 11
constexpr int64_t blockRows = 16, blockBytes = 32;

enum class Unit { Fp32, Hf32, Fp16, Bf16 };

// The type that the matrix unit works in.
Unit unitOf(const Params &p) {
    aclDataType a = p.self->dtype, b = p.mat2->dtype;
    bool dot = p.self->rank() == 1 && p.mat2->rank() == 1;  // a vector operation, blind to cubeMathType
    if (a == b && a == ACL_BF16) return Unit::Bf16;
    if (a == b && a == ACL_FLOAT16) return Unit::Fp16;
    if (dot) return Unit::Fp32;
    if (p.cubeMathType == UseFp16) return Unit::Fp16;
    bool reduced = p.cubeMathType == AllowDown || p.cubeMathType == UseHf32;
    bool mixed16 = a != ACL_FLOAT && b != ACL_FLOAT;
    bool multiplied = p.self->shape.back() == 1 && a == b && a == p.out->dtype;  // k = 1: element by element
    return reduced && !mixed16 && !multiplied ? Unit::Hf32 : Unit::Fp32;
}

void reduceToHf32(float *values, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits = numeric::floatBits(values[i]);
        if ((bits & 0x7F800000U) == 0x7F800000U) continue;  // infinities and NaN
        uint32_t half = (1U << (hf32Dropped - 1)) - 1 + ((bits >> hf32Dropped) & 1U);
        values[i] = numeric::floatFromBits((bits + half) >> hf32Dropped << hf32Dropped);
    }
}

void roundToUnit(Unit unit, float *values, size_t n) {
    switch (unit) {
        case Unit::Fp32: return;
        case Unit::Hf32: return reduceToHf32(values, n);
        case Unit::Bf16: return numeric::roundToBf16(values, n);
        case Unit::Fp16:
            for (size_t i = 0; i < n; ++i) values[i] = numeric::fp16ToFloat(numeric::floatToFp16(values[i]));
    }
}

numeric::Storage storageOf(aclDataType dtype) {
    if (dtype == ACL_FLOAT) return numeric::Storage::Fp32;
    return dtype == ACL_BF16 ? numeric::Storage::Bf16 : numeric::Storage::Fp16;
}

// A FRACTAL_NZ weight that holds the transpose of the (k, n) matrix.
numeric::Panel transposedNzPanel(aclDataType dtype, const void *data, size_t n) {
    auto width = static_cast<size_t>(blockBytes * 8 / elementBits(dtype));
    size_t padded = (n + blockRows - 1) / blockRows * blockRows;
    return [=](size_t k0, size_t rows, size_t n0, size_t columns, float *out) {
        for (size_t row = 0; row < rows; ++row) {
            size_t block = (k0 + row) / width * padded * width, within = (k0 + row) % width;
            for (size_t column = 0; column < columns; ++column) {
                auto at = static_cast<int64_t>(block + (n0 + column) * width + within);
                primitive::loadFloats(dtype, data, at, 1, out + row * columns + column);
            }
        }
    };
}

struct Task {
    Shapes shapes;
    Unit unit;
    aclDataType self, mat2, out;
    bool nz, transposed, roundsTwice;
    int64_t outNumel;
};

numeric::Panel weightPanel(const Task &t, const void *mat2) {
    const Shapes &s = t.shapes;
    numeric::Panel stored = !t.nz ? numeric::densePanel(storageOf(t.mat2), mat2, static_cast<size_t>(s.n))
                            : t.transposed ? transposedNzPanel(t.mat2, mat2, static_cast<size_t>(s.n))
                                           : numeric::nzPanel(storageOf(t.mat2), mat2, static_cast<size_t>(s.k));
    bool exact = t.unit == Unit::Fp32 || (t.unit == Unit::Fp16 && t.mat2 == ACL_FLOAT16) ||
                 (t.unit == Unit::Bf16 && t.mat2 == ACL_BF16);
    if (exact) return stored;
    return [stored, unit = t.unit](size_t k0, size_t rows, size_t n0, size_t columns, float *out) {
        stored(k0, rows, n0, columns, out);
        roundToUnit(unit, out, rows * columns);
    };
}

// One matrix: self at `self`, the weight as a panel, the result from element `outAt` on.
void multiply(const Task &t, const std::vector<float> &self, const numeric::Panel &weight, void *out, int64_t outAt) {
    auto m = static_cast<size_t>(t.shapes.m), k = static_cast<size_t>(t.shapes.k), n = static_cast<size_t>(t.shapes.n);
    numeric::forColumns(n, [&](size_t n0, size_t columns) {
        thread_local std::vector<float> part;
        part.resize(m * columns);
        numeric::multiplyColumns(self.data(), m, k, weight, n0, columns, part.data(), columns);
        if (t.roundsTwice) roundToUnit(t.unit, part.data(), part.size());
        for (size_t row = 0; row < m; ++row) {
            primitive::storeFloats(t.out, part.data() + row * columns, static_cast<int64_t>(columns), out,
                                   outAt + static_cast<int64_t>(row * n + n0));
        }
    });
}

int64_t bytesOf(aclDataType dtype, int64_t count) { return packedBytes(count, dtype); }

void run(const Task &t, const Launch &launch) {
    void *out = launch.out("out");
    const Shapes &s = t.shapes;
    if (s.k == 0 || s.resultNumel() == 0) {
        std::memset(out, 0, static_cast<size_t>(bytesOf(t.out, t.outNumel)));
        return;
    }
    const void *self = launch.in("self");
    const auto *mat2 = launch.in<char>("mat2");
    int64_t matrices = 1;
    for (int64_t size : s.batch) matrices *= size;
    std::vector<float> rows(static_cast<size_t>(s.m * s.k));
    for (int64_t i = 0; i < matrices; ++i) {
        int64_t a = primitive::broadcastIndex(i, s.batch, s.selfBatch);
        int64_t b = primitive::broadcastIndex(i, s.batch, s.mat2Batch);
        primitive::loadFloats(t.self, self, a * s.m * s.k, s.m * s.k, rows.data());
        roundToUnit(t.unit, rows.data(), rows.size());
        multiply(t, rows, weightPanel(t, mat2 + bytesOf(t.mat2, b * s.k * s.n)), out, i * s.m * s.n);
    }
}

}  // namespace

Shapes shapesOf(const Params &p) {
    std::vector<int64_t> a = p.self->shape, b = p.mat2->shape;
    if (a.size() == 1) a.insert(a.begin(), 1);
    if (b.size() == 1) b.push_back(1);
    Shapes s{{a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}, {}, a[a.size() - 2], a.back(), b.back()};
    bool selfIsLonger = s.selfBatch.size() >= s.mat2Batch.size();
    const auto &shorter = selfIsLonger ? s.mat2Batch : s.selfBatch;
    s.batch = selfIsLonger ? s.selfBatch : s.mat2Batch;
    for (size_t i = 0; i < shorter.size(); ++i) {
        int64_t &size = s.batch[s.batch.size() - 1 - i];
        if (size == 1) size = shorter[shorter.size() - 1 - i];
    }
    return s;
}

int64_t Shapes::resultNumel() const {
    TensorDesc result;
    result.shape = batch;
    result.shape.insert(result.shape.end(), {m, n});
    return result.numel();
}

Kernel makeKernel(const Params &p) {
    Unit unit = unitOf(p);
    bool narrow = unit == Unit::Fp16 || unit == Unit::Bf16;
    // FLOAT leaves the unit as it is, unless FP16 was asked for; so does a result in the unit's own type.
    bool roundsTwice = narrow && (p.out->dtype != ACL_FLOAT || p.cubeMathType == UseFp16);
    Task task{shapesOf(p),     unit,        p.self->dtype, p.mat2->dtype, p.out->dtype, primitive::isNz(*p.mat2),
              isTransposed(*p.mat2), roundsTwice, p.out->numel()};
    bool odd = primitive::isNz(*p.self) || primitive::isNz(*p.out) || (primitive::isNz(*p.mat2) && p.mat2->rank() > 2);
    return [task, odd](const Launch &launch) {
        if (odd) primitive::failWithoutKernel("FRACTAL_NZ in self, out or a batch of weights");
        run(task, launch);
    };
}

}  // namespace sim::matmul
