// The framework's part of the check: operands that must be there, and the dtype rows of the operator definition.
#include <algorithm>

#include "ops/fused_infer_attention_check.hpp"
#include "ops/fused_infer_attention_rules.hpp"

namespace sim::fia {

namespace {

constexpr size_t longestList = 256;

void requireGiven(bool given, const char *name) {
    if (!given) refuse(paramNullptr, name, " is null; it is required");
}

void checkNulls(const Params &p) {
    requireGiven(p.query.has_value(), "query");
    requireGiven(p.key.has_value(), "key");
    requireGiven(p.value.has_value(), "value");
    requireGiven(p.attentionOut.has_value(), "attentionOut");
    if (p.softmaxLseFlag && !p.softmaxLse) {
        refuse(paramNullptr, "softmaxLse is null; with softmaxLseFlag true it is required");
    }
}

void checkLists(const Params &p) {
    if (p.key->empty()) refuse(paramInvalid, "key is an empty list (real CANN crashes here); 1 to 256 tensors");
    if (p.value->empty()) {
        refuse(p.ascend950 ? paramInvalid : tilingError, "value is an empty list",
               p.ascend950 ? " (real CANN crashes here)" : "", "; 1 to 256 tensors");
    }
    size_t longest = std::max(p.key->size(), p.value->size());
    if (longest > longestList) refuse(paramInvalid, "a list of ", longest, " tensors; at most 256 are allowed");
}

bool rowOfA2(aclDataType q, aclDataType kv, aclDataType out) {
    if (isHalf(q) && kv == q) return out == q || out == ACL_INT8;
    if (isHalf(q) && kv == ACL_INT8) return out == q || out == ACL_INT8;
    if (isHalf(q) && kv == ACL_INT4) return out == q;
    return q == ACL_INT8 && kv == ACL_INT8 && (isHalf(out) || out == ACL_INT8);
}

bool rowOf950(aclDataType q, aclDataType kv, aclDataType out) {
    if (isHalf(q)) {
        bool kvFits = kv == q || oneOf(kv, {ACL_INT8, ACL_INT4, ACL_HIFLOAT8, ACL_FLOAT8_E4M3FN, ACL_FLOAT4_E2M1});
        return kvFits && (out == q || oneOf(out, {ACL_INT8, ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8}));
    }
    if (q != kv) return false;
    if (q == ACL_INT8) return out == ACL_BF16;
    return oneOf(q, {ACL_FLOAT8_E4M3FN, ACL_HIFLOAT8}) && isHalf(out);
}

void checkDtypes(const Params &p) {
    aclDataType q = p.query->dtype, k = p.key->front().dtype, v = p.value->front().dtype, out = p.attentionOut->dtype;
    bool fits = k == v && (p.ascend950 ? rowOf950(q, k, out) : rowOfA2(q, k, out));
    if (!fits) {
        refuse(paramInvalid, "query, key, value and attentionOut have dtypes ", q, ", ", k, ", ", v, " and ", out,
               "; the operator definition has no such row",
               p.ascend950 ? " (FP16 or BF16 with key and value of the same, INT8, INT4, HIFLOAT8, FLOAT8_E4M3FN or "
                             "FLOAT4_E2M1; or INT8, FLOAT8_E4M3FN or HIFLOAT8 throughout with a 16-bit output)"
                           : " (FP16 or BF16 with key and value of the same, INT8 or INT4; or INT8 throughout)");
    }
    if (p.softmaxLseFlag && p.softmaxLse->dtype != ACL_FLOAT) {
        refuse(paramInvalid, "softmaxLse has dtype ", p.softmaxLse->dtype, "; allowed: FLOAT");
    }
}

void checkFormat(const char *name, const Tensor &t) {
    bool plain = oneOf(t.format, {ACL_FORMAT_ND, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_NCDHW});
    if (!plain) refuse(paramInvalid, name, " has format ", t.format, "; allowed: ND");
}

void unpackList(std::vector<Tensor> &list) {
    for (Tensor &t : list) {
        if (t.dtype != ACL_INT32) continue;
        t.dtype = ACL_INT4;
        if (!t.shape.empty()) t.shape.back() *= 8;
        t.strides.clear();
    }
}

}  // namespace

void checkDefinition(const Params &p) {
    checkNulls(p);
    checkLists(p);
    checkDtypes(p);
    checkFormat("query", *p.query);
    checkFormat("key", p.key->front());
    checkFormat("value", p.value->front());
    checkFormat("attentionOut", *p.attentionOut);
}

bool producesNothing(const Params &p) {
    return elements(p.attentionOut->shape) == 0 && (!p.softmaxLseFlag || elements(p.softmaxLse->shape) == 0);
}

void unpackInt4(Params &p) {
    if (!p.key || !p.value || p.key->empty() || p.value->empty()) return;
    if (p.key->front().dtype != ACL_INT32 || p.value->front().dtype != ACL_INT32) return;
    unpackList(*p.key);
    unpackList(*p.value);
    MaybeTensor &keyPrefix = p.keySharedPrefix, &valuePrefix = p.valueSharedPrefix;
    if (!keyPrefix || !valuePrefix || keyPrefix->dtype != ACL_INT32 || valuePrefix->dtype != ACL_INT32) return;
    for (MaybeTensor *prefix : {&keyPrefix, &valuePrefix}) {
        (*prefix)->dtype = ACL_INT4;
        if (!(*prefix)->shape.empty()) (*prefix)->shape.back() *= 8;
        (*prefix)->strides.clear();
    }
}

}  // namespace sim::fia
