#include "ops/fused_infer_attention_scales.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "ops/fused_infer_attention_softmax.hpp"

namespace sim::fia {

namespace {

constexpr int32_t deviceFault = 507015;
constexpr int64_t groupSize = 32;

[[noreturn]] void fault(const std::string &text) { throw KernelFault(deviceFault, text); }

void needElements(const ScaleOperand &operand, int64_t least) {
    if (elements(operand.tensor->shape) < least) {
        fault("an antiquant scale or offset has fewer elements than the kernel reads, " + std::to_string(least));
    }
}

int64_t up(int64_t n, int64_t size) { return (n + size - 1) / size; }

// One scale a channel from one a tensor, a head or a channel.
std::vector<float> spread(const ScaleOperand &operand, int64_t first, int64_t count, int64_t heads, int64_t width) {
    std::vector<float> channels(static_cast<size_t>(heads * width));
    bool fits = count == 1 || count == heads || count == heads * width;
    if (!fits)
        fault("an antiquant scale or offset has " + std::to_string(count) +
              " elements; the kernel knows 1, N or N * D");
    for (int64_t i = 0; i < heads * width; ++i) {
        int64_t from = count == 1 ? 0 : count == heads * width ? i : i / width;
        channels[static_cast<size_t>(i)] = decodeElement(operand.tensor->dtype, operand.data, first + from);
    }
    return channels;
}

}  // namespace

Scales::Scales(const Plan &plan, int64_t mode, Half half, ScaleOperand scale, ScaleOperand offset,
               const PageTable &pages, int64_t width)
    : width_(width), heads_(plan.kvHeads), pages_(pages) {
    if (!scale.data) fault("key or value is quantised and its scale is null or empty");
    dtype_ = scale.tensor->dtype;
    scale_ = scale.data;
    offset_ = offset.data;
    const Shape &shape = scale.tensor->shape;
    int64_t count = elements(shape) / (half == Half::Whole ? 1 : 2), last = shape.empty() ? 1 : shape.back();
    first_ = half == Half::Value ? count : 0;
    if (offset.data) needElements(offset, elements(shape));
    inPages_ = mode == 4 || mode == 5;
    int64_t tokens = plan.columns + plan.prefixLength;
    switch (mode) {
        case 1:
        case 3: {
            by_ = By::Token;
            int64_t heads = mode == 3 ? heads_ : 1;
            steps_ = {heads * last, mode == 3 ? last : 0, 1};
            if (count < plan.batches * heads * last || last < tokens)
                fault("the scales by token do not cover batches and tokens");
            break;
        }
        case 4:
        case 5: {
            by_ = By::Token;
            int64_t size = pages.blockSize();
            steps_ = {mode == 5 ? heads_ * size : size, mode == 5 ? size : 0, 1};
            needElements(scale, elements(Shape{axis(plan.p.key->front().shape, 0), steps_.batch}));
            break;
        }
        case 6: {
            by_ = By::Group;
            int64_t groups = up(width, groupSize), length = axis(shape, shape.size() - 2);
            steps_ = {heads_ * length * groups, length * groups, groups};
            if (count < plan.batches * steps_.batch || length < tokens)
                fault("the scales by group do not cover batches and tokens");
            break;
        }
        default:
            by_ = By::Channel;
            channelScale_ = spread(scale, first_, count, heads_, width);
            if (offset.data) channelOffset_ = spread(offset, first_, count, heads_, width);
    }
}

Scales Scales::microKeys(const Plan &plan, ScaleOperand scale, const PageTable &pages, int64_t width,
                         std::vector<int64_t> firstTokens) {
    if (!scale.data) fault("keyAntiquantScale is empty");
    Scales s;
    s.by_ = By::MicroKey;
    s.dtype_ = scale.tensor->dtype;
    s.scale_ = scale.data;
    s.width_ = width;
    s.heads_ = plan.kvHeads;
    s.pages_ = pages;
    s.nz_ = plan.paged && plan.p.key->front().shape.size() == 5;
    s.begins_ = std::move(firstTokens);
    return s;
}

Scales Scales::microValues(const Plan &plan, ScaleOperand scale, const PageTable &pages, int64_t width,
                           std::vector<int64_t> firstRows) {
    Scales s = microKeys(plan, scale, pages, width, std::move(firstRows));
    s.by_ = By::MicroValue;
    return s;
}

int64_t Scales::tokenIndex(int64_t batch, int64_t head, int64_t token) const {
    if (!inPages_) return batch * steps_.batch + head * steps_.head + token * steps_.token;
    return pages_.block(batch, token) * steps_.batch + head * steps_.head + token % pages_.blockSize();
}

int64_t Scales::microKeyIndex(int64_t batch, int64_t head, int64_t token, int64_t group) const {
    int64_t pairs = up(width_, 2 * groupSize);
    if (!pages_.given()) return ((begins_[static_cast<size_t>(batch)] + token) * heads_ + head) * pairs * 2 + group;
    int64_t size = pages_.blockSize(), block = pages_.block(batch, token) * heads_ + head, slot = token % size;
    if (!nz_) return (block * size + slot) * pairs * 2 + group;
    return (block * up(size, 16) + slot / 16) * pairs * 32 + group / 2 * 32 + slot % 16 * 2 + group % 2;
}

int64_t Scales::microValueIndex(int64_t batch, int64_t head, int64_t token, int64_t channel) const {
    if (!pages_.given()) {
        int64_t row = begins_[static_cast<size_t>(batch)] + token / 64;
        return ((row * heads_ + head) * width_ + channel) * 2 + token % 64 / groupSize;
    }
    int64_t size = pages_.blockSize(), block = pages_.block(batch, token) * heads_ + head, slot = token % size;
    int64_t rows = up(size, 64), second = slot % 64 / groupSize;
    if (!nz_) return ((block * rows + slot / 64) * width_ + channel) * 2 + second;
    return ((block * up(width_, 16) + channel / 16) * rows + slot / 64) * 32 + channel % 16 * 2 + second;
}

void Scales::round(float *row) const {
    if (inFp16_) roundToFp16(row, static_cast<size_t>(width_));
}

void Scales::applyChannels(int64_t head, int64_t count, float *rows, int64_t ld) const {
    const float *scale = channelScale_.data() + head * width_;
    const float *offset = channelOffset_.empty() ? nullptr : channelOffset_.data() + head * width_;
    for (int64_t r = 0; r < count; ++r) {
        float *row = rows + r * ld;
        if (offset) {
            for (int64_t c = 0; c < width_; ++c) row[c] += offset[c];
            round(row);
        }
        for (int64_t c = 0; c < width_; ++c) row[c] *= scale[c];
        round(row);
    }
}

void Scales::applyTokens(int64_t batch, int64_t head, int64_t token, int64_t count, float *rows, int64_t ld) const {
    for (int64_t r = 0; r < count; ++r) {
        int64_t index = tokenIndex(batch, head, token + r);
        float scale = scaleAt(index), offset = offset_ ? decodeElement(dtype_, offset_, first_ + index) : 0.0F;
        float *row = rows + r * ld;
        for (int64_t c = 0; c < width_; ++c) row[c] += offset;
        if (offset_) round(row);
        for (int64_t c = 0; c < width_; ++c) row[c] *= scale;
        round(row);
    }
}

void Scales::applyGroups(int64_t batch, int64_t head, int64_t token, int64_t count, float *rows, int64_t ld) const {
    for (int64_t r = 0; r < count; ++r) {
        for (int64_t group = 0; group < up(width_, groupSize); ++group) {
            int64_t index = by_ == By::Group ? tokenIndex(batch, head, token + r) + group
                                             : microKeyIndex(batch, head, token + r, group);
            float scale = scaleAt(index);
            int64_t end = std::min(width_, (group + 1) * groupSize);
            for (int64_t c = group * groupSize; c < end; ++c) rows[r * ld + c] *= scale;
        }
        round(rows + r * ld);
    }
}

void Scales::applyMicroValues(int64_t batch, int64_t head, int64_t token, int64_t count, float *rows,
                              int64_t ld) const {
    for (int64_t r = 0; r < count; ++r) {
        for (int64_t c = 0; c < width_; ++c) rows[r * ld + c] *= scaleAt(microValueIndex(batch, head, token + r, c));
    }
}

void Scales::apply(int64_t batch, int64_t head, int64_t token, int64_t count, float *rows, int64_t ld) const {
    switch (by_) {
        case By::Nothing:
            return;
        case By::Channel:
            return applyChannels(head, count, rows, ld);
        case By::Token:
            return applyTokens(batch, head, token, count, rows, ld);
        case By::Group:
        case By::MicroKey:
            return applyGroups(batch, head, token, count, rows, ld);
        case By::MicroValue:
            return applyMicroValues(batch, head, token, count, rows, ld);
    }
}

}  // namespace sim::fia
