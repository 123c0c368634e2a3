#include "atb/atb_acl.h"
#include "atb/ring_mla.hpp"
#include "core/entry.hpp"

extern "C" {

atb_Status AtbRingMLAGetWorkspaceSize(const aclTensor* querySplit1, const aclTensor* querySplit2,
                                      const aclTensor* keySplit1, const aclTensor* keySplit2, const aclTensor* value,
                                      const aclTensor* mask, const aclTensor* seqLen, const aclTensor* prevOut,
                                      const aclTensor* prevLse, int32_t headNum, int32_t kvHeadNum, float qkScale,
                                      int kernelType, int maskType, int inputLayout, int calcType, aclTensor* output,
                                      aclTensor* softmaxLse, uint64_t* workspaceSize, atb_Operation** op,
                                      atb_Context* context) {
    SIM_API;
    sim::atb::PhaseOne call("AtbRingMLA", workspaceSize, op, context);
    sim::atb::RingMlaParams params{headNum, kvHeadNum, qkScale, kernelType, maskType, inputLayout, calcType};
    if (int32_t status = call.create<sim::atb::RingMla>(params)) return status;
    call.input("querySplit1", querySplit1);
    call.input("querySplit2", querySplit2);
    call.input("keySplit1", keySplit1);
    call.input("keySplit2", keySplit2);
    call.input("value", value);
    call.input("mask", mask);
    call.hostInput("seqLen", seqLen);
    if (params.merges()) {
        call.input("prevOut", prevOut);
        call.input("prevLse", prevLse);
    }
    call.output("output", output);
    call.output("softmaxLse", softmaxLse);
    return call.setup();
}

atb_Status AtbRingMLA(void* workspace, uint64_t workspaceSize, atb_Operation* op, atb_Context* context) {
    SIM_API;
    return sim::atb::phaseTwo("AtbRingMLA", workspace, workspaceSize, op, context);
}

}  // extern "C"
