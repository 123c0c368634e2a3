#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <utility>

#include "ops/ring_attention_update.hpp"

namespace sim::ring {

namespace {

constexpr int32_t paramNullptr = 161001, paramInvalid = 161002, noKernel = 561000, tilingFailed = 561103;
constexpr int64_t softmaxCopies = 8;
constexpr int64_t mostHeads = 256, largestHeadDim = 768, headDimStep = 64;

using Named = std::pair<const char *, const TensorDesc *>;

std::string print(const std::vector<int64_t> &shape) {
    std::ostringstream out;
    out << '[';
    for (size_t i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
    out << ']';
    return out.str();
}

void require(bool holds, int32_t status, const std::string &text) {
    if (!holds) throw Rejection{status, text};
}

void requireAlike(int32_t status, const Named &found, const Named &wanted) {
    require(found.second->shape == wanted.second->shape, status,
            std::string(found.first) + " has shape " + print(found.second->shape) + "; that of " + wanted.first +
                " is " + print(wanted.second->shape) + ", and they must be equal");
}

std::vector<Named> inputs(const Params &p) {
    return {{"prevAttnOut", p.prevAttnOut}, {"prevSoftmaxMax", p.prevSoftmaxMax}, {"prevSoftmaxSum", p.prevSoftmaxSum},
            {"curAttnOut", p.curAttnOut},   {"curSoftmaxMax", p.curSoftmaxMax},   {"curSoftmaxSum", p.curSoftmaxSum}};
}

std::vector<Named> softmaxInputs(const Params &p) {
    return {{"prevSoftmaxMax", p.prevSoftmaxMax},
            {"prevSoftmaxSum", p.prevSoftmaxSum},
            {"curSoftmaxMax", p.curSoftmaxMax},
            {"curSoftmaxSum", p.curSoftmaxSum}};
}

std::vector<Named> outputs(const Params &p) {
    return {{"attnOutOut", p.attnOut}, {"softmaxMaxOut", p.softmaxMax}, {"softmaxSumOut", p.softmaxSum}};
}

// ---- phase one ----

void checkNulls(const Params &p, bool executorIsNull, bool workspaceSizeIsNull) {
    for (const auto &list : {inputs(p), outputs(p)}) {
        for (const auto &[name, desc] : list)
            require(desc, paramNullptr, std::string(name) + " is null; it is required");
    }
    require(!executorIsNull, paramNullptr, "executor is null; it is required");
    require(!workspaceSizeIsNull, paramNullptr, "workspaceSize is null; it is required");
}

// CANN asks that one softmax operand be FLOAT, not all; the others are caught in phase two.
void checkDtypes(const Params &p) {
    aclDataType dtype = p.prevAttnOut->dtype;
    require(p.curAttnOut->dtype == dtype && p.attnOut->dtype == dtype, paramInvalid,
            std::string("prevAttnOut, curAttnOut and attnOutOut have dtypes ") + dtypeName(dtype) + ", " +
                dtypeName(p.curAttnOut->dtype) + " and " + dtypeName(p.attnOut->dtype) + "; they must be equal");
    require(dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16, paramInvalid,
            std::string("prevAttnOut has dtype ") + dtypeName(dtype) + "; allowed: FLOAT, FLOAT16, BF16");
    std::vector<Named> softmax = softmaxInputs(p);
    softmax.insert(softmax.end(), {{"softmaxMaxOut", p.softmaxMax}, {"softmaxSumOut", p.softmaxSum}});
    bool any = std::any_of(softmax.begin(), softmax.end(), [](const Named &t) { return t.second->dtype == ACL_FLOAT; });
    require(any, paramInvalid,
            std::string("prevSoftmaxMax has dtype ") + dtypeName(p.prevSoftmaxMax->dtype) +
                "; the softmax operands must be FLOAT");
}

void checkAxes(const Params &p) {
    for (const auto &[name, desc] : inputs(p)) {
        bool whole = std::find(desc->shape.begin(), desc->shape.end(), 0) == desc->shape.end();
        require(whole, paramInvalid, std::string(name) + " has shape " + print(desc->shape) + "; it must not be empty");
    }
    require(p.inputLayout.has_value(), paramInvalid,
            "inputLayoutOptional is null; allowed: SBH, TND (real CANN crashes here)");
    const std::string &layout = *p.inputLayout;
    require(layout == "SBH" || layout == "TND", paramInvalid,
            "inputLayoutOptional is \"" + layout + "\"; allowed: SBH, TND");
    int64_t rank = layout == "SBH" ? 4 : 3;
    for (const auto &[name, desc] : softmaxInputs(p)) {
        require(desc->rank() == rank && desc->shape.back() == softmaxCopies, paramInvalid,
                std::string(name) + " has shape " + print(desc->shape) + "; layout " + layout + " wants " +
                    (rank == 4 ? "[B, N, S, 8]" : "[T, N, 8]"));
    }
    if (layout == "SBH") return;
    const auto &attn = p.prevAttnOut->shape;
    require(
        attn.size() >= 3 && attn[1] <= mostHeads && attn[2] <= largestHeadDim, paramInvalid,
        "prevAttnOut has shape " + print(attn) + "; layout TND wants [T, N, D] with N at most 256 and D at most 768");
    require(p.actualSeqQlen, paramNullptr,
            "actualSeqQlenOptional is null; layout TND needs it (real CANN crashes here)");
}

void checkFormats(const Params &p) {
    std::vector<Named> all = inputs(p);
    for (const Named &t : outputs(p)) all.push_back(t);
    if (*p.inputLayout == "TND") all.push_back({"actualSeqQlenOptional", p.actualSeqQlen});
    for (const auto &[name, desc] : all) {
        require(desc->format != ACL_FORMAT_FRACTAL_NZ, paramInvalid,
                std::string(name) + " has format FRACTAL_NZ; allowed: ND");
    }
}

// The result is copied into the caller's outputs; CANN reports a copy that does not fit as a null pointer.
void checkOutputs(const Params &p) {
    requireAlike(paramNullptr, {"attnOutOut", p.attnOut}, {"prevAttnOut", p.prevAttnOut});
    requireAlike(paramNullptr, {"softmaxMaxOut", p.softmaxMax}, {"prevSoftmaxMax", p.prevSoftmaxMax});
    requireAlike(paramNullptr, {"softmaxSumOut", p.softmaxSum}, {"prevSoftmaxSum", p.prevSoftmaxSum});
    for (const Named &out : {Named{"softmaxMaxOut", p.softmaxMax}, Named{"softmaxSumOut", p.softmaxSum}}) {
        require(out.second->dtype == ACL_FLOAT, paramNullptr,
                std::string(out.first) + " has dtype " + dtypeName(out.second->dtype) + "; allowed: FLOAT");
    }
}

// ---- phase two ----

void checkKernelDtypes(const Params &p) {
    for (const auto &[name, desc] : softmaxInputs(p)) {
        require(desc->dtype == ACL_FLOAT, noKernel,
                std::string(name) + " has dtype " + dtypeName(desc->dtype) + "; allowed: FLOAT");
    }
}

bool softmaxLayoutKnown(const Params &p) {
    const auto &layout = p.softmaxLayout;
    return !layout || layout->empty() || *layout == "SBH" || *layout == "TND";
}

void checkSoftmaxLayout(const Params &p) {
    require(softmaxLayoutKnown(p), tilingFailed,
            "inputSoftmaxLayoutOptional is \"" + p.softmaxLayout.value_or("") + "\"; allowed: \"\", SBH, TND");
}

void checkSbh(const Params &p) {
    const auto &attn = p.prevAttnOut->shape, &softmax = p.prevSoftmaxMax->shape;
    require(attn.size() == 3 && attn[0] == softmax[2] && attn[1] == softmax[0], tilingFailed,
            "prevAttnOut has shape " + print(attn) + " and prevSoftmaxMax " + print(softmax) +
                "; layout SBH wants [S, B, H] and [B, N, S, 8]");
    requireAlike(tilingFailed, {"curAttnOut", p.curAttnOut}, {"prevAttnOut", p.prevAttnOut});
    for (const Named &t : softmaxInputs(p)) requireAlike(tilingFailed, t, {"prevSoftmaxMax", p.prevSoftmaxMax});
    require(!p.ascend950 || attn[2] % softmax[1] == 0, tilingFailed,
            "prevAttnOut has shape " + print(attn) + "; H must be a multiple of N, " + std::to_string(softmax[1]));
}

void checkTndOnA2(const Params &p) {
    int64_t d = p.prevAttnOut->shape[2];
    require(d % headDimStep == 0, tilingFailed,
            "D of prevAttnOut is " + std::to_string(d) + "; layout TND wants a multiple of 64");
    require(p.actualSeqQlen->dtype == ACL_INT64, tilingFailed,
            std::string("actualSeqQlenOptional has dtype ") + dtypeName(p.actualSeqQlen->dtype) + "; allowed: INT64");
}

void checkTndOn950(const Params &p) {
    const auto &prev = p.prevAttnOut->shape, &cur = p.curAttnOut->shape, &softmax = p.prevSoftmaxMax->shape;
    bool fits = prev.size() == 3 && cur.size() == 3 && prev[0] == softmax[0] && prev[1] == softmax[1] &&
                cur[0] == softmax[0] && cur[1] == softmax[1];
    require(fits, tilingFailed,
            "prevAttnOut has shape " + print(prev) + ", curAttnOut " + print(cur) + " and prevSoftmaxMax " +
                print(softmax) + "; T and N must be equal");
    for (const Named &t : softmaxInputs(p)) requireAlike(tilingFailed, t, {"prevSoftmaxMax", p.prevSoftmaxMax});
    int64_t count = p.actualSeqQlen->shape.empty() ? 0 : p.actualSeqQlen->shape[0];
    require(count >= 2, tilingFailed,
            "actualSeqQlenOptional has shape " + print(p.actualSeqQlen->shape) +
                "; at least two values, 0 and T, are needed");
}

void checkTiling(const Params &p) {
    bool tnd = *p.inputLayout == "TND";
    if (p.ascend950 || tnd) checkSoftmaxLayout(p);
    if (!tnd) {
        checkSbh(p);
    } else if (p.ascend950) {
        checkTndOn950(p);
    } else {
        checkTndOnA2(p);
    }
}

template <class Check>
std::optional<Rejection> caught(const Check &body) {
    try {
        body();
        return std::nullopt;
    } catch (const Rejection &rejection) {
        return rejection;
    }
}

}  // namespace

std::optional<Rejection> check(const Params &p, bool executorIsNull, bool workspaceSizeIsNull) {
    return caught([&] {
        checkNulls(p, executorIsNull, workspaceSizeIsNull);
        checkDtypes(p);
        checkAxes(p);
        checkFormats(p);
        checkOutputs(p);
    });
}

std::optional<Rejection> checkLate(const Params &p) {
    return caught([&] {
        checkKernelDtypes(p);
        checkTiling(p);
    });
}

}  // namespace sim::ring
