// Paged caches of the older prompt kernel, without the token layouts.
#include <algorithm>

#include "ops/fused_infer_attention_prompt.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

void checkCache(const Prompt &s, int32_t block) {
    const Params &p = s.p;
    const Shape &k = p.key->front().shape, &v = s.value.shape;
    require(k == v && (k.size() == 3 || (k.size() == 4 && s.headsFirst())), "the key cache has shape ", k,
            " and the value cache ", v, "; they must be equal, with 3 axes", s.headsFirst() ? " or 4" : "",
            " in layout ", s.layout);
    auto h = static_cast<int64_t>(s.h);
    if (k.size() == 3) {
        require(k[1] == block && times(k[2], s.ratio) == h && k[2] <= 65535, "the key cache has shape ", k,
                "; expected [blocks, ", block, ", ", h / s.ratio, "], the last at most 65535");
    } else {
        require(times(k[1], s.ratio) == p.numHeads && k[2] == block && k[3] == h / p.numHeads,
                "the key cache has shape ", k, "; expected [blocks, ", p.numHeads / s.ratio, ", ", block, ", ",
                h / p.numHeads, "]");
    }
}

}  // namespace

void checkPromptPages(Prompt &s) {
    const Params &p = s.p;
    int32_t block = low32(p.blockSize);
    require(block % 128 == 0 && block >= 128 && block <= 1024, "blockSize is ", block,
            "; with several query tokens a multiple of 128 up to 1024 is allowed");
    const Shape &table = p.blockTable->shape;
    require(elements(table) != 0, "blockTableOptional has shape ", table, "; it must not be empty");
    checkCache(s, block);
    int32_t most = 0;
    for (uint32_t i = 0; i < s.b; ++i) {
        int32_t length = static_cast<int32_t>(promptLength(p.actualSeqLengthsKv, i));
        most = std::max(most, static_cast<int32_t>((static_cast<int64_t>(length) + block - 1) / block));
    }
    require(p.blockTable->dtype == ACL_INT32, "blockTableOptional has dtype ", p.blockTable->dtype, "; allowed: INT32");
    require(table.size() == 2 && low32(table[0]) == static_cast<int32_t>(s.b) && low32(table[1]) >= most,
            "blockTableOptional has shape ", table, "; expected [", s.b, ", at least ", most, "]");
    s.longestKv = static_cast<uint32_t>(most * block);
}

}  // namespace sim::fia
