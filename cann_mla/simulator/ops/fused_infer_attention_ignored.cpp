#include "ops/fused_infer_attention_ignored.hpp"

#include <string>

#include "core/findings.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

using Operand = MaybeTensor Params::*;

struct Ignored {
    const char *name;
    Operand operand;
    bool (*applies)(const Params &, Route);
    const char *reason;
};

bool sameDtype(const Params &p) { return p.query->dtype == p.key->front().dtype; }
bool plain(const Params &p, Route) { return isHalf(p.query->dtype) && sameDtype(p); }
bool splitFuse(const Params &, Route route) { return route == Route::SplitFuse; }
bool noPostQuant(const Params &p, Route) { return isHalf(p.attentionOut->dtype); }
bool notFullQuant(const Params &p, Route) { return p.query->dtype != ACL_INT8 || p.queryRope.has_value(); }

constexpr const char *sameDtypeReason = "query, key and value are not quantised";
constexpr const char *splitFuseReason = "the TND kernel for D up to 256 does not read it";

const Ignored table[] = {
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
    {"quantScale1", &Params::quantScale1, notFullQuant, "it belongs to an INT8 query without rope"},
    {"deqScale2", &Params::deqScale2, notFullQuant, "it belongs to an INT8 query without rope"},
    {"quantScale2", &Params::quantScale2, noPostQuant, "attentionOut is not quantised"},
    {"quantOffset2", &Params::quantOffset2, noPostQuant, "attentionOut is not quantised"},
};

}  // namespace

void reportIgnored(const Params &p, Route route) {
    std::string api = "aclnnFusedInferAttentionScore" + (p.version == 1 ? "" : "V" + std::to_string(p.version));
    for (const Ignored &row : table) {
        if (p.*row.operand && row.applies(p, route)) {
            report(api + ": " + row.name + " has no effect: " + row.reason);
        }
    }
    if (p.softmaxLse && !p.softmaxLseFlag && elements(p.softmaxLse->shape) > 0) {
        report(api + ": softmaxLse is not written: softmaxLseFlag is false");
    }
}

}  // namespace sim::fia
