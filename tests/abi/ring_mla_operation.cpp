// RingMLA by ATB's C++ interface: operations made from parameters, tensors in a VariantPack. A first ring over causal
// keys and a second one that merges give the bits that AtbRingMLA gives.
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "atb/atb_acl.h"
#include "atb/atb_infer.h"
#include "check.hpp"

using Dims = std::vector<int64_t>;
using atb::infer::RingMLAParam;

constexpr int64_t queries = 130, heads = 4, kvHeads = 2;
static std::vector<int32_t> lengths{130, 130};  // [2, 1]
static atb::Context* context = nullptr;
static aclrtStream stream = nullptr;

static atb::Tensor tensor(const Dims& shape, aclDataType dtype) {
    atb::Tensor made;
    made.desc.dtype = dtype;
    made.desc.format = ACL_FORMAT_ND;
    made.desc.shape.dimNum = shape.size();
    for (size_t i = 0; i < shape.size(); ++i) made.desc.shape.dims[i] = shape[i];
    made.dataSize = atb::Utils::GetTensorSize(made);
    OK(aclrtMalloc(&made.deviceData, made.dataSize, ACL_MEM_MALLOC_HUGE_FIRST));
    return made;
}

static void run(atb::Operation* operation, const atb::VariantPack& pack, const atb::VariantPack& executed) {
    uint64_t size = 0;
    OK(operation->Setup(pack, size, context));
    void* workspace = nullptr;
    if (size > 0) OK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(operation->Execute(executed, static_cast<uint8_t*>(workspace), size, context));
    OK(aclrtSynchronizeStream(stream));
    if (workspace != nullptr) OK(aclrtFree(workspace));
}

// FLOAT values on the device, brought into BF16 by ATB's cast.
static atb::Tensor bf16(const Dims& shape, const std::vector<float>& values) {
    atb::Tensor source = tensor(shape, ACL_FLOAT), result = tensor(shape, ACL_BF16);
    CHECK_EQ(source.dataSize, values.size() * sizeof(float));
    OK(aclrtMemcpy(source.deviceData, source.dataSize, values.data(), source.dataSize, ACL_MEMCPY_HOST_TO_DEVICE));
    atb::infer::ElewiseParam param;
    param.elewiseType = atb::infer::ElewiseParam::ELEWISE_CAST;
    param.outTensorType = ACL_BF16;
    atb::Operation* cast = nullptr;
    OK(atb::CreateOperation(param, &cast));
    atb::VariantPack pack{{source}, {result}};
    run(cast, pack, pack);
    OK(atb::DestroyOperation(cast));
    OK(aclrtFree(source.deviceData));
    return result;
}

static atb::Tensor waves(const Dims& shape, double step) {
    std::vector<float> values(static_cast<size_t>(shape[0] * shape[1] * shape[2]));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
    return bf16(shape, values);
}

static atb::Tensor triangle() {
    std::vector<float> values(512 * 512, 0.0F);
    for (size_t i = 0; i < 512; ++i) {
        for (size_t j = i + 1; j < 512; ++j) values[i * 512 + j] = 1.0F;
    }
    return bf16({512, 512}, values);
}

static std::vector<char> read(const atb::Tensor& from) {
    std::vector<char> bytes(from.dataSize);
    OK(aclrtMemcpy(bytes.data(), bytes.size(), from.deviceData, bytes.size(), ACL_MEMCPY_DEVICE_TO_HOST));
    return bytes;
}

static aclTensor* view(const atb::Tensor& of) {
    void* data = of.deviceData != nullptr ? of.deviceData : of.hostData;
    return aclCreateTensor(of.desc.shape.dims, of.desc.shape.dimNum, of.desc.dtype, nullptr, 0, ACL_FORMAT_ND, nullptr,
                           0, data);
}

// The same call by the C interface.
static void runC(const std::vector<atb::Tensor>& in, const RingMLAParam& p, const atb::Tensor& out,
                 const atb::Tensor& lse) {
    std::vector<aclTensor*> t;
    for (const atb::Tensor& each : in) t.push_back(view(each));
    t.resize(9, nullptr);
    aclTensor *output = view(out), *softmaxLse = view(lse);
    uint64_t size = 0;
    atb::Operation* operation = nullptr;
    OK(AtbRingMLAGetWorkspaceSize(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], p.headNum, p.kvHeadNum,
                                  p.qkScale, p.kernelType, p.maskType, p.inputLayout, p.calcType, output, softmaxLse,
                                  &size, &operation, context));
    void* workspace = nullptr;
    OK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(AtbRingMLA(workspace, size, operation, context));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtFree(workspace));
    OK(atb::DestroyOperation(operation));
    for (aclTensor* each : t) {
        if (each != nullptr) OK(aclDestroyTensor(each));
    }
    OK(aclDestroyTensor(output));
    OK(aclDestroyTensor(softmaxLse));
}

static void checkRefusals(RingMLAParam param, const atb::VariantPack& pack) {
    atb::Operation* operation = nullptr;
    param.rsv[63] = 1;
    CHECK_EQ(atb::CreateOperation(param, &operation), ATB_ERROR_INVALID_PARAM);
    param.rsv[63] = 0;
    CHECK_EQ(atb::CreateOperation(param, static_cast<atb::Operation**>(nullptr)), ATB_ERROR_INVALID_PARAM);
    param.kernelType = RingMLAParam::KERNELTYPE_DEFAULT;
    CHECK_EQ(atb::CreateOperation(param, &operation), ATB_ERROR_INVALID_PARAM);
    param.kernelType = RingMLAParam::KERNELTYPE_HIGH_PRECISION;
    CHECK(operation == nullptr);
    OK(atb::CreateOperation(param, &operation));
    uint64_t size = 0;
    CHECK_EQ(operation->Setup({}, size, context), ATB_ERROR_INVALID_IN_TENSOR_NUM);
    CHECK_EQ(operation->Setup(pack, size, nullptr), ATB_ERROR_INVALID_PARAM);
    CHECK_EQ(operation->Execute(pack, nullptr, 0, context), ATB_ERROR_INVALID_PARAM);  // not set up
    atb::VariantPack wrong = pack;
    wrong.inTensors[6].hostData = nullptr;
    CHECK_EQ(operation->Setup(wrong, size, context), ATB_ERROR_INVALID_PARAM);
    wrong = pack;
    wrong.inTensors[0].desc.dtype = ACL_FLOAT;
    CHECK_EQ(operation->Setup(wrong, size, context), ATB_ERROR_INVALID_TENSOR_INI_MATCH);
    OK(operation->Setup(pack, size, context));
    CHECK_EQ(operation->Execute(pack, nullptr, 0, context), ATB_ERROR_INVALID_PARAM);  // too little workspace
    std::vector<uint8_t> host(1);
    wrong = pack;
    wrong.inTensors[1].dataSize -= 1;
    CHECK_EQ(operation->Execute(wrong, host.data(), size, context), ATB_ERROR_INVALID_PARAM);
    wrong = pack;
    wrong.outTensors[0].deviceData = nullptr;
    CHECK_EQ(operation->Execute(wrong, host.data(), size, context), ATB_ERROR_INVALID_PARAM);
    wrong.outTensors.resize(1);
    CHECK_EQ(operation->Execute(wrong, host.data(), size, context), ATB_ERROR_INVALID_PARAM);
    OK(atb::DestroyOperation(operation));
    CHECK_EQ(atb::DestroyOperation(nullptr), ATB_NO_ERROR);
}

static void checkShapes(atb::Operation* operation, const atb::VariantPack& pack) {
    atb::SVector<atb::TensorDesc> in, out;
    for (const atb::Tensor& each : pack.inTensors) in.push_back(each.desc);
    OK(operation->InferShape(in, out));
    CHECK_EQ(out.size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
        const atb::TensorDesc &inferred = out[i], &given = pack.outTensors[i].desc;
        CHECK_EQ(inferred.dtype, given.dtype);
        CHECK_EQ(inferred.format, given.format);
        CHECK_EQ(inferred.shape.dimNum, given.shape.dimNum);
        for (size_t axis = 0; axis < given.shape.dimNum; ++axis) {
            CHECK_EQ(inferred.shape.dims[axis], given.shape.dims[axis]);
        }
    }
    in[0].shape.dims[2] = 64;
    CHECK_EQ(operation->InferShape(in, out), ATB_ERROR_INVALID_TENSOR_DIM);
    in.resize(3);
    CHECK_EQ(operation->InferShape(in, out), ATB_ERROR_INVALID_IN_TENSOR_NUM);
}

static void checkUpdate(atb::Operation* operation, RingMLAParam param) {
    RingMLAParam found;
    OK(atb::CloneOperationParam(operation, found));
    CHECK_EQ(found.headNum, param.headNum);
    CHECK_EQ(found.qkScale, param.qkScale);
    CHECK_EQ(found.maskType, param.maskType);
    param.headNum = -1;
    CHECK_EQ(atb::UpdateOperationParam(operation, param), ATB_ERROR_INVALID_PARAM);
    CHECK_EQ(atb::CloneOperationParam(nullptr, found), ATB_ERROR_INVALID_PARAM);
    CHECK_EQ(operation->GetInputNum(), 7U);
    param = found;
    param.calcType = RingMLAParam::CALC_TYPE_DEFAULT;
    param.maskType = RingMLAParam::NO_MASK;
    OK(atb::UpdateOperationParam(operation, param));
    CHECK_EQ(operation->GetInputNum(), 9U);  // of the next setup
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    OK(atb::CreateContext(&context));
    OK(aclrtCreateStream(&stream));
    OK(context->SetExecuteStream(stream));

    atb::Tensor seqLen;
    seqLen.desc = {ACL_INT32, ACL_FORMAT_ND, {{2, 1}, 2}};
    seqLen.hostData = lengths.data();
    seqLen.dataSize = atb::Utils::GetTensorSize(seqLen);
    CHECK_EQ(seqLen.dataSize, 8U);
    CHECK_EQ(atb::Utils::GetTensorNumel(seqLen.desc), 2U);
    std::vector<atb::Tensor> in{waves({queries, heads, 128}, 0.37), waves({queries, heads, 64}, 0.11),
                                waves({queries, kvHeads, 128}, 0.73), waves({queries, kvHeads, 64}, 0.19),
                                waves({queries, kvHeads, 128}, 0.53), triangle(), seqLen};
    atb::VariantPack pack;
    for (const atb::Tensor& each : in) pack.inTensors.push_back(each);
    atb::Tensor output = tensor({queries, heads, 128}, ACL_BF16), lse = tensor({heads, queries}, ACL_FLOAT);
    atb::Tensor outputC = tensor({queries, heads, 128}, ACL_BF16), lseC = tensor({heads, queries}, ACL_FLOAT);
    pack.outTensors = {output, lse};

    RingMLAParam param;
    param.calcType = RingMLAParam::CALC_TYPE_FIRST_RING;
    param.headNum = heads;
    param.kvHeadNum = kvHeads;
    param.qkScale = 0.0721688F;
    checkRefusals(param, pack);
    atb::Operation* operation = nullptr;
    OK(atb::CreateOperation(param, &operation));
    CHECK_EQ(operation->GetName(), std::string("RingMLAOperation"));
    checkShapes(operation, pack);
    run(operation, pack, pack);
    runC(in, param, outputC, lseC);
    CHECK(read(output) == read(outputC));
    CHECK(read(lse) == read(lseC));
    const std::vector<char> first = read(output);
    CHECK(first != std::vector<char>(first.size(), 0));

    // An empty pack means the addresses of setup; others in execute take their place.
    atb::VariantPack elsewhere = pack;
    elsewhere.outTensors = {outputC, lseC};
    OK(aclrtMemset(output.deviceData, output.dataSize, 0, output.dataSize));
    run(operation, pack, {});
    CHECK(read(output) == first);
    OK(aclrtMemset(output.deviceData, output.dataSize, 0, output.dataSize));
    OK(aclrtMemset(outputC.deviceData, outputC.dataSize, 0, outputC.dataSize));
    run(operation, pack, elsewhere);
    CHECK(read(outputC) == first);
    CHECK(read(output) != first);

    checkUpdate(operation, param);
    OK(aclrtMemcpy(output.deviceData, output.dataSize, outputC.deviceData, output.dataSize,
                   ACL_MEMCPY_DEVICE_TO_DEVICE));
    pack.inTensors.push_back(output);
    pack.inTensors.push_back(lse);
    run(operation, pack, pack);  // in place
    in.push_back(outputC);
    in.push_back(lseC);
    param.calcType = RingMLAParam::CALC_TYPE_DEFAULT;
    param.maskType = RingMLAParam::NO_MASK;
    runC(in, param, outputC, lseC);
    CHECK(read(output) == read(outputC));
    CHECK(read(lse) == read(lseC));
    CHECK(read(output) != first);
    OK(atb::DestroyOperation(operation));

    for (size_t i = 0; i < 6; ++i) OK(aclrtFree(in[i].deviceData));
    for (const atb::Tensor& each : {output, lse, outputC, lseC}) OK(aclrtFree(each.deviceData));
    OK(aclrtDestroyStream(stream));
    OK(atb::DestroyContext(context));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
