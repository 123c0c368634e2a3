// The two phases: workspace rules, one use of an executor, repeatable executors, address refresh, empty calls.
#include <unistd.h>

#include <fstream>
#include <vector>

#include "acl/acl.h"
#include "check.hpp"
#include "sim/cann_mla_sim.h"
#include "toy_operator.hpp"

// A one-dimensional FP32 tensor with device memory behind it.
class Buffer {
   public:
    explicit Buffer(std::vector<float> values) : size_(values.size()) {
        int64_t length = static_cast<int64_t>(size_);
        if (size_ > 0) OK(aclrtMalloc(&address_, bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
        write(values);
        tensor = aclCreateTensor(&length, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &length, 1, address_);
    }
    ~Buffer() {
        OK(aclDestroyTensor(tensor));  // null where a list has destroyed it
        if (address_ != nullptr) OK(aclrtFree(address_));
    }
    void write(const std::vector<float> &values) {
        OK(aclrtMemcpy(address_, bytes(), values.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
    }
    std::vector<float> read() const {
        std::vector<float> values(size_);
        OK(aclrtMemcpy(values.data(), bytes(), address_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
        return values;
    }
    void *address() const { return address_; }
    aclTensor *tensor = nullptr;

   private:
    size_t bytes() const { return size_ * sizeof(float); }
    size_t size_;
    void *address_ = nullptr;
};

using Values = std::vector<float>;

struct Planned {
    aclOpExecutor *executor = nullptr;
    uint64_t size = 0;
};

static Planned plan(aclTensorList *xs, aclTensor *bias, aclTensor *acc, aclTensor *y) {
    Planned planned;
    OK(toy::sumGetWorkspaceSize(xs, bias, acc, y, &planned.size, &planned.executor));
    return planned;
}

static aclTensorList *listOf(std::vector<aclTensor *> tensors) {
    return aclCreateTensorList(tensors.data(), tensors.size());
}

static void *workspace() {
    static void *address = [] {
        void *made = nullptr;
        OK(aclrtMalloc(&made, 96, ACL_MEM_MALLOC_HUGE_FIRST));
        return made;
    }();
    return address;
}

static void oneCall() {
    Buffer a({1, 2}), b({10, 20}), acc({100, 100}), y({0, 0});
    aclTensorList *xs = listOf({a.tensor, b.tensor});
    Planned planned = plan(xs, nullptr, acc.tensor, y.tensor);
    CHECK_EQ(planned.size, 96u);
    CHECK_EQ(toy::sum(nullptr, 96, nullptr, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQ(toy::sum(nullptr, 96, planned.executor, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQ(toy::sum(nullptr, 0, planned.executor, nullptr), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(toy::sum(workspace(), 95, planned.executor, nullptr), ACLNN_ERR_PARAM_INVALID);
    CHECK_TEXT("phase one asked for 96");
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_EXECUTOR), 1);
    OK(toy::sum(workspace(), 96, planned.executor, nullptr));
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_EXECUTOR), 0);
    OK(aclrtSynchronizeStream(nullptr));
    CHECK((y.read() == Values{11, 22}));
    CHECK((acc.read() == Values{111, 122}));
    // CANN answers 0 to a second phase two; nothing is computed, and the simulator tells of it.
    int64_t findings = cannMlaSimFindingCount();
    OK(toy::sum(workspace(), 96, planned.executor, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK((acc.read() == Values{111, 122}));
    CHECK_EQ(cannMlaSimFindingCount(), findings + 1);
    CHECK_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_ERR_PARAM_INVALID);
    CHECK_TEXT("was used up by aclnnToySum");
    OK(aclDestroyTensorList(xs));
    a.tensor = b.tensor = nullptr;
}

static void executorsWithoutPhaseTwo() {
    Buffer a({1}), y({0});
    aclTensorList *xs = listOf({a.tensor});
    Planned planned = plan(xs, nullptr, nullptr, y.tensor);
    OK(aclDestroyAclOpExecutor(planned.executor));
    CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(toy::sum(workspace(), 96, planned.executor, nullptr), ACLNN_ERR_PARAM_INVALID);
    CHECK_TEXT("was destroyed by aclDestroyAclOpExecutor");
    CHECK_EQ(aclDestroyAclOpExecutor(nullptr), ACLNN_ERR_INNER_NULLPTR);
    CHECK_EQ(aclSetAclOpExecutorRepeatable(nullptr), ACLNN_ERR_INNER_NULLPTR);
    CHECK_EQ(toy::sum(workspace(), 96, reinterpret_cast<aclOpExecutor *>(a.tensor), nullptr), ACLNN_ERR_PARAM_INVALID);
    // Tensors may go right after phase one: the executor holds what it needs.
    planned = plan(xs, nullptr, nullptr, y.tensor);
    OK(aclDestroyTensorList(xs));
    OK(toy::sum(workspace(), 96, planned.executor, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK((y.read() == Values{1}));
    a.tensor = nullptr;
    // A dead tensor is refused in phase one, whatever the operator would have said.
    aclTensor *dead = y.tensor;
    OK(aclDestroyTensor(dead));
    y.tensor = nullptr;
    Buffer b({1});
    xs = listOf({b.tensor});
    uint64_t size = 7;
    aclOpExecutor *executor = nullptr;
    CHECK_EQ(toy::sumGetWorkspaceSize(xs, nullptr, nullptr, dead, &size, &executor), ACLNN_ERR_PARAM_INVALID);
    CHECK_TEXT("yOut: aclTensor");
    CHECK(executor == nullptr && size == 7);
    Buffer z({0});
    CHECK_EQ(toy::sumGetWorkspaceSize(xs, nullptr, nullptr, z.tensor, &size, nullptr), ACLNN_ERR_PARAM_NULLPTR);
    OK(toy::sumGetWorkspaceSize(xs, nullptr, nullptr, z.tensor, nullptr, &executor));
    OK(aclDestroyAclOpExecutor(executor));
    OK(aclDestroyTensorList(xs));
    b.tensor = nullptr;
}

static void repeatableExecutors() {
    Buffer a({1}), b({2}), c({3}), other({50}), acc({0}), acc2({1000}), y({0}), y2({0});
    aclTensorList *xs = listOf({a.tensor, b.tensor});
    Planned planned = plan(xs, nullptr, acc.tensor, y.tensor);
    OK(aclSetAclOpExecutorRepeatable(planned.executor));
    for (int i = 0; i < 3; ++i) OK(toy::sum(workspace(), 96, planned.executor, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK((acc.read() == Values{9}));
    // Flattened inputs: xs[0], xs[1], bias (null, but counted), accRef; outputs: yOut; all: inputs, then outputs.
    OK(aclSetInputTensorAddr(planned.executor, 1, b.tensor, c.address()));
    OK(aclSetOutputTensorAddr(planned.executor, 0, y.tensor, y2.address()));
    OK(aclSetTensorAddr(planned.executor, 3, acc.tensor, acc2.address()));
    OK(toy::sum(workspace(), 96, planned.executor, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK((y.read() == Values{3} && y2.read() == Values{4} && acc2.read() == Values{1004}));
    void *address = nullptr;
    OK(aclGetRawTensorAddr(b.tensor, &address));  // the tensor's own address changes, too
    CHECK_EQ(address, c.address());
    // By parameter and place in its list.
    OK(aclSetDynamicInputTensorAddr(planned.executor, 0, 0, xs, other.address()));
    OK(aclSetDynamicTensorAddr(planned.executor, 0, 1, xs, other.address()));
    OK(aclSetTensorAddr(planned.executor, 4, y.tensor, y.address()));
    OK(toy::sum(workspace(), 96, planned.executor, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK((y.read() == Values{100}));

    CHECK_EQ(aclSetInputTensorAddr(planned.executor, 2, b.tensor, c.address()), ACLNN_ERR_PARAM_INVALID);
    CHECK_TEXT("biasOptional) was null");
    CHECK_EQ(aclSetInputTensorAddr(planned.executor, 4, b.tensor, c.address()), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(aclSetOutputTensorAddr(planned.executor, 1, b.tensor, c.address()), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(aclSetDynamicInputTensorAddr(planned.executor, 0, 2, xs, c.address()), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(aclSetTensorAddr(planned.executor, 0, nullptr, c.address()), ACLNN_ERR_INNER_NULLPTR);
    CHECK_EQ(aclSetTensorAddr(nullptr, 0, b.tensor, c.address()), ACLNN_ERR_INNER_NULLPTR);
    OK(aclDestroyAclOpExecutor(planned.executor));
    CHECK_EQ(aclSetTensorAddr(planned.executor, 0, b.tensor, c.address()), ACLNN_ERR_PARAM_INVALID);
    OK(aclDestroyTensorList(xs));
    a.tensor = b.tensor = nullptr;
}

// Phase two takes the addresses as they are when it is called.
static void addressesAreSnapshots() {
    Buffer a({1}), b({2}), y({0}), y2({0});
    aclTensorList *xs = listOf({a.tensor});
    Planned planned = plan(xs, nullptr, nullptr, y.tensor);
    OK(aclSetAclOpExecutorRepeatable(planned.executor));
    toy::sleepMilliseconds = 50;
    OK(toy::sum(workspace(), 96, planned.executor, nullptr));
    OK(aclSetTensorAddr(planned.executor, 0, a.tensor, b.address()));
    OK(aclSetOutputTensorAddr(planned.executor, 0, y.tensor, y2.address()));
    OK(toy::sum(workspace(), 96, planned.executor, nullptr));
    OK(aclDestroyAclOpExecutor(planned.executor));
    OK(aclrtSynchronizeStream(nullptr));
    toy::sleepMilliseconds = 0;
    CHECK((y.read() == Values{1} && y2.read() == Values{2}));
    OK(aclDestroyTensorList(xs));
    a.tensor = nullptr;
}

static void emptyCalls() {
    Buffer x(Values{}), y(Values{});
    aclTensorList *xs = listOf({x.tensor});
    Planned planned = plan(xs, nullptr, nullptr, y.tensor);
    CHECK_EQ(planned.size, 0u);
    int before = toy::launches;
    OK(toy::sum(nullptr, 0, planned.executor, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK_EQ(toy::launches, before);
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_EXECUTOR), 0);
    OK(aclDestroyTensorList(xs));
    x.tensor = nullptr;
    // A list of no tensors has its place, too.
    Buffer bias({4}), out({0});
    xs = aclCreateTensorList(nullptr, 0);
    planned = plan(xs, bias.tensor, nullptr, out.tensor);
    OK(toy::sum(workspace(), 96, planned.executor, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    CHECK((out.read() == Values{4}));
    OK(aclDestroyTensorList(xs));
}

static long residentPages() {
    long total = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident;
}

// Executors, their handles and their operands leave nothing behind.
static void manyCalls() {
    Buffer a({1}), y({0}), none(Values{});
    aclTensorList *xs = listOf({a.tensor}), *nothing = listOf({none.tensor});
    auto call = [&](aclTensorList *inputs, aclTensor *output) {
        Planned planned = plan(inputs, nullptr, nullptr, output);
        OK(toy::sum(workspace(), planned.size, planned.executor, nullptr));
    };
    auto rounds = [&](int count) {
        for (int i = 0; i < count; ++i) {
            call(nothing, none.tensor);
            if (i % 10 == 0) call(xs, y.tensor);
            if (i % 1000 == 0) OK(aclrtSynchronizeStream(nullptr));
        }
    };
    rounds(20000);
    long before = residentPages();
    rounds(100000);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // which keep memory of their own
    CHECK((residentPages() - before) * sysconf(_SC_PAGESIZE) < 4 << 20);
#endif
    (void)before;
    OK(aclrtSynchronizeStream(nullptr));
    OK(aclDestroyTensorList(xs));
    OK(aclDestroyTensorList(nothing));
    a.tensor = none.tensor = nullptr;
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    oneCall();
    executorsWithoutPhaseTwo();
    repeatableExecutors();
    addressesAreSnapshots();
    emptyCalls();
    manyCalls();
    OK(aclrtFree(workspace()));
    CHECK_EQ(cannMlaSimDeviceAllocations(0), 0);
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_TENSOR), 0);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
