/* Parameters that atb::CreateOperation takes. C++ only. The order of the members is the ABI. */
#ifndef CANN_MLA_ATB_INFER_OP_PARAMS_H
#define CANN_MLA_ATB_INFER_OP_PARAMS_H

#ifdef __cplusplus

#include <cstdint>

#include "atb/types.h"

namespace atb {
namespace infer {

enum InputLayout : int { TYPE_BSND = 0, TYPE_BNSD = 1 };

/* Reserved bytes must be 0. */
struct RingMLAParam {
    enum CalcType : int {
        CALC_TYPE_DEFAULT = 0, /* merges with prevOut and prevLse */
        CALC_TYPE_FIRST_RING = 1,
        CALC_TYPE_FISRT_RING = CALC_TYPE_FIRST_RING,
        CALC_TYPE_MAX = 2
    };
    enum KernelType : int { KERNELTYPE_DEFAULT = 0, KERNELTYPE_HIGH_PRECISION = 1 };
    enum MaskType : int { NO_MASK = 0, MASK_TYPE_TRIU = 1 };

    CalcType calcType = CALC_TYPE_DEFAULT;
    int32_t headNum = 0;
    int32_t kvHeadNum = 0; /* 0: as headNum */
    float qkScale = 1;
    KernelType kernelType = KERNELTYPE_HIGH_PRECISION;
    MaskType maskType = MASK_TYPE_TRIU;
    InputLayout inputLayout = TYPE_BSND;
    uint8_t rsv[64] = {0};
};

/* Of its many kinds the simulator has the cast. */
struct ElewiseParam {
    enum ElewiseType : int { ELEWISE_UNDEFINED = 0, ELEWISE_CAST = 1, ELEWISE_TYPE_MAX = 21 };
    struct QuantParam {
        float inputScale = 1.0F;
        bool asymmetric = false;
        int inputOffset = 0;
        uint8_t rsv[20] = {0};
    };
    struct MulsParam {
        float varAttr = 0.0F;
        uint8_t rsv[12] = {0};
    };

    ElewiseType elewiseType = ELEWISE_UNDEFINED;
    QuantParam quantParam;
    MulsParam mulsParam;
    aclDataType outTensorType = ACL_DT_UNDEFINED; /* undefined: FLOAT becomes FLOAT16, all else FLOAT */
    uint8_t rsv[8] = {0};
};

struct TransdataParam {
    enum TransdataType : int { UNDEFINED = 0, FRACTAL_NZ_TO_ND = 1, ND_TO_FRACTAL_NZ = 2 };

    TransdataType transdataType = UNDEFINED;
    SVector<int64_t> outCrops = {0, 0};
    uint8_t rsv[8] = {0};
};

}  // namespace infer
}  // namespace atb

#endif /* __cplusplus */

#endif
