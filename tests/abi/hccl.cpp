// Ranks as threads: collectives, messages in a ring, and a communicator that goes while others still wait. Meant for
// ThreadSanitizer too.
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "check.hpp"
#include "hccl/hccl.h"
#include "sim/cann_mla_sim.h"

constexpr uint32_t kRanks = 4;
constexpr int kRounds = 20;
constexpr uint64_t kCount = 100'000;
constexpr size_t kBytes = kCount * sizeof(int32_t);

static void work(const HcclRootInfo &root, uint32_t rank) {
    OK(aclrtSetDevice(static_cast<int32_t>(rank % 2)));
    HcclComm comm = nullptr;
    OK(HcclCommInitRootInfo(kRanks, &root, rank, &comm));
    aclrtStream stream = nullptr;
    OK(aclrtCreateStream(&stream));
    void *own = nullptr, *other = nullptr;
    for (void **address : {&own, &other}) OK(aclrtMalloc(address, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
    std::vector<int32_t> host(kCount, static_cast<int32_t>(rank));
    OK(aclrtMemcpy(own, kBytes, host.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE));
    for (int round = 0; round < kRounds; ++round) {  // in each, everybody gets what the rank before had
        HcclSendRecvItem items[2] = {{HCCL_SEND, own, kCount, HCCL_DATA_TYPE_INT32, (rank + 1) % kRanks},
                                     {HCCL_RECV, other, kCount, HCCL_DATA_TYPE_INT32, (rank + kRanks - 1) % kRanks}};
        OK(HcclBatchSendRecv(items, 2, comm, stream));
        std::swap(own, other);
    }
    OK(HcclBarrier(comm, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy(host.data(), kBytes, own, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(host[kCount - 1], static_cast<int32_t>((rank + kRanks - kRounds % kRanks) % kRanks));
    OK(HcclAllReduce(own, own, kCount, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy(host.data(), kBytes, own, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(host[0], 0 + 1 + 2 + 3);
    OK(HcclBarrier(comm, stream));  // a synchronous copy would tell of faults on other streams of the device too
    OK(aclrtSynchronizeStream(stream));
    if (rank > 0) {  // rank 0 leaves instead
        OK(HcclRecv(other, kCount, HCCL_DATA_TYPE_INT32, 0, comm, stream));
        CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_SOCKET_CLOSE);
    }
    OK(HcclCommDestroy(comm));
    for (void *address : {own, other}) OK(aclrtFree(address));
    OK(aclrtDestroyStream(stream));
    OK(aclrtResetDevice(static_cast<int32_t>(rank % 2)));
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    HcclRootInfo root;
    OK(HcclGetRootInfo(&root));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; ++rank) threads.emplace_back(work, std::cref(root), rank);
    for (std::thread &thread : threads) thread.join();
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_HCCL_COMM), 0);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
