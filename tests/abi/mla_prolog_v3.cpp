// aclnnMlaPrologV3WeightNz in the steps of CANN's sample. The operands come from files of a folder, as they lie in
// memory, and the outputs go to files beside them: mla_prolog_v3 FOLDER tokens He heads
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_mla_prolog_v3_weight_nz.h"
#include "check.hpp"

using Dims = std::vector<int64_t>;

struct Operand {
    aclTensor *tensor = nullptr;
    void *device = nullptr;
    size_t bytes = 0;
};

static std::string folder;
static std::map<std::string, Operand> operands;

static std::vector<char> readFile(const std::string &name) {
    std::ifstream file(folder + "/" + name + ".bin", std::ios::binary);
    CHECK(static_cast<bool>(file));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

static void create(const std::string &name, const Dims &dims, aclDataType dtype = ACL_BF16,
                   aclFormat format = ACL_FORMAT_ND) {
    std::vector<char> content = readFile(name);
    Operand operand;
    operand.bytes = aclDataTypeSize(dtype);
    for (int64_t dim : dims) operand.bytes *= static_cast<size_t>(dim);
    CHECK_EQ(content.size(), operand.bytes);
    OK(aclrtMalloc(&operand.device, operand.bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemcpy(operand.device, operand.bytes, content.data(), operand.bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    operand.tensor =
        aclCreateTensor(dims.data(), dims.size(), dtype, nullptr, 0, format, dims.data(), dims.size(), operand.device);
    CHECK(operand.tensor != nullptr);
    operands[name] = operand;
}

// The 4-D block shape of a FRACTAL_NZ matrix with two-byte elements.
static Dims blocks(int64_t rows, int64_t columns) { return {columns / 16, rows / 16, 16, 16}; }

static void save(const std::string &name) {
    const Operand &operand = operands.at(name);
    std::vector<char> content(operand.bytes);
    OK(aclrtMemcpy(content.data(), content.size(), operand.device, operand.bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    std::ofstream(folder + "/" + name + ".out", std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 5);
    folder = argv[1];
    const int64_t tokens = std::stoll(argv[2]), he = std::stoll(argv[3]), heads = std::stoll(argv[4]);
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    aclrtStream stream = nullptr;
    OK(aclrtCreateStream(&stream));

    create("tokenX", {tokens, 1, he});
    create("weightDq", blocks(he, 1536), ACL_BF16, ACL_FORMAT_FRACTAL_NZ);
    create("weightUqQr", blocks(1536, heads * 192), ACL_BF16, ACL_FORMAT_FRACTAL_NZ);
    create("weightUk", {heads, 128, 512});
    create("weightDkvKr", blocks(he, 576), ACL_BF16, ACL_FORMAT_FRACTAL_NZ);
    create("rmsnormGammaCq", {1536});
    create("rmsnormGammaCkv", {512});
    create("ropeSin", {tokens, 1, 64});
    create("ropeCos", {tokens, 1, 64});
    create("kvCacheRef", {1, 16, 1, 512});
    create("krCacheRef", {1, 16, 1, 64});
    create("cacheIndexOptional", {tokens, 1}, ACL_INT64);
    create("queryOut", {tokens, 1, heads, 512});
    create("queryRopeOut", {tokens, 1, heads, 64});

    auto t = [](const char *name) { return operands.at(name).tensor; };
    char cacheMode[] = "PA_BSND";
    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    OK(aclnnMlaPrologV3WeightNzGetWorkspaceSize(
        t("tokenX"), t("weightDq"), t("weightUqQr"), t("weightUk"), t("weightDkvKr"), t("rmsnormGammaCq"),
        t("rmsnormGammaCkv"), t("ropeSin"), t("ropeCos"), t("kvCacheRef"), t("krCacheRef"), t("cacheIndexOptional"),
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 1e-5, 1e-5, cacheMode, 0, 0, 0,
        0, 0, 128, 1.0, 1.0, t("queryOut"), t("queryRopeOut"), nullptr, nullptr, nullptr, &workspaceSize, &executor));
    void *workspace = nullptr;
    if (workspaceSize > 0) OK(aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclnnMlaPrologV3WeightNz(workspace, workspaceSize, executor, stream));
    OK(aclrtSynchronizeStream(stream));

    for (const char *name : {"queryOut", "queryRopeOut", "kvCacheRef", "krCacheRef"}) save(name);
    for (const auto &[name, operand] : operands) {
        OK(aclDestroyTensor(operand.tensor));
        OK(aclrtFree(operand.device));
    }
    if (workspace != nullptr) OK(aclrtFree(workspace));
    OK(aclrtDestroyStream(stream));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
