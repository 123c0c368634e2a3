// What CANN has and a host simulator does not: every such function exists, so that programs link, and says so.
#include <string>

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "core/error.hpp"

namespace {

aclError notSimulated(const char *api) {
    return sim::fail(api, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not simulated; it needs CANN on an Ascend host");
}

}  // namespace

// Hardware errors and their repair
aclError aclrtGetErrorVerbose(int32_t, aclrtErrorInfo *) { return notSimulated(__func__); }
aclError aclrtRepairError(int32_t, const aclrtErrorInfo *) { return notSimulated(__func__); }

// Load, core limits, access between devices
aclError aclrtGetDeviceUtilizationRate(int32_t, aclrtUtilizationInfo *) { return notSimulated(__func__); }
aclError aclrtSetDeviceResLimit(int32_t, aclrtDevResLimitType, uint32_t) { return notSimulated(__func__); }
aclError aclrtResetDeviceResLimit(int32_t) { return notSimulated(__func__); }
aclError aclrtGetStreamResLimit(aclrtStream, aclrtDevResLimitType, uint32_t *) { return notSimulated(__func__); }
aclError aclrtSetStreamResLimit(aclrtStream, aclrtDevResLimitType, uint32_t) { return notSimulated(__func__); }
aclError aclrtResetStreamResLimit(aclrtStream) { return notSimulated(__func__); }
aclError aclrtUseStreamResInCurrentThread(aclrtStream) { return notSimulated(__func__); }
aclError aclrtUnuseStreamResInCurrentThread(aclrtStream) { return notSimulated(__func__); }
aclError aclrtDeviceEnablePeerAccess(int32_t, uint32_t) { return notSimulated(__func__); }
aclError aclrtDeviceDisablePeerAccess(int32_t) { return notSimulated(__func__); }

// Memory that host and device both reach, and memory mapped by hand
aclError aclrtHostRegister(void *, uint64_t, aclrtHostRegisterType, void **) { return notSimulated(__func__); }
aclError aclrtHostGetDevicePointer(void *, void **, uint32_t) { return notSimulated(__func__); }
aclError aclrtMemAllocManaged(void **, uint64_t, uint32_t) { return notSimulated(__func__); }
aclError aclrtReserveMemAddress(void **, size_t, size_t, void *, uint64_t) { return notSimulated(__func__); }
aclError aclrtReleaseMemAddress(void *) { return notSimulated(__func__); }
aclError aclrtMallocPhysical(aclrtDrvMemHandle *, size_t, const aclrtPhysicalMemProp *, uint64_t) {
    return notSimulated(__func__);
}
aclError aclrtFreePhysical(aclrtDrvMemHandle) { return notSimulated(__func__); }
aclError aclrtMapMem(void *, size_t, size_t, aclrtDrvMemHandle, uint64_t) { return notSimulated(__func__); }
aclError aclrtUnmapMem(void *) { return notSimulated(__func__); }

// Graph capture
aclError aclmdlRICaptureBegin(aclrtStream, aclmdlRICaptureMode) { return notSimulated(__func__); }
aclError aclmdlRICaptureGetInfo(aclrtStream, aclmdlRICaptureStatus *, aclmdlRI *) { return notSimulated(__func__); }
aclError aclmdlRICaptureEnd(aclrtStream, aclmdlRI *) { return notSimulated(__func__); }
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *) { return notSimulated(__func__); }
aclError aclmdlRIExecuteAsync(aclmdlRI, aclrtStream) { return notSimulated(__func__); }
aclError aclmdlRIExecute(aclmdlRI, int32_t) { return notSimulated(__func__); }
aclError aclmdlRIDestroy(aclmdlRI) { return notSimulated(__func__); }
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream) { return notSimulated(__func__); }
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream, aclrtTaskGrp *) { return notSimulated(__func__); }
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream, aclrtTaskGrp) { return notSimulated(__func__); }
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream) { return notSimulated(__func__); }
aclError aclmdlRIDebugPrint(aclmdlRI) { return notSimulated(__func__); }
aclError aclmdlRIDebugJsonPrint(aclmdlRI, const char *, uint32_t) { return notSimulated(__func__); }

// Dumps
aclError aclmdlInitDump(void) { return notSimulated(__func__); }
aclError aclmdlSetDump(const char *) { return notSimulated(__func__); }
aclError aclmdlFinalizeDump(void) { return notSimulated(__func__); }
aclnnStatus aclDumpOpTensors(const char *, const char *, aclTensor **, size_t, size_t, aclrtStream) {
    return notSimulated(__func__);
}
