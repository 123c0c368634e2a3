/* The C interface of ATB: seven operators in two phases.
 *
 * The two object types are C++ classes in ATB. C code sees them as opaque; a C++ program sees the classes. */
#ifndef CANN_MLA_ATB_ATB_ACL_H
#define CANN_MLA_ATB_ATB_ACL_H

#include <stdbool.h>
#include <stdint.h>

#include "aclnn/acl_meta.h"
#include "atb/atb_status.h"

#ifdef __cplusplus
#include "atb/context.h"
#include "atb/operation.h"
typedef atb::Status atb_Status;
typedef atb::Context atb_Context;
typedef atb::Operation atb_Operation;
#else
typedef int32_t atb_Status;
typedef struct atb_Context atb_Context;
typedef struct atb_Operation atb_Operation;
#endif

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY atb_Status AtbFusedAddTopkDivGetWorkspaceSize(
    const aclTensor *x, const aclTensor *addNum, const aclTensor *mappingNum, const aclTensor *mappingTable,
    uint32_t groupNum, uint32_t groupTopk, uint32_t n, uint32_t k, int activationType, bool isNorm,
    float scale, bool enableExpertMapping, aclTensor *y, aclTensor *indices, uint64_t *workspaceSize,
    atb_Operation **op, atb_Context *context); /* since 8.5 */
ACL_FUNC_VISIBILITY atb_Status AtbFusedAddTopkDiv(
    void *workspace, uint64_t workspaceSize, atb_Operation *op, atb_Context *context); /* since 8.5 */

ACL_FUNC_VISIBILITY atb_Status AtbMLAGetWorkspaceSize(
    const aclTensor *qNope, const aclTensor *qRope, const aclTensor *ctKV, const aclTensor *kRope,
    const aclTensor *blockTables, const aclTensor *contextLens, const aclTensor *mask,
    const aclTensor *qSeqLen, const aclTensor *qkDescale, const aclTensor *pvDescale, int32_t headNum,
    float qkScale, int32_t kvHeadNum, int maskType, int calcType, uint8_t cacheMode, aclTensor *attenOut,
    aclTensor *lse, uint64_t *workspaceSize, atb_Operation **op, atb_Context *context); /* since 8.5 */
ACL_FUNC_VISIBILITY atb_Status AtbMLA(
    void *workspace, uint64_t workspaceSize, atb_Operation *op, atb_Context *context); /* since 8.5 */

ACL_FUNC_VISIBILITY atb_Status AtbMLAPreFillGetWorkspaceSize(
    const aclTensor *q, const aclTensor *qRope, const aclTensor *k, const aclTensor *kRope,
    const aclTensor *v, const aclTensor *qSeqLen, const aclTensor *kvSeqLen, const aclTensor *mask,
    int32_t headNum, float qkScale, int32_t kvHeadNum, int maskType, uint8_t cacheMode, aclTensor *attenOut,
    uint64_t *workspaceSize, atb_Operation **op, atb_Context *context); /* since 8.5 */
ACL_FUNC_VISIBILITY atb_Status AtbMLAPreFill(
    void *workspace, uint64_t workspaceSize, atb_Operation *op, atb_Context *context); /* since 8.5 */

ACL_FUNC_VISIBILITY atb_Status AtbMLAPreprocessGetWorkspaceSize(
    const aclTensor *input, const aclTensor *gamma0, const aclTensor *beta0, const aclTensor *quantScale0,
    const aclTensor *quantOffset0, const aclTensor *wdqkv, const aclTensor *deScale0,
    const aclTensor *bias0, const aclTensor *gamma1, const aclTensor *beta1, const aclTensor *quantScale1,
    const aclTensor *quantOffset1, const aclTensor *wuq, const aclTensor *deScale1, const aclTensor *bias1,
    const aclTensor *gamma2, const aclTensor *cos, const aclTensor *sin, const aclTensor *wuk,
    const aclTensor *kvCache, const aclTensor *kvCacheRope, const aclTensor *slotmapping,
    const aclTensor *ctkvScale, const aclTensor *qNopeScale, uint32_t wdqDim, uint32_t qRopeDim,
    uint32_t kRopeDim, float epsilon, uint32_t qRotaryCoeff, uint32_t kRotaryCoeff, bool transposeWdq,
    bool transposeWuq, bool transposeWuk, uint8_t cacheMode, uint16_t quantMode, aclTensor *qOut0,
    aclTensor *kvCacheOut0, aclTensor *qOut1, aclTensor *kvCacheOut1, uint64_t *workspaceSize,
    atb_Operation **op, atb_Context *context); /* since 8.5 */
ACL_FUNC_VISIBILITY atb_Status AtbMLAPreprocess(
    void *workspace, uint64_t workspaceSize, atb_Operation *op, atb_Context *context); /* since 8.5 */

ACL_FUNC_VISIBILITY atb_Status AtbPagedCacheLoadGetWorkspaceSize(
    const aclTensor *keyCache, const aclTensor *valueCache, const aclTensor *blockTables,
    const aclTensor *contextLens, const aclTensor *key, const aclTensor *value, const aclTensor *seqStarts,
    int8_t kvCacheCfg, bool isSeqLensCumsumType, bool hasSeqStarts, uint64_t *workspaceSize,
    atb_Operation **op, atb_Context *context); /* since 8.5 */
ACL_FUNC_VISIBILITY atb_Status AtbPagedCacheLoad(
    void *workspace, uint64_t workspaceSize, atb_Operation *op, atb_Context *context); /* since 8.5 */

ACL_FUNC_VISIBILITY atb_Status AtbRingMLAGetWorkspaceSize(
    const aclTensor *querySplit1, const aclTensor *querySplit2, const aclTensor *keySplit1,
    const aclTensor *keySplit2, const aclTensor *value, const aclTensor *mask, const aclTensor *seqLen,
    const aclTensor *prevOut, const aclTensor *prevLse, int32_t headNum, int32_t kvHeadNum, float qkScale,
    int kernelType, int maskType, int inputLayout, int calcType, aclTensor *output, aclTensor *softmaxLse,
    uint64_t *workspaceSize, atb_Operation **op, atb_Context *context); /* since 8.5 */
ACL_FUNC_VISIBILITY atb_Status AtbRingMLA(
    void *workspace, uint64_t workspaceSize, atb_Operation *op, atb_Context *context); /* since 8.5 */

ACL_FUNC_VISIBILITY atb_Status AtbSelfAttentionPrefixEncoderGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value, const aclTensor *blockTables,
    const aclTensor *mask, const aclTensor *seqLen, const aclTensor *kvSeqLen, const aclTensor *slopes,
    int maskType, int32_t headNum, int32_t kvHeadNum, float qkScale, aclTensor *attnOut,
    uint64_t *workspaceSize, atb_Operation **op, atb_Context *context); /* since 8.5 */
ACL_FUNC_VISIBILITY atb_Status AtbSelfAttentionPrefixEncoder(
    void *workspace, uint64_t workspaceSize, atb_Operation *op, atb_Context *context); /* since 8.5 */

#ifdef __cplusplus
}
#endif

#endif
