#include "hccl/checks.hpp"

#include <set>
#include <string>

#include "checker/finding.hpp"
#include "core/device_memory.hpp"
#include "core/product.hpp"
#include "hccl/reduce.hpp"
#include "runtime/context.hpp"

namespace sim::hccl {

bool isNewFlow() { return product() == Product::A950; }

void checkPointer(const char *name, const void *pointer) {
    if (pointer == nullptr) throw Rejection{HCCL_E_PTR, std::string(name) + " is null"};
}

void checkCount(uint64_t count) {
    constexpr uint64_t most = 0x7FFFFFFFF;
    if (count > most) {
        throw Rejection{HCCL_E_PARA, "count is " + std::to_string(count) + "; at most " + std::to_string(most) + " is taken"};
    }
}

void checkDataType(HcclDataType dataType) {
    if (elementBytes(dataType) == 0 || (isNewFlow() && dataType == HCCL_DATA_TYPE_INT128)) {
        throw Rejection{HCCL_E_NOT_SUPPORT, "HcclDataType " + std::to_string(dataType) + " is not supported"};
    }
}

void checkReduction(HcclDataType dataType, HcclReduceOp op) {
    if (op < HCCL_REDUCE_SUM || op > HCCL_REDUCE_MIN) {
        throw Rejection{HCCL_E_NOT_SUPPORT, "HcclReduceOp " + std::to_string(op) + " is not supported; 0 to 3 exist"};
    }
    std::set<HcclDataType> supported = {HCCL_DATA_TYPE_INT8, HCCL_DATA_TYPE_INT32, HCCL_DATA_TYPE_INT64,
                                        HCCL_DATA_TYPE_FP16, HCCL_DATA_TYPE_FP32};
    if (isNewFlow()) supported.insert({HCCL_DATA_TYPE_UINT64, HCCL_DATA_TYPE_FP64});
    if (op != HCCL_REDUCE_PROD) supported.insert({HCCL_DATA_TYPE_INT16, HCCL_DATA_TYPE_BFP16});
    if (supported.count(dataType) == 0) {
        throw Rejection{HCCL_E_NOT_SUPPORT, "HcclDataType " + std::to_string(dataType) + " is not supported with HcclReduceOp " +
                                                std::to_string(op)};
    }
}

void checkRank(const char *name, uint32_t rank, const Communicator &communicator) {
    if (rank >= communicator.size()) {
        throw Rejection{HCCL_E_PARA, std::string(name) + " is " + std::to_string(rank) + "; the communicator has ranks 0 to " +
                                         std::to_string(communicator.size() - 1)};
    }
}

std::shared_ptr<Communicator> findCommunicator(HcclComm comm) {
    checkPointer("comm", comm);
    auto communicator = lookupAs<Communicator>(comm, Kind::HcclComm);
    if (!communicator) throw Rejection{HCCL_E_PARA, badHandle(comm, Kind::HcclComm)};
    return communicator;
}

std::shared_ptr<Stream> findStream(aclrtStream stream) {
    checkPointer("stream", stream);
    StreamChoice choice = chooseStream(stream);
    if (!choice) throw Rejection{HCCL_E_RUNTIME, choice.text};
    return choice.stream;
}

int32_t currentDevice() {
    auto context = currentContext();
    if (!context) throw Rejection{HCCL_E_RUNTIME, noContext()};
    return context->device();
}

void reportHostPointers(const std::vector<Buffer> &buffers) {
    for (const Buffer &buffer : buffers) {
        if (isDeviceAddress(buffer.address)) continue;
        Finding finding;
        finding.rule = "host-pointer-for-device";
        finding.what = std::string(buffer.name) + " is host memory; the device will fault when the operation runs";
        finding.object = {"host memory", buffer.address, std::to_string(buffer.bytes) + " bytes"};
        report(std::move(finding));
    }
}

}  // namespace sim::hccl
