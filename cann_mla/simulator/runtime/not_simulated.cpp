// What CANN has and a host simulator does not: every such function exists, so that programs link, and says so.
#include <string>

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "core/entry.hpp"
#include "core/error.hpp"

namespace {

aclError notSimulated(const char *api) {
    return sim::fail(api, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not simulated; it needs CANN on an Ascend host");
}

}  // namespace

// Hardware errors and their repair
aclError aclrtGetErrorVerbose(int32_t, aclrtErrorInfo *) { SIM_API; return notSimulated(__func__); }
aclError aclrtRepairError(int32_t, const aclrtErrorInfo *) { SIM_API; return notSimulated(__func__); }

// Load, core limits, access between devices
aclError aclrtGetDeviceUtilizationRate(int32_t, aclrtUtilizationInfo *) { SIM_API; return notSimulated(__func__); }
aclError aclrtSetDeviceResLimit(int32_t, aclrtDevResLimitType, uint32_t) { SIM_API; return notSimulated(__func__); }
aclError aclrtResetDeviceResLimit(int32_t) { SIM_API; return notSimulated(__func__); }
aclError aclrtGetStreamResLimit(aclrtStream, aclrtDevResLimitType, uint32_t *) {
    SIM_API;
    return notSimulated(__func__);
}
aclError aclrtSetStreamResLimit(aclrtStream, aclrtDevResLimitType, uint32_t) { SIM_API; return notSimulated(__func__); }
aclError aclrtResetStreamResLimit(aclrtStream) { SIM_API; return notSimulated(__func__); }
aclError aclrtUseStreamResInCurrentThread(aclrtStream) { SIM_API; return notSimulated(__func__); }
aclError aclrtUnuseStreamResInCurrentThread(aclrtStream) { SIM_API; return notSimulated(__func__); }
aclError aclrtDeviceEnablePeerAccess(int32_t, uint32_t) { SIM_API; return notSimulated(__func__); }
aclError aclrtDeviceDisablePeerAccess(int32_t) { SIM_API; return notSimulated(__func__); }

// Memory that host and device both reach, and memory mapped by hand
aclError aclrtHostRegister(void *, uint64_t, aclrtHostRegisterType, void **) { SIM_API; return notSimulated(__func__); }
aclError aclrtHostGetDevicePointer(void *, void **, uint32_t) { SIM_API; return notSimulated(__func__); }
aclError aclrtMemAllocManaged(void **, uint64_t, uint32_t) { SIM_API; return notSimulated(__func__); }
aclError aclrtReserveMemAddress(void **, size_t, size_t, void *, uint64_t) { SIM_API; return notSimulated(__func__); }
aclError aclrtReleaseMemAddress(void *) { SIM_API; return notSimulated(__func__); }
aclError aclrtMallocPhysical(aclrtDrvMemHandle *, size_t, const aclrtPhysicalMemProp *, uint64_t) {
    SIM_API;
    return notSimulated(__func__);
}
aclError aclrtFreePhysical(aclrtDrvMemHandle) { SIM_API; return notSimulated(__func__); }
aclError aclrtMapMem(void *, size_t, size_t, aclrtDrvMemHandle, uint64_t) { SIM_API; return notSimulated(__func__); }
aclError aclrtUnmapMem(void *) { SIM_API; return notSimulated(__func__); }

// Graph capture
aclError aclmdlRICaptureBegin(aclrtStream, aclmdlRICaptureMode) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRICaptureGetInfo(aclrtStream, aclmdlRICaptureStatus *, aclmdlRI *) {
    SIM_API;
    return notSimulated(__func__);
}
aclError aclmdlRICaptureEnd(aclrtStream, aclmdlRI *) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRIExecuteAsync(aclmdlRI, aclrtStream) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRIExecute(aclmdlRI, int32_t) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRIDestroy(aclmdlRI) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream, aclrtTaskGrp *) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream, aclrtTaskGrp) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRIDebugPrint(aclmdlRI) { SIM_API; return notSimulated(__func__); }
aclError aclmdlRIDebugJsonPrint(aclmdlRI, const char *, uint32_t) { SIM_API; return notSimulated(__func__); }

// Dumps
aclError aclmdlInitDump(void) { SIM_API; return notSimulated(__func__); }
aclError aclmdlSetDump(const char *) { SIM_API; return notSimulated(__func__); }
aclError aclmdlFinalizeDump(void) { SIM_API; return notSimulated(__func__); }
aclnnStatus aclDumpOpTensors(const char *, const char *, aclTensor **, size_t, size_t, aclrtStream) {
    SIM_API;
    return notSimulated(__func__);
}
