// The shared path from end to end: read the call, then every topic.
#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

void checkNoScales(const Scene &s) {
    if (!s.p.ascend950 || s.quant != Quant::None) return;
    const Params &p = s.p;
    for (const MaybeTensor *operand :
         {&p.deqScale1, &p.quantScale1, &p.deqScale2, &p.dequantScaleQuery, &p.antiquantScale, &p.antiquantOffset,
          &p.keyAntiquantScale, &p.keyAntiquantOffset, &p.valueAntiquantScale, &p.valueAntiquantOffset}) {
        require(!*operand, "a dequantisation or antiquantisation operand is given; query and key are ", s.qDtype,
                ", which takes none on Ascend950");
    }
}

}  // namespace

void checkScene(const Params &params) {
    const Scene s = readScene(params);
    if (s.empty) return;
    checkHeadsAndLayout(s);
    checkTopics(s, checkMask, checkLengths, checkPaged, checkPostQuant, checkRope, checkPse, checkPadding, checkPrefix,
                checkLse, checkSink, checkNoScales, checkAntiquant, checkFullQuant, checkTensorList, checkShapes,
                checkStrides);
}

}  // namespace sim::fia
