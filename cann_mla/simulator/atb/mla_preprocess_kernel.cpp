// The kernel of AtbMLAPreprocess: two quantised projections with a normalisation before each, the absorbed key weight,
// rotary embedding, and the rows of the caches.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "atb/mla_preprocess.hpp"
#include "numeric/blas.hpp"
#include "numeric/convert.hpp"
#include "numeric/gemm.hpp"
#include "numeric/parallel.hpp"

namespace sim::atb {

namespace {

constexpr int64_t hidden = 7168, down = 2112, latentQuery = 1536, latent = 512, rope = 64, nope = 128, headUp = 192;
constexpr float epsilon = 1e-6F;

size_t size(int64_t n) { return static_cast<size_t>(n); }
using Floats = std::vector<float>;

class Preprocess {
   public:
    Preprocess(const MlaPreprocessWork& work, const Launch& launch)
        : w_(work), launch_(launch), half_(work.bf16 ? numeric::Storage::Bf16 : numeric::Storage::Fp16) {}

    void run() const {
        Floats input = halfRow("input", 0, w_.tokens * hidden);
        Floats first = project(input, hidden, hidden, 0, down);
        Floats latentQueries(size(w_.tokens * latentQuery));
        for (int64_t t = 0; t < w_.tokens; ++t) {
            const float* row = first.data() + t * down + latent + rope;
            std::copy(row, row + latentQuery, latentQueries.data() + t * latentQuery);
        }
        Floats second = project(latentQueries, latentQuery, latentQuery, 1, w_.heads * headUp);
        for (int64_t t = 0; t < w_.tokens; ++t) writeCaches(t, first.data() + t * down);
        numeric::parallelFor(size(w_.heads), [&](size_t head) { writeQueries(static_cast<int64_t>(head), second); });
    }

   private:
    Floats halfRow(const char* name, int64_t start, int64_t n) const {
        Floats values(size(n));
        numeric::decode(half_, launch_.in<uint16_t>(name) + start, values.data(), size(n));
        return values;
    }

    void round(float* values, int64_t n) const {
        std::vector<uint16_t> codes(size(n));
        encode(values, codes.data(), n);
        numeric::decode(half_, codes.data(), values, size(n));
    }

    void encode(const float* values, uint16_t* out, int64_t n) const {
        if (w_.bf16) {
            numeric::floatToBf16(values, out, size(n));
        } else {
            numeric::floatToFp16(values, out, size(n));
        }
        launch_.writes(out, size(n) * sizeof *out);
    }

    // Added up in lanes and halves as the vector unit does: one long sum of FLOAT would move quantised values.
    static float meanOfSquares(const float* row, int64_t n) {
        constexpr int64_t lanes = 64;
        float sums[lanes] = {};
        for (int64_t i = 0; i < n; ++i) sums[i % lanes] += row[i] * row[i];
        for (int64_t half = lanes / 2; half > 0; half /= 2) {
            for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
        }
        return sums[0] / static_cast<float>(n);
    }

    static void normalise(float* row, int64_t n, const Floats& gamma) {
        float factor = 1.0F / std::sqrt(meanOfSquares(row, n) + epsilon);
        for (int64_t i = 0; i < n; ++i) row[i] = row[i] * factor * gamma[size(i)];
    }

    // Normalises and quantises rows, multiplies with an int8 weight, and gives back 16-bit numbers.
    Floats project(const Floats& rows, int64_t k, int64_t stride, int stage, int64_t n) const {
        const char* const names[2][7] = {
            {"gamma0", "beta0", "quantScale0", "quantOffset0", "wdqkv", "deScale0", "bias0"},
            {"gamma1", "beta1", "quantScale1", "quantOffset1", "wuq", "deScale1", "bias1"}};
        const auto& name = names[stage];
        Floats gamma = halfRow(name[0], 0, k), beta = halfRow(name[1], 0, k), quantised(size(w_.tokens * k));
        Floats tokenScale(size(w_.tokens), 1.0F);
        numeric::parallelFor(size(w_.tokens), [&](size_t t) {
            float* row = quantised.data() + t * size(k);
            std::copy_n(rows.data() + t * size(stride), k, row);
            normalise(row, k, gamma);
            for (int64_t i = 0; i < k; ++i) row[i] += beta[size(i)];
            tokenScale[t] = w_.params.perToken() ? quantiseToken(row, k) : quantiseTensor(row, k, name[2], name[3]);
        });
        Floats scale = dequantScales(name[5], n), result(size(w_.tokens * n));
        const int32_t* bias = w_.params.perToken() ? nullptr : launch_.in<int32_t>(name[6]);
        numeric::Panel weight = transposedNz(launch_.in<int8_t>(name[4]), n);
        numeric::forColumns(size(n), [&](size_t n0, size_t columns) {
            std::vector<int32_t> products(size(w_.tokens) * columns);
            numeric::multiplyColumnsExact(quantised.data(), size(w_.tokens), size(k), weight, n0, columns,
                                          products.data(), columns);
            for (size_t t = 0; t < size(w_.tokens); ++t) {
                for (size_t c = 0; c < columns; ++c) {
                    int32_t sum = products[t * columns + c] + (bias ? bias[n0 + c] : 0);
                    result[t * size(n) + n0 + c] = static_cast<float>(sum) * scale[n0 + c] * tokenScale[t];
                }
            }
        });
        round(result.data(), w_.tokens * n);
        return result;
    }

    // A scale a token from the row's largest number; returns what turns products back. Rounded to FP16 before that, as
    // the specification and ATB's golden do; the kernel (mla_preprocess_mix_bf16.cce) rounds the scaled numbers instead.
    float quantiseToken(float* row, int64_t n) const {
        float largest = 0.0F;
        for (int64_t i = 0; i < n; ++i) {
            row[i] = numeric::fp16ToFloat(numeric::floatToFp16(row[i]));
            largest = std::max(largest, std::fabs(row[i]));
        }
        if (largest == 0.0F) return 0.0F;
        float scale = 127.0F / largest;
        for (int64_t i = 0; i < n; ++i) row[i] = numeric::floatToInt8(row[i] * scale);
        return 1.0F / scale;
    }

    // Rounded once, as the specification and ATB's own golden do; the kernel passes through FP16 here too, which moves
    // values next to a tie.
    float quantiseTensor(float* row, int64_t n, const char* scaleName, const char* offsetName) const {
        float factor = 1.0F / halfRow(scaleName, 0, 1)[0], offset = launch_.in<int8_t>(offsetName)[0];
        for (int64_t i = 0; i < n; ++i) row[i] = numeric::floatToInt8(row[i] * factor + offset);
        return 1.0F;
    }

    // FP16 input with a scale a tensor: each scale is an INT64 whose low half holds the bits of a FLOAT.
    Floats dequantScales(const char* name, int64_t n) const {
        Floats scales(size(n));
        if (w_.bf16 || w_.params.perToken()) {
            std::copy_n(launch_.in<float>(name), n, scales.data());
            return scales;
        }
        const auto* words = launch_.in<int64_t>(name);
        for (int64_t i = 0; i < n; ++i) scales[size(i)] = numeric::floatFromBits(static_cast<uint32_t>(words[i]));
        return scales;
    }

    // A weight of n rows in FRACTAL_NZ, read as its transpose.
    static numeric::Panel transposedNz(const int8_t* data, int64_t n) {
        return [data, n](size_t k0, size_t rows, size_t n0, size_t columns, float* out) {
            for (size_t r = 0; r < rows; ++r) {
                size_t k = k0 + r;
                const int8_t* column = data + (k / 32 * size(n) + n0) * 32 + k % 32;
                for (size_t c = 0; c < columns; ++c) out[r * columns + c] = column[c * 32];
            }
        };
    }

    // Rotates halves: x * cos + (-second half, first half) * sin.
    void rotate(int64_t token, float* x) const {
        Floats cosine = halfRow("cos", token * rope, rope), sine = halfRow("sin", token * rope, rope);
        float rotated[rope];
        for (int64_t i = 0; i < rope; ++i) {
            float other = i < rope / 2 ? -x[i + rope / 2] : x[i - rope / 2];
            rotated[i] = x[i] * cosine[size(i)] + other * sine[size(i)];
        }
        std::copy_n(rotated, rope, x);
    }

    void writeCaches(int64_t token, const float* projected) const {
        int64_t slot = launch_.in<int32_t>("slotmapping")[token];
        if (slot < 0) return;
        if (slot >= w_.blocks * w_.blockSize) {
            throw KernelFault(ACL_ERROR_RT_AICORE_EXCEPTION, "slotmapping names slot " + std::to_string(slot) +
                                                                 " of a cache with " +
                                                                 std::to_string(w_.blocks * w_.blockSize));
        }
        Floats row(projected, projected + latent + rope);
        normalise(row.data(), latent, halfRow("gamma2", 0, latent));
        rotate(token, row.data() + latent);
        int64_t block = slot / w_.blockSize, place = slot % w_.blockSize;
        if (w_.params.isCombined()) {
            encode(row.data(), launch_.out<uint16_t>("kvCacheOut0") + slot * (latent + rope), latent + rope);
            return;
        }
        if (!w_.params.isNz()) {
            encode(row.data(), launch_.out<uint16_t>("kvCacheOut0") + slot * latent, latent);
            encode(row.data() + latent, launch_.out<uint16_t>("kvCacheOut1") + slot * rope, rope);
            return;
        }
        auto nzPlace = [&](int64_t channel, int64_t channels, int64_t fraction) {
            return ((block * (channels / fraction) + channel / fraction) * w_.blockSize + place) * fraction;
        };
        for (int64_t c = 0; c < rope; c += 16) {
            encode(row.data() + latent + c, launch_.out<uint16_t>("kvCacheOut1") + nzPlace(c, rope, 16), 16);
        }
        if (!w_.params.isInt8()) {
            for (int64_t c = 0; c < latent; c += 16) {
                encode(row.data() + c, launch_.out<uint16_t>("kvCacheOut0") + nzPlace(c, latent, 16), 16);
            }
            return;
        }
        float factor = 1.0F / cacheScale("ctkvScale", 0);
        for (int64_t c = 0; c < latent; ++c) {
            int8_t* place = launch_.out<int8_t>("kvCacheOut0") + nzPlace(c, latent, 32) + c % 32;
            *place = throughFp16(row[size(c)] * factor);
            launch_.writes(place, 1);
        }
    }

    // The vector unit has no other way from FLOAT to INT8.
    static int8_t throughFp16(float value) {
        return numeric::floatToInt8(numeric::fp16ToFloat(numeric::floatToFp16(value)));
    }

    // Bits of the input's dtype, also where ATB's table declares FP16 (a scale a token): the kernel is of one type.
    float cacheScale(const char* name, int64_t index) const { return halfRow(name, index, 1)[0]; }

    Floats keyWeight(int64_t head) const {
        Floats flat = halfRow("wuk", head * nope * latent, nope * latent);
        if (!w_.wukNz) return flat;
        Floats plain(flat.size());
        for (int64_t r = 0; r < nope; ++r) {
            for (int64_t c = 0; c < latent; ++c)
                plain[size(r * latent + c)] = flat[size((c / 16 * nope + r) * 16 + c % 16)];
        }
        return plain;
    }

    void writeQueries(int64_t head, const Floats& up) const {
        Floats weight = keyWeight(head), absorbed(size(w_.tokens * latent));
        numeric::sgemm(size(w_.tokens), size(latent), size(nope), up.data() + head * headUp, size(w_.heads * headUp),
                       weight.data(), size(latent), 0.0F, absorbed.data(), size(latent));
        round(absorbed.data(), w_.tokens * latent);
        for (int64_t t = 0; t < w_.tokens; ++t) {
            int64_t place = t * w_.heads + head;
            const float *rows = up.data() + place * headUp, *query = absorbed.data() + t * latent;
            Floats rotated(rows + nope, rows + headUp);
            rotate(t, rotated.data());
            if (w_.params.isCombined()) {
                uint16_t* out = launch_.out<uint16_t>("qOut0") + place * (latent + rope);
                encode(query, out, latent);
                encode(rotated.data(), out + latent, rope);
                continue;
            }
            encode(rotated.data(), launch_.out<uint16_t>("qOut1") + place * rope, rope);
            if (!w_.params.isInt8()) {
                encode(query, launch_.out<uint16_t>("qOut0") + place * latent, latent);
                continue;
            }
            float scale = cacheScale("qNopeScale", head);
            int8_t* out = launch_.out<int8_t>("qOut0") + place * latent;
            for (int64_t c = 0; c < latent; ++c) out[c] = throughFp16(query[c] * scale);
        }
    }

    const MlaPreprocessWork& w_;
    const Launch& launch_;
    const numeric::Storage half_;
};

}  // namespace

void mlaPreprocessKernel(const MlaPreprocessWork& work, const Launch& launch) { Preprocess(work, launch).run(); }

}  // namespace sim::atb
