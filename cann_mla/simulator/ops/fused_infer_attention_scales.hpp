// What stands between a stored key or value and its number: (x + offset) * scale, by tensor, head, channel, token,
// cache slot, or group of 32.
#pragma once

#include <vector>

#include "ops/fused_infer_attention_rows.hpp"

namespace sim::fia {

enum class Half { Whole, Key, Value };  // merged operands hold the scales of key and value one after the other

struct ScaleOperand {
    const Tensor *tensor = nullptr;
    const void *data = nullptr;
};

class Scales {
   public:
    Scales() = default;
    // `mode` is keyAntiquantMode or its kin: 0 tensor or channel, 1 token, 2 head, 3 token and head, 4 cache slot,
    // 5 cache slot and head, 6 groups of 32 along D a token.
    Scales(const Plan &plan, int64_t mode, Half half, ScaleOperand scale, ScaleOperand offset, const PageTable &pages,
           int64_t width);
    // MXFP8: groups of 32 along D for keys, along the tokens for values. Without pages the first needs where each
    // batch begins on the T axis, the second the first row of each batch, 64 tokens a row.
    static Scales microKeys(const Plan &plan, ScaleOperand scale, const PageTable &pages, int64_t width,
                            std::vector<int64_t> firstTokens);
    static Scales microValues(const Plan &plan, ScaleOperand scale, const PageTable &pages, int64_t width,
                              std::vector<int64_t> firstRows);

    // Sum and product are rounded to FP16, as by a kernel that dequantises to the dtype of the query.
    void roundEachStep(bool toFp16) { inFp16_ = toFp16; }
    // `token` counts from the first token of the batch, prefix and left padding included.
    void apply(int64_t batch, int64_t head, int64_t token, int64_t count, float *rows, int64_t ld) const;

   private:
    enum class By { Nothing, Channel, Token, Group, MicroKey, MicroValue };
    int64_t tokenIndex(int64_t batch, int64_t head, int64_t token) const;
    int64_t microKeyIndex(int64_t batch, int64_t head, int64_t token, int64_t group) const;
    int64_t microValueIndex(int64_t batch, int64_t head, int64_t token, int64_t channel) const;
    void applyChannels(int64_t head, int64_t count, float *rows, int64_t ld) const;
    void applyTokens(int64_t batch, int64_t head, int64_t token, int64_t count, float *rows, int64_t ld) const;
    void applyGroups(int64_t batch, int64_t head, int64_t token, int64_t count, float *rows, int64_t ld) const;
    void applyMicroValues(int64_t batch, int64_t head, int64_t token, int64_t count, float *rows, int64_t ld) const;
    void round(float *row) const;
    float scaleAt(int64_t index) const { return decodeElement(dtype_, scale_, first_ + index); }

    By by_ = By::Nothing;
    aclDataType dtype_ = ACL_FLOAT;
    const void *scale_ = nullptr, *offset_ = nullptr;
    int64_t first_ = 0;  // where the half begins
    int64_t width_ = 0, heads_ = 1;
    Steps steps_;  // of token scales
    bool inPages_ = false, nz_ = false, inFp16_ = false;
    PageTable pages_;
    std::vector<float> channelScale_, channelOffset_;  // [N, D]
    std::vector<int64_t> begins_;                      // first token or row of each batch
};

}  // namespace sim::fia
