/* atb: the types that the interfaces of Context and Operation name. C++ only. */
#ifndef CANN_MLA_ATB_TYPES_H
#define CANN_MLA_ATB_TYPES_H

#ifdef __cplusplus

#include <cstdint>

#include "aclnn/acl_meta.h"
#include "atb/atb_status.h"
#include "atb/svector.h"

#define ATB_VISIBILITY __attribute__((visibility("default")))

namespace atb {

using Status = int32_t;

constexpr uint32_t MAX_DIM = 8;

struct Dims {
    int64_t dims[MAX_DIM];
    uint64_t dimNum = 0;
};

struct TensorDesc {
    aclDataType dtype = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    Dims shape;
};

struct Tensor {
    TensorDesc desc;
    void *deviceData = nullptr;
    void *hostData = nullptr;
    uint64_t dataSize = 0;
};

/* The tensors of one call, in the order of the operation. */
struct VariantPack {
    SVector<Tensor> inTensors;
    SVector<Tensor> outTensors;
};

}  // namespace atb

#endif /* __cplusplus */

#endif
