/* atb::Operation. C++ only. The order of the virtual functions is the ABI. */
#ifndef CANN_MLA_ATB_OPERATION_H
#define CANN_MLA_ATB_OPERATION_H

#ifdef __cplusplus

#include <string>

#include "atb/context.h"

namespace atb {

class ATB_VISIBILITY Operation {
public:
    Operation() = default;
    virtual ~Operation() = default;
    virtual std::string GetName() const = 0;
    virtual Status InferShape(const SVector<TensorDesc> &inTensorDescs, SVector<TensorDesc> &outTensorDescs) const = 0;
    virtual uint32_t GetInputNum() const = 0;
    virtual uint32_t GetOutputNum() const = 0;
    virtual Status Setup(const VariantPack &variantPack, uint64_t &workspaceSize, Context *context) = 0;
    virtual Status Execute(
        const VariantPack &variantPack, uint8_t *workspace, uint64_t workspaceSize, Context *context) = 0;
};

/* Defined for the parameters of infer_op_params.h. */
template <typename OpParam>
Status CreateOperation(const OpParam &opParam, Operation **operation);
template <typename OpParam>
Status CloneOperationParam(const Operation *operation, OpParam &opParam);
template <typename OpParam>
Status UpdateOperationParam(Operation *operation, const OpParam &opParam);

ATB_VISIBILITY Status DestroyOperation(Operation *operation);
ATB_VISIBILITY Status SetExecuteStreamId(Operation *operation, uint32_t streamId);
ATB_VISIBILITY uint32_t GetExecuteStreamId(Operation *operation);

}  // namespace atb

#endif /* __cplusplus */

#endif
