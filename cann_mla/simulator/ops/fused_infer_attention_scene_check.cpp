// The shared path from end to end: read the call, then every topic.
#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

void checkScene(const Params &params) {
    Scene s = readScene(params);
    if (s.empty) return;
    checkHeadsAndLayout(s);
    checkMask(s);
    checkLengths(s);
    checkPaged(s);
    checkPostQuant(s);
    checkRope(s);
    checkPse(s);
    checkPadding(s);
    checkPrefix(s);
    checkLse(s);
    checkSink(s);
    if (s.p.ascend950 && s.quant == Quant::None) {
        const Params &p = s.p;
        for (const MaybeTensor *operand :
             {&p.deqScale1, &p.quantScale1, &p.deqScale2, &p.dequantScaleQuery, &p.antiquantScale, &p.antiquantOffset,
              &p.keyAntiquantScale, &p.keyAntiquantOffset, &p.valueAntiquantScale, &p.valueAntiquantOffset}) {
            require(!*operand, "a dequantisation or antiquantisation operand is given; query and key are ", s.qDtype,
                    ", which takes none on Ascend950");
        }
    }
    checkAntiquant(s);
    checkFullQuant(s);
    checkTensorList(s);
    checkShapes(s);
    checkStrides(s);
}

}  // namespace sim::fia
