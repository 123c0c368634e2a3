#include "atb/atb_acl.h"
#include "atb/mla.hpp"
#include "core/entry.hpp"

extern "C" {

atb_Status AtbMLAGetWorkspaceSize(const aclTensor* qNope, const aclTensor* qRope, const aclTensor* ctKV,
                                  const aclTensor* kRope, const aclTensor* blockTables, const aclTensor* contextLens,
                                  const aclTensor* mask, const aclTensor* qSeqLen, const aclTensor* qkDescale,
                                  const aclTensor* pvDescale, int32_t headNum, float qkScale, int32_t kvHeadNum,
                                  int maskType, int calcType, uint8_t cacheMode, aclTensor* attenOut, aclTensor* lse,
                                  uint64_t* workspaceSize, atb_Operation** op, atb_Context* context) {
    SIM_API;
    sim::atb::PhaseOne call("AtbMLA", workspaceSize, op, context);
    sim::atb::MlaParams params{headNum, qkScale, kvHeadNum, maskType, calcType, cacheMode};
    if (int32_t status = call.create<sim::atb::Mla>(params)) return status;
    call.input("qNope", qNope);
    call.input("qRope", qRope);
    call.input("ctKV", ctKV);
    call.input("kRope", kRope);
    call.input("blockTables", blockTables);
    call.hostInput("contextLens", contextLens);
    // What the wrapper passes is not always what the operation takes: some modes end with status 5.
    if (maskType != sim::atb::mlaMaskNone) call.input("mask", mask);
    if (params.calc() == sim::atb::MlaCalc::Spec) call.hostInput("qSeqLen", qSeqLen);
    if (params.isInt8()) {
        call.input("qkDescale", qkDescale);
        call.input("pvDescale", pvDescale);
    }
    call.output("attenOut", attenOut);
    if (params.calc() == sim::atb::MlaCalc::Ring) call.output("lse", lse);
    return call.setup();
}

atb_Status AtbMLA(void* workspace, uint64_t workspaceSize, atb_Operation* op, atb_Context* context) {
    SIM_API;
    return sim::atb::phaseTwo("AtbMLA", workspace, workspaceSize, op, context);
}

atb_Status AtbMLAPreFillGetWorkspaceSize(const aclTensor* q, const aclTensor* qRope, const aclTensor* k,
                                         const aclTensor* kRope, const aclTensor* v, const aclTensor* qSeqLen,
                                         const aclTensor* kvSeqLen, const aclTensor* mask, int32_t headNum,
                                         float qkScale, int32_t kvHeadNum, int maskType, uint8_t cacheMode,
                                         aclTensor* attenOut, uint64_t* workspaceSize, atb_Operation** op,
                                         atb_Context* context) {
    SIM_API;
    sim::atb::PhaseOne call("AtbMLAPreFill", workspaceSize, op, context);
    constexpr int prefill = static_cast<int>(sim::atb::MlaCalc::Prefill);
    sim::atb::MlaParams params{headNum, qkScale, kvHeadNum, maskType, prefill, cacheMode};
    if (int32_t status = call.create<sim::atb::Mla>(params)) return status;
    call.input("q", q);
    call.input("qRope", qRope);
    call.input("k", k);
    call.input("kRope", kRope);
    call.input("v", v);
    call.hostInput("qSeqLen", qSeqLen);
    call.hostInput("kvSeqLen", kvSeqLen);
    // The wrapper makes room for a mask with every mask type, and fills it with one of them.
    if (maskType != sim::atb::mlaMaskNone) call.input("mask", maskType == sim::atb::mlaMaskFree ? mask : nullptr);
    call.output("attenOut", attenOut);
    return call.setup();
}

atb_Status AtbMLAPreFill(void* workspace, uint64_t workspaceSize, atb_Operation* op, atb_Context* context) {
    SIM_API;
    return sim::atb::phaseTwo("AtbMLAPreFill", workspace, workspaceSize, op, context);
}

}  // extern "C"
