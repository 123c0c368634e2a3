#include "atb/atb_acl.h"
#include "atb/mla_preprocess.hpp"
#include "core/entry.hpp"

extern "C" {

// The sizes, the epsilon and the transpositions are not read: the kernel knows one shape.
atb_Status AtbMLAPreprocessGetWorkspaceSize(
    const aclTensor* input, const aclTensor* gamma0, const aclTensor* beta0, const aclTensor* quantScale0,
    const aclTensor* quantOffset0, const aclTensor* wdqkv, const aclTensor* deScale0, const aclTensor* bias0,
    const aclTensor* gamma1, const aclTensor* beta1, const aclTensor* quantScale1, const aclTensor* quantOffset1,
    const aclTensor* wuq, const aclTensor* deScale1, const aclTensor* bias1, const aclTensor* gamma2,
    const aclTensor* cos, const aclTensor* sin, const aclTensor* wuk, const aclTensor* kvCache,
    const aclTensor* kvCacheRope, const aclTensor* slotmapping, const aclTensor* ctkvScale, const aclTensor* qNopeScale,
    uint32_t, uint32_t, uint32_t, float, uint32_t, uint32_t, bool, bool, bool, uint8_t cacheMode, uint16_t quantMode,
    aclTensor* qOut0, aclTensor* kvCacheOut0, aclTensor* qOut1, aclTensor* kvCacheOut1, uint64_t* workspaceSize,
    atb_Operation** op, atb_Context* context) {
    SIM_API;
    sim::atb::PhaseOne call("AtbMLAPreprocess", workspaceSize, op, context);
    sim::atb::MlaPreprocessParams params{cacheMode, quantMode};
    if (int32_t status = call.create<sim::atb::MlaPreprocess>(params)) return status;
    // The wrapper passes null for what the mode has no use for, whatever was given.
    auto inputIf = [&](bool used, const char* name, const aclTensor* tensor) {
        call.input(name, used ? tensor : nullptr);
    };
    bool perTensor = quantMode == 0, hasBias = quantMode != 1 && quantMode != 3;
    call.input("input", input);
    call.input("gamma0", gamma0);
    call.input("beta0", beta0);
    inputIf(perTensor, "quantScale0", quantScale0);
    inputIf(perTensor, "quantOffset0", quantOffset0);
    call.input("wdqkv", wdqkv);
    call.input("deScale0", deScale0);
    inputIf(hasBias, "bias0", bias0);
    call.input("gamma1", gamma1);
    call.input("beta1", beta1);
    inputIf(perTensor, "quantScale1", quantScale1);
    inputIf(perTensor, "quantOffset1", quantOffset1);
    call.input("wuq", wuq);
    call.input("deScale1", deScale1);
    inputIf(hasBias, "bias1", bias1);
    call.input("gamma2", gamma2);
    call.input("cos", cos);
    call.input("sin", sin);
    call.input("wuk", wuk);
    call.input("kvCache", kvCache);
    inputIf(!params.isCombined(), "kvCacheRope", kvCacheRope);
    call.input("slotmapping", slotmapping);
    inputIf(params.isInt8(), "ctkvScale", ctkvScale);
    inputIf(params.isInt8(), "qNopeScale", qNopeScale);
    call.output("qOut0", qOut0);
    call.output("kvCacheOut0", kvCacheOut0);
    if (!params.isCombined()) {
        call.output("qOut1", qOut1);
        call.output("kvCacheOut1", kvCacheOut1);
    }
    return call.setup();
}

atb_Status AtbMLAPreprocess(void* workspace, uint64_t workspaceSize, atb_Operation* op, atb_Context* context) {
    SIM_API;
    return sim::atb::phaseTwo("AtbMLAPreprocess", workspace, workspaceSize, op, context);
}

}  // extern "C"
