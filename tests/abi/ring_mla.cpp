// AtbRingMLA in the steps of ATB's own test of its C interface: a first call over causal keys, and a second one over
// other keys that is merged in place. Operands come from files of a folder, as they lie in memory, and the outputs go
// to files beside them: ring_mla FOLDER queries keys heads kvHeads
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "atb/atb_acl.h"
#include "check.hpp"

using Dims = std::vector<int64_t>;

struct Operand {
    aclTensor* tensor = nullptr;
    void* device = nullptr;
    size_t bytes = 0;
};

static std::string folder;
static std::map<std::string, Operand> operands;

static void create(const std::string& name, const Dims& dims, aclDataType dtype = ACL_BF16) {
    Operand operand;
    operand.bytes = aclDataTypeSize(dtype);
    for (int64_t dim : dims) operand.bytes *= static_cast<size_t>(dim);
    std::ifstream file(folder + "/" + name + ".bin", std::ios::binary);
    std::vector<char> content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    content.resize(operand.bytes);  // outputs have no file
    OK(aclrtMalloc(&operand.device, operand.bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemcpy(operand.device, operand.bytes, content.data(), operand.bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    operand.tensor =
        aclCreateTensor(dims.data(), dims.size(), dtype, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, operand.device);
    CHECK(operand.tensor != nullptr);
    operands[name] = operand;
}

static void save(const std::string& name) {
    const Operand& operand = operands.at(name);
    std::vector<char> content(operand.bytes);
    OK(aclrtMemcpy(content.data(), content.size(), operand.device, operand.bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    std::ofstream(folder + "/" + name + ".out", std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
}

// One call over the keys of that number; the first one is causal and starts, the second is merged.
static void ring(const std::string& number, bool first, const std::vector<int32_t>& lengths, int32_t heads,
                 int32_t kvHeads, atb::Context* context, aclrtStream stream) {
    auto t = [](const std::string& name) { return operands.at(name).tensor; };
    Dims shape{2, static_cast<int64_t>(lengths.size()) / 2};
    aclTensor* seqLen = aclCreateTensor(shape.data(), 2, ACL_INT32, nullptr, 0, ACL_FORMAT_ND, nullptr, 0,
                                        const_cast<int32_t*>(lengths.data()));
    uint64_t workspaceSize = 0;
    atb::Operation* op = nullptr;
    OK(AtbRingMLAGetWorkspaceSize(t("querySplit1"), t("querySplit2"), t("keySplit1" + number), t("keySplit2" + number),
                                  t("value" + number), t("mask"), seqLen, first ? nullptr : t("output"),
                                  first ? nullptr : t("softmaxLse"), heads, kvHeads, 0.0721688F, 1, first ? 1 : 0, 0,
                                  first ? 1 : 0, t("output"), t("softmaxLse"), &workspaceSize, &op, context));
    CHECK_EQ(op->GetName(), std::string("RingMLAOperation"));
    CHECK_EQ(op->GetInputNum(), first ? 7U : 9U);
    CHECK_EQ(op->GetOutputNum(), 2U);
    void* workspace = nullptr;
    if (workspaceSize > 0) OK(aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(AtbRingMLA(workspace, workspaceSize, op, context));
    OK(aclrtSynchronizeStream(stream));
    if (workspace != nullptr) OK(aclrtFree(workspace));
    OK(atb::DestroyOperation(op));
    OK(aclDestroyTensor(seqLen));
}

int main(int argc, char** argv) {
    CHECK_EQ(argc, 6);
    folder = argv[1];
    const int32_t queries = std::stoi(argv[2]), keys = std::stoi(argv[3]), heads = std::stoi(argv[4]);
    const int32_t kvHeads = std::stoi(argv[5]);
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    aclrtStream stream = nullptr;
    OK(aclrtCreateStream(&stream));
    atb::Context* context = nullptr;
    OK(atb::CreateContext(&context));
    OK(context->SetExecuteStream(stream));
    CHECK_EQ(context->GetExecuteStream(), stream);

    create("querySplit1", {queries, heads, 128});
    create("querySplit2", {queries, heads, 64});
    for (const std::string number : {"", "Context"}) {
        const int64_t count = number.empty() ? queries : keys;
        create("keySplit1" + number, {count, kvHeads, 128});
        create("keySplit2" + number, {count, kvHeads, 64});
        create("value" + number, {count, kvHeads, 128});
    }
    create("mask", {512, 512});
    create("output", {queries, heads, 128});
    create("softmaxLse", {heads, queries}, ACL_FLOAT);
    ring("", true, {queries - 1, 1, queries - 1, 1}, heads, kvHeads, context, stream);
    ring("Context", false, {queries - 1, 1, keys, 0}, heads, kvHeads, context, stream);

    for (const char* name : {"output", "softmaxLse"}) save(name);
    for (const auto& [name, operand] : operands) {
        OK(aclDestroyTensor(operand.tensor));
        OK(aclrtFree(operand.device));
    }
    OK(aclrtDestroyStream(stream));
    OK(atb::DestroyContext(context));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
