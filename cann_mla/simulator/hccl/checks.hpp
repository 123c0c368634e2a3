// What HCCL asks of arguments. Every check throws Rejection; the functions call them in HCCL's order, which is another
// one on Ascend950, where the operators were written anew.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include "acl/acl_base.h"
#include "core/entry.hpp"
#include "core/error.hpp"
#include "hccl/communicator.hpp"
#include "hccl/hccl_types.h"
#include "hccl/transfer.hpp"

namespace sim::hccl {

// Ascend950.
bool isNewFlow();

void checkPointer(const char *name, const void *pointer);
void checkCount(uint64_t count);
void checkDataType(HcclDataType dataType);
void checkReduction(HcclDataType dataType, HcclReduceOp op);
void checkRank(const char *name, uint32_t rank, const Communicator &communicator);

// HCCL would use a dead handle without looking.
std::shared_ptr<Communicator> findCommunicator(HcclComm comm);
std::shared_ptr<Stream> findStream(aclrtStream stream);
int32_t currentDevice();

// A finding for each host address among them. HCCL does not look: the device faults when the task runs.
void reportHostPointers(const std::vector<Buffer> &buffers);

// Runs the body of a function and turns what its checks throw into a status.
template <typename Body>
HcclResult guarded(const char *api, Body body) {
    try {
        body();
        return HCCL_SUCCESS;
    } catch (const Rejection &rejection) {
        return static_cast<HcclResult>(fail(api, rejection));
    } catch (const std::bad_alloc &) {
        return static_cast<HcclResult>(fail(api, HCCL_E_MEMORY, "out of host memory"));
    }
}

}  // namespace sim::hccl
