// Token rows of key, value and rope as floats, wherever they lie: dense or strided tensors, lists, paged caches of
// three layouts, a shared prefix before the batch's own tokens.
#pragma once

#include <vector>

#include "core/operator.hpp"
#include "ops/fused_infer_attention_plan.hpp"

namespace sim::fia {

// `n` consecutive elements from element `offset` on.
void decodeElements(aclDataType dtype, const void *data, int64_t offset, int64_t n, float *out);
float decodeElement(aclDataType dtype, const void *data, int64_t offset);

// Which cache block holds a token. Ids are checked when they are read.
class PageTable {
   public:
    PageTable() = default;
    PageTable(const int32_t *ids, int64_t rows, int64_t columns, int64_t blockSize, int64_t blocks)
        : ids_(ids), rows_(rows), columns_(columns), blockSize_(blockSize), blocks_(blocks) {}
    bool given() const { return ids_ != nullptr; }
    int64_t blockSize() const { return blockSize_; }
    int64_t block(int64_t batch, int64_t token) const;

   private:
    const int32_t *ids_ = nullptr;
    int64_t rows_ = 0, columns_ = 0, blockSize_ = 1, blocks_ = 0;
};

class Rows {
   public:
    virtual ~Rows() = default;
    // Row r of the result is token + r, at out + r * ld.
    virtual void read(int64_t batch, int64_t head, int64_t token, int64_t count, float *out, int64_t ld) const = 0;
    // Tells the launch that these rows are read.
    virtual void tell(const Launch &launch, int64_t batch, int64_t head, int64_t token, int64_t count) const = 0;
};

class StridedRows : public Rows {
   public:
    StridedRows(const void *data, aclDataType dtype, const Steps &steps, int64_t width)
        : data_(data), dtype_(dtype), steps_(steps), width_(width) {}
    void read(int64_t batch, int64_t head, int64_t token, int64_t count, float *out, int64_t ld) const override;
    void tell(const Launch &launch, int64_t batch, int64_t head, int64_t token, int64_t count) const override;

   private:
    const void *data_;
    aclDataType dtype_;
    Steps steps_;
    int64_t width_;
};

// A tensor for each batch.
class ListedRows : public Rows {
   public:
    explicit ListedRows(std::vector<StridedRows> entries) : entries_(std::move(entries)) {}
    void read(int64_t batch, int64_t head, int64_t token, int64_t count, float *out, int64_t ld) const override {
        entries_[static_cast<size_t>(batch)].read(0, head, token, count, out, ld);
    }
    void tell(const Launch &launch, int64_t batch, int64_t head, int64_t token, int64_t count) const override {
        entries_[static_cast<size_t>(batch)].tell(launch, 0, head, token, count);
    }

   private:
    std::vector<StridedRows> entries_;
};

// [blocks, blockSize, N * D], [blocks, N, blockSize, D] or [blocks, N, D / c, blockSize, c].
class PagedRows : public Rows {
   public:
    PagedRows(const void *data, const Tensor &cache, const PageTable &pages, int64_t width);
    void read(int64_t batch, int64_t head, int64_t token, int64_t count, float *out, int64_t ld) const override;
    void tell(const Launch &launch, int64_t batch, int64_t head, int64_t token, int64_t count) const override;

   private:
    const void *data_;
    aclDataType dtype_;
    PageTable pages_;
    int64_t width_, piece_;  // a row lies in pieces of `piece_` elements
    int64_t blockStep_, headStep_, tokenStep_, pieceStep_;
};

}  // namespace sim::fia
