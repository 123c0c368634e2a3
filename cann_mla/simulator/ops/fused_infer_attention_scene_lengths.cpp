// Shared path: actualSeqLengths and actualSeqLengthsKv.
#include <algorithm>

#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

// Token layouts: one cumulative end a batch. Under paging the kv entries are plain lengths.
void checkEnds(const Scene &s, const char *name, const IntArray &array, bool cumulative) {
    require(array.count == s.b, name, " has ", array.count, " entries; layout ", s.layout, " needs one a batch, ", s.b);
    int64_t previous = 0;
    for (int64_t i = 0; i < array.count; ++i) {
        int64_t value = array.values[i];
        require(value >= 0, name, "[", i, "] is ", value, "; it must not be negative");
        require(!cumulative || value >= previous, name, "[", i, "] is ", value, " after ", previous,
                "; the entries are cumulative and must not fall");
        previous = value;
    }
}

void checkPlain(const Scene &s, const char *name, const IntArray &array, int64_t longest) {
    require(array.count == 1 || array.count >= s.b, name, " has ", array.count, " entries; allowed: 1, or at least B, ",
            s.b);
    int64_t used = std::min(array.count, s.b);
    for (int64_t i = 0; i < used; ++i) {
        require(array.values[i] >= 0 && array.values[i] <= longest, name, "[", i, "] is ", array.values[i],
                "; allowed: 0 to ", longest);
    }
}

void checkLast(const char *name, const IntArray &array, const char *operand, const Shape &shape, Layout layout) {
    if (layout != Layout::TND && layout != Layout::NTD) return;
    int64_t tokens = axis(shape, layout == Layout::TND ? 0 : 1);
    require(array.values.back() == tokens, "the last entry of ", name, " is ", array.values.back(),
            "; it must be the number of tokens of ", operand, ", ", tokens);
}

void checkPresence(const Scene &s) {
    require(!s.tokensFirst(s.qLayout) || s.qLens, "actualSeqLengthsOptional is null; layout ", s.layout, " needs it");
    require(!s.tokensFirst(s.kvLayout) || s.kvLens(), "actualSeqLengthsKvOptional is null; layout ", s.layout,
            " needs it");
    require(s.storage != Storage::Paged || s.kvLens(),
            "actualSeqLengthsKvOptional is null; blockTableOptional needs it");
    require(!(s.quant == Quant::Full && s.mla == Mla::Split512 && s.qLens && !s.tokensFirst(s.qLayout)),
            "actualSeqLengthsOptional is given; full quantisation with rope and D 512 takes it in layouts TND and "
            "TND_NTD only");
}

}  // namespace

void checkLengths(const Scene &s) {
    checkPresence(s);
    if (s.lengthsUnknown) return;
    bool tokens = s.tokensFirst(s.qLayout), paged = s.storage == Storage::Paged;
    if (s.qLens) {
        if (tokens) checkEnds(s, "actualSeqLengthsOptional", *s.qLens, true);
        if (!tokens) checkPlain(s, "actualSeqLengthsOptional", *s.qLens, s.s1);
        checkLast("actualSeqLengthsOptional", *s.qLens, "query", s.p.query->shape, s.qLayout);
    }
    if (s.kvLens()) {
        if (tokens) checkEnds(s, "actualSeqLengthsKvOptional", *s.kvLens(), !paged);
        if (!tokens) checkPlain(s, "actualSeqLengthsKvOptional", *s.kvLens(), s.s2);
        checkLast("actualSeqLengthsKvOptional", *s.kvLens(), "key", s.p.key->front().shape, s.kvLayout);
    }
}

}  // namespace sim::fia
