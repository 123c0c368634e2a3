// Operands that are not contiguous: what is refused, what is copied, and what the copy costs in workspace.
#include <vector>

#include "acl/acl.h"
#include "check.hpp"
#include "core/operator.hpp"
#include "core/strided.hpp"
#include "sim/cann_mla_sim.h"

using sim::View;

struct Geometry {
    std::vector<int64_t> shape, strides, storage;
    int64_t offset = 0;
    aclDataType dtype = ACL_FLOAT;
    aclFormat format = ACL_FORMAT_ND;
};

static aclTensor *tensorOf(const Geometry &g, void *data = nullptr) {
    return aclCreateTensor(g.shape.data(), g.shape.size(), g.dtype, g.strides.empty() ? nullptr : g.strides.data(),
                           g.offset, g.format, g.storage.data(), g.storage.size(), data);
}

struct Verdict {
    int32_t status;
    uint64_t workspace;
};

enum class As { Input, Output, Inplace };

// Phase one of an operator with one operand that asks for `base` bytes of workspace.
static Verdict judge(const Geometry &geometry, As role = As::Input, View view = View::Copied, uint64_t base = 100) {
    aclTensor *tensor = tensorOf(geometry);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    sim::PhaseOne call("aclnnToyView", &size, &executor);
    if (role == As::Input) call.input("x", tensor, view);
    if (role == As::Output) call.output("x", tensor);
    if (role == As::Inplace) call.inplace("x", tensor, view);
    int32_t status = call.accept(base, [](const sim::Launch &) {});
    if (status == 0) OK(aclDestroyAclOpExecutor(executor));
    OK(aclDestroyTensor(tensor));
    return {status, size};
}

static void refusals() {
    const int32_t bad = ACLNN_ERR_INNER_NULLPTR;
    CHECK_EQ(judge({{4, 8}, {}, {4, 8}}).status, 0);
    CHECK_EQ(judge({{8, 4}, {1, 8}, {4, 8}}).status, 0);         // transposed
    CHECK_EQ(judge({{4, 4}, {8, 1}, {4, 8}}).status, 0);         // padded rows
    CHECK_EQ(judge({{4, 8}, {0, 1}, {8}}).status, 0);            // stride 0
    CHECK_EQ(judge({{4, 4}, {1, 1}, {7}}).status, 0);            // overlapping
    CHECK_EQ(judge({{4, 4}, {8, 1}, {4, 8}, 4}).status, 0);      // reaches the last element exactly
    CHECK_EQ(judge({{4, 4}, {8, 1}, {4, 8}, 5}).status, bad);    // one too far
    CHECK_TEXT("x is a strided view");
    CHECK_EQ(judge({{4, 4}, {8, 1}, {27}}).status, bad);
    CHECK_EQ(judge({{4, 4}, {8, 1}, {28}}).status, 0);
    CHECK_EQ(judge({{4, 4}, {-8, 1}, {4, 8}, 24}).status, bad);  // negative, though inside
    CHECK_EQ(judge({{4, 4}, {8, 1}, {27}}, As::Inplace).status, bad);
    // Dense strides are never compared with the storage.
    CHECK_EQ(judge({{4, 8}, {}, {2}}).status, 0);
    CHECK_EQ(judge({{4, 8}, {8, 1}, {4, 8}, 1000}).status, 0);
    CHECK_EQ(judge({{4, 8}, {8, 1}, {}}).status, 0);
    // Dimensions of size one, and views of at most one element, are dense whatever their strides.
    CHECK_EQ(judge({{4, 1, 8}, {8, -999, 1}, {4, 8}}).status, 0);
    CHECK_EQ(judge({{1, 1}, {-5, 1 << 30}, {1}}).status, 0);
    CHECK_EQ(judge({{0, 8}, {-5, -5}, {1}}).status, 0);
    // Private formats and outputs: strides do not count.
    CHECK_EQ(judge({{32, 32}, {-1, 7}, {2, 2, 16, 16}, 0, ACL_BF16, ACL_FORMAT_FRACTAL_NZ}).status, 0);
    CHECK_EQ(judge({{4, 4}, {-8, 99}, {4}}, As::Output).status, 0);
    CHECK_EQ(judge({{4, 4}, {int64_t{1} << 40, -1}, {4}}, As::Inplace, View::StridesIgnored).status, 0);
    CHECK_EQ(judge({{4, 4}, {INT64_MAX, INT64_MAX}, {4}}).status, bad);
    CHECK_EQ(judge({{INT64_MAX, 4}, {INT64_MAX, 2}, {4}}).status, bad);
}

static void workspace() {
    // 16 elements of 4 bytes: align512(64 + 32) + 512, on a base counted up to a multiple of 512.
    const Geometry padded{{4, 4}, {8, 1}, {4, 8}};
    CHECK_EQ(judge({{4, 4}, {}, {4, 4}}).workspace, 100u);
    CHECK_EQ(judge(padded).workspace, 512u + 512 + 512);
    CHECK_EQ(judge(padded, As::Inplace).workspace, 512u + 512 + 512);
    CHECK_EQ(judge(padded, As::Output).workspace, 100u);
    CHECK_EQ(judge(padded, As::Input, View::AsIs).workspace, 100u);
    CHECK_EQ(judge({{120, 4}, {8, 1}, {120, 8}}, As::Input, View::Copied, 1024).workspace, 1024u + 2048 + 512);
    // 950: the base is not counted up; a kernel of its own moves the data, except E8M0 with swapped dimensions.
    OK(cannMlaSimSetSoc("Ascend950"));
    CHECK_EQ(judge(padded).workspace, 100u + 512 + 512 + 16777216);
    CHECK_EQ(judge({{4, 8}, {1, 4}, {8, 4}, 0, ACL_FLOAT8_E8M0}).workspace, 100u + 512);
    CHECK_EQ(judge({{4, 4}, {8, 1}, {4, 8}, 0, ACL_FLOAT8_E8M0}).workspace, 100u + 512 + 512 + 16777216);
    OK(cannMlaSimSetSoc("Ascend910B"));
}

static void movement() {
    // x: a 3 x 4 matrix seen transposed; acc: every second column of a 4 x 6 matrix.
    std::vector<float> x(12), acc(24);
    for (int i = 0; i < 12; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i);
    for (int i = 0; i < 24; ++i) acc[static_cast<size_t>(i)] = static_cast<float>(1000 + i);
    void *xMemory = nullptr, *accMemory = nullptr, *extra = nullptr;
    OK(aclrtMalloc(&xMemory, 48, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&accMemory, 96, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemcpy(xMemory, 48, x.data(), 48, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(accMemory, 96, acc.data(), 96, ACL_MEMCPY_HOST_TO_DEVICE));
    aclTensor *xView = tensorOf({{4, 3}, {1, 4}, {3, 4}}, xMemory);
    aclTensor *accView = tensorOf({{4, 3}, {6, 2}, {4, 6}, 1}, accMemory);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    sim::PhaseOne call("aclnnToyAdd", &size, &executor);
    call.input("x", xView);
    call.inplace("accRef", accView);
    OK(call.accept(0, [](const sim::Launch &launch) {
        for (int i = 0; i < 12; ++i) launch.out<float>("accRef")[i] += launch.in<float>("x")[i];
    }));
    OK(aclrtMalloc(&extra, size, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(sim::phaseTwo("aclnnToyAdd", extra, size, executor, nullptr));
    OK(aclrtSynchronizeStream(nullptr));
    std::vector<float> result(24);
    OK(aclrtMemcpy(result.data(), 96, accMemory, 96, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int row = 0; row < 4; ++row) {
        for (int column = 0; column < 6; ++column) {
            float expected = static_cast<float>(1000 + row * 6 + column);
            if (column % 2 == 1) expected += static_cast<float>(column / 2 * 4 + row);  // x transposed
            CHECK_EQ(result[static_cast<size_t>(row * 6 + column)], expected);
        }
    }
    for (void *address : {xMemory, accMemory, extra}) OK(aclrtFree(address));
    OK(aclDestroyTensor(xView));
    OK(aclDestroyTensor(accView));
}

static void fourBitElements() {
    sim::TensorDesc desc;
    desc.shape = {2, 3};
    desc.strides = {1, 2};
    desc.dtype = ACL_INT4;
    const uint8_t packed[3] = {0x21, 0x43, 0x65};  // elements 1 2 3 4 5 6, low nibble first
    uint8_t dense[3] = {0, 0, 0}, back[3] = {0, 0, 0};
    sim::gather(desc, packed, dense);
    const uint8_t expected[3] = {0x31, 0x25, 0x64};  // 1 3 5 / 2 4 6
    CHECK(std::memcmp(dense, expected, 3) == 0);
    sim::scatter(desc, dense, back);
    CHECK(std::memcmp(back, packed, 3) == 0);
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    refusals();
    workspace();
    movement();
    fourBitElements();
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
