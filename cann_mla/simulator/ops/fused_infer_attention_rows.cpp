#include "ops/fused_infer_attention_rows.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "numeric/convert.hpp"

namespace sim::fia {

namespace {

constexpr int32_t deviceFault = 507015;  // what the device reports for an access outside a tensor

template <class Element>
const Element *at(const void *data, int64_t offset) {
    return static_cast<const Element *>(data) + offset;
}

// Four-bit elements from any offset, also an odd one.
template <class Decode>
void decodeNibbles(const void *data, int64_t offset, int64_t n, float *out, const Decode &decode) {
    const auto *bytes = static_cast<const uint8_t *>(data);
    for (int64_t i = 0; i < n; ++i) {
        uint8_t byte = bytes[(offset + i) / 2];
        out[i] = decode(static_cast<uint8_t>((offset + i) % 2 ? byte >> 4 : byte & 15));
    }
}

void tellElements(const Launch &launch, aclDataType dtype, const void *data, int64_t offset, int64_t n) {
    const int64_t bits = elementBits(dtype), first = offset * bits / 8, last = ((offset + n) * bits + 7) / 8;
    launch.reads(static_cast<const uint8_t *>(data) + first, static_cast<size_t>(last - first));
}

}  // namespace

void decodeElements(aclDataType dtype, const void *data, int64_t offset, int64_t n, float *out) {
    auto count = static_cast<size_t>(n);
    switch (dtype) {
        case ACL_FLOAT:
            std::copy_n(at<float>(data, offset), count, out);
            break;
        case ACL_FLOAT16:
            numeric::fp16ToFloat(at<uint16_t>(data, offset), out, count);
            break;
        case ACL_BF16:
            numeric::bf16ToFloat(at<uint16_t>(data, offset), out, count);
            break;
        case ACL_INT8:
            numeric::int8ToFloat(at<int8_t>(data, offset), out, count);
            break;
        case ACL_FLOAT8_E4M3FN:
            numeric::e4m3ToFloat(at<uint8_t>(data, offset), out, count);
            break;
        case ACL_HIFLOAT8:
            numeric::hifloat8ToFloat(at<uint8_t>(data, offset), out, count);
            break;
        case ACL_FLOAT8_E8M0:
            for (int64_t i = 0; i < n; ++i) out[i] = numeric::e8m0ToFloat(*at<uint8_t>(data, offset + i));
            break;
        case ACL_INT4:
            decodeNibbles(data, offset, n, out, [](uint8_t b) { return static_cast<float>(numeric::int4ToInt8(b)); });
            break;
        case ACL_FLOAT4_E2M1:
            decodeNibbles(data, offset, n, out, [](uint8_t b) { return numeric::e2m1ToFloat(b); });
            break;
        default:
            throw KernelFault(deviceFault, std::string("an operand has dtype ") + dtypeName(dtype));
    }
}

float decodeElement(aclDataType dtype, const void *data, int64_t offset) {
    float value;
    decodeElements(dtype, data, offset, 1, &value);
    return value;
}

int64_t PageTable::block(int64_t batch, int64_t token) const {
    int64_t column = token / blockSize_;
    if (batch >= rows_ || column >= columns_) {
        throw KernelFault(deviceFault, "blockTable has " + std::to_string(rows_) + " rows and " +
                                           std::to_string(columns_) + " columns; token " + std::to_string(token) +
                                           " of batch " + std::to_string(batch) + " is outside");
    }
    int64_t id = ids_[batch * columns_ + column];
    if (id < 0 || id >= blocks_) {
        throw KernelFault(deviceFault, "blockTable[" + std::to_string(batch) + "][" + std::to_string(column) + "] is " +
                                           std::to_string(id) + "; the cache has blocks 0 to " +
                                           std::to_string(blocks_ - 1));
    }
    return id;
}

void StridedRows::read(int64_t batch, int64_t head, int64_t token, int64_t count, float *out, int64_t ld) const {
    int64_t offset = batch * steps_.batch + head * steps_.head + token * steps_.token;
    if (steps_.token == width_ && ld == width_) return decodeElements(dtype_, data_, offset, count * width_, out);
    for (int64_t r = 0; r < count; ++r) decodeElements(dtype_, data_, offset + r * steps_.token, width_, out + r * ld);
}

void StridedRows::tell(const Launch &launch, int64_t batch, int64_t head, int64_t token, int64_t count) const {
    int64_t offset = batch * steps_.batch + head * steps_.head + token * steps_.token;
    for (int64_t r = 0; r < count; ++r) tellElements(launch, dtype_, data_, offset + r * steps_.token, width_);
}

PagedRows::PagedRows(const void *data, const Tensor &cache, const PageTable &pages, int64_t width)
    : data_(data), dtype_(cache.dtype), pages_(pages), width_(width), piece_(width), pieceStep_(0) {
    Shape strides = cache.strides;
    if (strides.empty()) {
        strides.assign(cache.shape.size(), 1);
        for (size_t i = cache.shape.size(); i-- > 1;) strides[i - 1] = strides[i] * cache.shape[i];
    }
    blockStep_ = strides[0];
    if (cache.shape.size() == 3) {
        headStep_ = width;
        tokenStep_ = strides[1];
    } else if (cache.shape.size() == 4) {
        headStep_ = strides[1];
        tokenStep_ = strides[2];
    } else {
        headStep_ = strides[1];
        pieceStep_ = strides[2];
        tokenStep_ = strides[3];
        piece_ = cache.shape[4];
    }
}

void PagedRows::read(int64_t batch, int64_t head, int64_t token, int64_t count, float *out, int64_t ld) const {
    int64_t size = pages_.blockSize();
    for (int64_t done = 0; done < count;) {
        int64_t slot = (token + done) % size, n = std::min(count - done, size - slot);
        int64_t base = pages_.block(batch, token + done) * blockStep_ + head * headStep_ + slot * tokenStep_;
        for (int64_t r = 0; r < n; ++r, ++done) {
            float *row = out + done * ld;
            for (int64_t c = 0; c < width_; c += piece_) {
                int64_t offset = base + r * tokenStep_ + c / piece_ * pieceStep_;
                decodeElements(dtype_, data_, offset, std::min(piece_, width_ - c), row + c);
            }
        }
    }
}

void PagedRows::tell(const Launch &launch, int64_t batch, int64_t head, int64_t token, int64_t count) const {
    int64_t size = pages_.blockSize();
    for (int64_t r = token; r < token + count; ++r) {
        int64_t base = pages_.block(batch, r) * blockStep_ + head * headStep_ + r % size * tokenStep_;
        for (int64_t c = 0; c < width_; c += piece_) {
            tellElements(launch, dtype_, data_, base + c / piece_ * pieceStep_, std::min(piece_, width_ - c));
        }
    }
}

}  // namespace sim::fia
