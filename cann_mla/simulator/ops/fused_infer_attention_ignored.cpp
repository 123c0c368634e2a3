// Operands and attributes that CANN accepts and then does not use.
#include "ops/fused_infer_attention_ignored.hpp"

#include <string>

#include "checker/finding.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

using Condition = bool (*)(const Params &, Route);

// A row for a member of Params: a tensor, an array, or a number with the value that asks for nothing.
template <class Member>
struct Ignored {
    const char *name;
    Member Params::*member;
    Condition applies;
    const char *reason;
    int64_t unset = 0;
};

bool sameDtype(const Params &p) { return p.query->dtype == p.key->front().dtype; }
bool plain(const Params &p, Route) { return isHalf(p.query->dtype) && sameDtype(p); }
bool splitFuse(const Params &, Route route) { return route == Route::SplitFuse; }
bool noPostQuant(const Params &p, Route) { return isHalf(p.attentionOut->dtype); }
bool notFullQuant(const Params &p, Route) { return p.query->dtype != ACL_INT8 || p.queryRope.has_value(); }
// The scale of the softmax's numerator serves FP8 queries too.
bool plainNumerator(const Params &p, Route route) {
    return notFullQuant(p, route) && p.query->dtype != ACL_FLOAT8_E4M3FN;
}
bool splitToo(const Params &p, Route) { return !sameDtype(p) && p.keyAntiquantScale.has_value(); }
bool noQueryLengths(const Params &p, Route route) { return !p.actualSeqLengths && !splitFuse(p, route); }
bool noKeyLengths(const Params &p, Route route) { return !p.actualSeqLengthsKv && !splitFuse(p, route); }
bool noPrefix(const Params &p, Route) { return !p.keySharedPrefix; }
bool noPseType(const Params &p, Route) { return p.pseType == 0; }
bool noWindow(const Params &p, Route) {
    int32_t mode = low32(p.sparseMode);
    return (mode == 0 && !p.attenMask) || (mode >= 1 && mode <= 3);
}

constexpr const char *sameDtypeReason = "query, key and value are not quantised";
constexpr const char *oneToken = "the kernels of A2 and A3 do not read it for one query token";
constexpr const char *splitFuseReason = "the TND kernel for D up to 256 does not read it";

constexpr int64_t unbounded = 2147483647;

const Ignored<MaybeTensor> tensors[] = {
    {"pseShift", &Params::pseShift, splitFuse, splitFuseReason},
    {"queryPaddingSize", &Params::queryPaddingSize, splitFuse, splitFuseReason},
    {"kvPaddingSize", &Params::kvPaddingSize, splitFuse, splitFuseReason},
    {"keySharedPrefix", &Params::keySharedPrefix, splitFuse, splitFuseReason},
    {"valueSharedPrefix", &Params::valueSharedPrefix, splitFuse, splitFuseReason},
    {"dequantScaleQuery", &Params::dequantScaleQuery, plain, sameDtypeReason},
    {"antiquantScale", &Params::antiquantScale, plain, sameDtypeReason},
    {"antiquantOffset", &Params::antiquantOffset, plain, sameDtypeReason},
    {"keyAntiquantScale", &Params::keyAntiquantScale, plain, sameDtypeReason},
    {"keyAntiquantOffset", &Params::keyAntiquantOffset, plain, sameDtypeReason},
    {"valueAntiquantScale", &Params::valueAntiquantScale, plain, sameDtypeReason},
    {"valueAntiquantOffset", &Params::valueAntiquantOffset, plain, sameDtypeReason},
    {"keyRopeAntiquantScale", &Params::keyRopeAntiquantScale, plain, sameDtypeReason},
    {"deqScale1", &Params::deqScale1, notFullQuant, "it belongs to an INT8 query without rope"},
    {"quantScale1", &Params::quantScale1, plainNumerator, "it belongs to an INT8 or FP8 query without rope"},
    {"deqScale2", &Params::deqScale2, notFullQuant, "it belongs to an INT8 query without rope"},
    {"quantScale2", &Params::quantScale2, noPostQuant, "attentionOut is not quantised"},
    {"quantOffset2", &Params::quantOffset2, noPostQuant, "attentionOut is not quantised"},
    {"antiquantScale", &Params::antiquantScale, splitToo, "keyAntiquantScale is there too, and counts"},
    {"antiquantOffset", &Params::antiquantOffset, splitToo, "keyAntiquantScale is there too, and counts"},
    {"queryPaddingSize", &Params::queryPaddingSize, noQueryLengths, "it needs actualSeqLengths"},
    {"kvPaddingSize", &Params::kvPaddingSize, noKeyLengths, "it needs actualSeqLengthsKv"},
};

const Ignored<MaybeArray> arrays[] = {
    {"actualSharedPrefixLen", &Params::actualSharedPrefixLen, noPrefix, "there is no keySharedPrefix"},
    {"qStartIdx", &Params::qStartIdx, noPseType, "pseType is 0"},
    {"kvStartIdx", &Params::kvStartIdx, noPseType, "pseType is 0"},
};

const Ignored<int64_t> numbers[] = {
    {"antiquantMode", &Params::antiquantMode, plain, sameDtypeReason},
    {"keyAntiquantMode", &Params::keyAntiquantMode, plain, sameDtypeReason},
    {"valueAntiquantMode", &Params::valueAntiquantMode, plain, sameDtypeReason},
    {"queryQuantMode", &Params::queryQuantMode, plain, sameDtypeReason},
    {"preTokens", &Params::preTokens, noWindow, "the sparse mode has no window of tokens", unbounded},
    {"nextTokens", &Params::nextTokens, noWindow, "the sparse mode has no window of tokens", unbounded},
};

bool given(const MaybeTensor &tensor, int64_t) { return tensor.has_value(); }
bool given(const MaybeArray &array, int64_t) { return array.has_value(); }
bool given(int64_t number, int64_t unset) { return number != unset; }

template <class Member, size_t count>
void reportRows(const std::string &api, const Params &p, Route route, const Ignored<Member> (&rows)[count]) {
    for (const auto &row : rows) {
        if (given(p.*row.member, row.unset) && row.applies(p, route)) {
            report("ignored-operand", api + ": " + row.name + " has no effect: " + row.reason);
        }
    }
}

// The route that takes what is missing from behind the arrays: all that contradicts is one finding.
void reportContradictions(const std::string &api, const Params &p) {
    int64_t sequences = p.actualSeqLengths->count, keys = p.actualSeqLengthsKv->count;
    std::string text;
    if (keys != sequences && !(p.blockTable && keys == 1)) {
        text += "; actualSeqLengthsKvOptional has " + std::to_string(keys) + " entries";
    }
    if (p.blockTable && axis(p.blockTable->shape, 0) < sequences) {
        text += "; blockTableOptional has " + std::to_string(axis(p.blockTable->shape, 0)) + " rows";
    }
    if (text.empty()) return;
    report("contradicting-lengths", api + ": actualSeqLengthsOptional names " + std::to_string(sequences) + " sequences" +
                                        emptyFirst(p.actualSeqLengths) + text);
}

}  // namespace

void reportIgnored(const Plan &plan) {
    const Params &p = plan.p;
    std::string api = "aclnnFusedInferAttentionScore" + (p.version == 1 ? "" : "V" + std::to_string(p.version));
    reportRows(api, p, plan.route, tensors);
    reportRows(api, p, plan.route, arrays);
    reportRows(api, p, plan.route, numbers);
    if (plan.route == Route::SplitFuse) reportContradictions(api, p);
    if (plan.ignoresQueryLengths && p.actualSeqLengths && p.actualSeqLengths->count > 0) {
        report("ignored-operand", api + ": actualSeqLengths has no effect: " + oneToken);
    }
    if (plan.ignoresQueryLengths && plan.sparseMode != low32(p.sparseMode)) {
        report("ignored-operand", api + ": sparseMode has no effect: " + oneToken);
    }
    if (p.softmaxLse && !p.softmaxLseFlag && elements(p.softmaxLse->shape) > 0) {
        report("ignored-operand", api + ": softmaxLse is not written: softmaxLseFlag is false");
    }
}

}  // namespace sim::fia
