// aclTensor, arrays, scalars, lists: what CANN takes and refuses, and what becomes of handles that are dead.
#include <cstdlib>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "check.hpp"
#include "sim/cann_mla_sim.h"

static const int64_t kShape[2] = {3, 4};

static aclTensor *makeTensor() {
    aclTensor *tensor = aclCreateTensor(kShape, 2, ACL_BF16, nullptr, 5, ACL_FORMAT_ND, kShape, 2, nullptr);
    CHECK(tensor != nullptr);
    return tensor;
}

static void reading() {
    int data = 0;
    const int64_t storage[4] = {1, 1, 16, 16};
    const int64_t strides[2] = {8, 2};
    aclTensor *tensor = aclCreateTensor(kShape, 2, ACL_INT8, strides, 5, ACL_FORMAT_FRACTAL_NZ, storage, 4, &data);
    int64_t *dims = nullptr, offset = 0;
    uint64_t count = 0;
    OK(aclGetViewShape(tensor, &dims, &count));
    CHECK_EQ(count, 2u);
    CHECK_EQ(dims[1], 4);
    std::free(dims);
    OK(aclGetViewStrides(tensor, &dims, &count));
    CHECK_EQ(dims[0], 8);
    CHECK_EQ(dims[1], 2);
    std::free(dims);
    OK(aclGetStorageShape(tensor, &dims, &count));
    CHECK_EQ(count, 4u);
    CHECK_EQ(dims[3], 16);
    std::free(dims);
    aclFormat format;
    aclDataType dtype;
    void *address = nullptr;
    OK(aclGetFormat(tensor, &format));
    CHECK_EQ(format, ACL_FORMAT_FRACTAL_NZ);
    OK(aclGetDataType(tensor, &dtype));
    CHECK_EQ(dtype, ACL_INT8);
    OK(aclGetViewOffset(tensor, &offset));
    CHECK_EQ(offset, 5);
    OK(aclGetRawTensorAddr(tensor, &address));
    CHECK_EQ(address, &data);
    OK(aclSetRawTensorAddr(tensor, nullptr));
    OK(aclGetRawTensorAddr(tensor, &address));
    CHECK(address == nullptr);
    CHECK_EQ(aclGetViewShape(nullptr, &dims, &count), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQ(aclGetViewShape(tensor, nullptr, &count), ACLNN_ERR_PARAM_NULLPTR);
    OK(aclInitTensor(tensor, kShape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kShape, 1, &data));
    OK(aclGetViewStrides(tensor, &dims, &count));
    CHECK_EQ(count, 1u);
    CHECK_EQ(dims[0], 1);
    std::free(dims);
    OK(aclDestroyTensor(tensor));
}

static void whatCreationTakes() {
    CHECK(aclCreateTensor(nullptr, 2, ACL_BF16, nullptr, 0, ACL_FORMAT_ND, kShape, 2, nullptr) == nullptr);
    CHECK_TEXT("viewDims is null");
    CHECK(aclCreateTensor(kShape, 2, ACL_BF16, nullptr, 0, ACL_FORMAT_ND, nullptr, 2, nullptr) == nullptr);
    // CANN judges later: odd dtypes, formats, ranks, dimensions and strides make a tensor.
    int64_t odd[26] = {-1, 0, INT64_MAX, INT64_MIN};
    auto dtype = static_cast<aclDataType>(999);
    auto format = static_cast<aclFormat>(99);
    const aclTensor *tensors[] = {
        aclCreateTensor(odd, 26, dtype, odd, -7, format, odd, 26, nullptr),
        aclCreateTensor(odd, 4, ACL_DT_UNDEFINED, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr),
        aclCreateTensor(nullptr, 0, ACL_BF16, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr),
    };
    // Codes without a name read back as undefined, as they do from CANN's own library.
    OK(aclGetDataType(tensors[0], &dtype));
    CHECK_EQ(dtype, ACL_DT_UNDEFINED);
    OK(aclGetFormat(tensors[0], &format));
    CHECK_EQ(format, ACL_FORMAT_UNDEFINED);
    for (const aclTensor *tensor : tensors) {
        CHECK(tensor != nullptr);
        OK(aclDestroyTensor(tensor));
    }
}

static void arraysAndScalars() {
    uint64_t size = 0;
    int64_t integers[3] = {1, 2, 3};
    aclIntArray *array = aclCreateIntArray(integers, 3);
    OK(aclGetIntArraySize(array, &size));
    CHECK_EQ(size, 3u);
    CHECK_EQ(aclGetFloatArraySize(reinterpret_cast<aclFloatArray *>(array), &size), ACLNN_ERR_PARAM_INVALID);
    CHECK_TEXT("aclIntArray");
    OK(aclDestroyIntArray(array));
    CHECK_EQ(aclGetIntArraySize(array, &size), ACLNN_ERR_PARAM_INVALID);
    CHECK_TEXT("was destroyed by aclDestroyIntArray");
    array = aclCreateIntArray(nullptr, 4);  // CANN does not look at the pointer here
    CHECK(array != nullptr);
    OK(aclDestroyIntArray(array));
    const float floats[1] = {1.0f};
    const bool bools[2] = {true, false};
    aclFloatArray *floatArray = aclCreateFloatArray(floats, 1);
    aclBoolArray *boolArray = aclCreateBoolArray(bools, 2);
    OK(aclGetBoolArraySize(boolArray, &size));
    CHECK_EQ(size, 2u);
    OK(aclDestroyFloatArray(floatArray));
    OK(aclDestroyBoolArray(boolArray));
    CHECK(aclCreateScalar(nullptr, ACL_FLOAT) == nullptr);
    float value = 2.5f;
    aclScalar *scalar = aclCreateScalar(&value, ACL_FLOAT);
    CHECK(scalar != nullptr);
    OK(aclDestroyScalar(scalar));
    CHECK_EQ(aclDestroyScalar(scalar), ACLNN_ERR_PARAM_INVALID);
    OK(aclDestroyScalar(nullptr));
    OK(aclDestroyTensor(nullptr));
    OK(aclDestroyTensorList(nullptr));
}

static void listsOwnTheirMembers() {
    aclTensor *members[3] = {makeTensor(), nullptr, makeTensor()};
    aclTensorList *list = aclCreateTensorList(members, 3);
    uint64_t size = 0;
    OK(aclGetTensorListSize(list, &size));
    CHECK_EQ(size, 3u);
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_TENSOR), 2);
    OK(aclDestroyTensorList(list));
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_TENSOR), 0);
    CHECK_EQ(aclDestroyTensor(members[0]), ACLNN_ERR_PARAM_INVALID);
    CHECK_TEXT("was destroyed by aclDestroyTensorList");
    CHECK_EQ(aclDestroyTensorList(list), ACLNN_ERR_PARAM_INVALID);

    aclTensor *twice[2] = {makeTensor(), makeTensor()};
    list = aclCreateTensorList(twice, 2);
    OK(aclDestroyTensor(twice[0]));
    CHECK_EQ(aclDestroyTensorList(list), ACLNN_ERR_PARAM_INVALID);
    CHECK_TEXT("member 0");
    CHECK_EQ(cannMlaSimLiveHandles(CANN_MLA_SIM_TENSOR), 0);

    list = aclCreateTensorList(nullptr, 2);
    CHECK(list != nullptr);
    OK(aclDestroyTensorList(list));
}

static void deadAndForeignHandles() {
    int64_t *dims = nullptr;
    uint64_t count = 0;
    int local = 0;
    aclTensor *foreign[] = {reinterpret_cast<aclTensor *>(&local), reinterpret_cast<aclTensor *>(1),
                            reinterpret_cast<aclTensor *>(UINTPTR_MAX),
                            reinterpret_cast<aclTensor *>(0x5A00FFFFFFFFFFFF),
                            reinterpret_cast<aclTensor *>(0x5AFF000000000001)};
    for (aclTensor *handle : foreign) {
        CHECK_EQ(aclGetViewShape(handle, &dims, &count), ACLNN_ERR_PARAM_INVALID);
        CHECK_EQ(aclDestroyTensor(handle), ACLNN_ERR_PARAM_INVALID);
        CHECK_EQ(aclSetRawTensorAddr(handle, nullptr), ACLNN_ERR_PARAM_INVALID);
    }
    aclTensor *tensor = makeTensor();
    OK(aclDestroyTensor(tensor));
    // A handle stays dead, however many come after it: its slot gets a new generation each time.
    for (int i = 0; i < 30000; ++i) {
        aclTensor *next = makeTensor();
        CHECK(next != tensor);
        OK(aclDestroyTensor(next));
    }
    CHECK_EQ(aclGetViewShape(tensor, &dims, &count), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(aclDestroyTensor(tensor), ACLNN_ERR_PARAM_INVALID);
}

int main() {
    reading();
    whatCreationTakes();
    arraysAndScalars();
    listsOwnTheirMembers();
    deadAndForeignHandles();
    for (int kind = CANN_MLA_SIM_TENSOR; kind <= CANN_MLA_SIM_ATB_OPERATION; ++kind) {
        CHECK_EQ(cannMlaSimLiveHandles(static_cast<cannMlaSimKind>(kind)), 0);
    }
    return 0;
}
