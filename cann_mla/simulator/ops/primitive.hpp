// What the checks and kernels of the aclnn primitives share: refusals, and rows of 16 and 32-bit floats.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/operator.hpp"

namespace sim::primitive {

inline constexpr int32_t paramNullptr = 161001;   // a required operand is missing
inline constexpr int32_t paramInvalid = 161002;   // the operator's own checks
inline constexpr int32_t runtimeError = 361001;   // the product or the pair of formats is not served
inline constexpr int32_t tilingFailed = 561002;   // generated operators
inline constexpr int32_t innerNullptr = 561103;   // composite operators: an inner step gave nothing
inline constexpr uint64_t systemWorkspace = 16 * 1024 * 1024;

struct Named {
    const char *name;
    const TensorDesc *desc;
};

inline bool isA950() { return product() == Product::A950; }

// "[2, 3]"
std::string print(const std::vector<int64_t> &values);

[[noreturn]] void refuse(int32_t status, const std::string &text);

// ---- checks: each throws a Rejection -------------------------------------------------------------------------------

void requirePresent(int32_t status, std::initializer_list<Named> operands);
// The executor and workspaceSize pointers.
void requirePointers(const PhaseOne &call);
void requireDtype(int32_t status, const Named &operand, std::initializer_list<aclDataType> allowed);
void requireSameDtype(int32_t status, const Named &operand, const Named &as);
void requireRank(int32_t status, const Named &operand, int64_t low, int64_t high);
void requireShape(int32_t status, const Named &operand, const std::vector<int64_t> &wanted, const std::string &why);
// Generated operators know ND only; NCHW counts as ND.
void requireNd(int32_t status, const Named &operand);

bool isNz(const TensorDesc &desc);
bool isOneOf(aclDataType dtype, std::initializer_list<aclDataType> allowed);

// Runs checks; what they throw becomes the answer.
template <class Check>
std::optional<Rejection> caught(const Check &check) {
    try {
        check();
        return std::nullopt;
    } catch (const Rejection &rejection) {
        return rejection;
    }
}

// ---- kernels -------------------------------------------------------------------------------------------------------

// CANN accepts the call; the simulator cannot compute it. Phase two succeeds, and the stream reports the fault.
[[noreturn]] void failWithoutKernel(const std::string &text);

// `count` elements from `offset` on, as float. FLOAT, FLOAT16 and BF16; anything else faults.
void loadFloats(aclDataType dtype, const void *source, int64_t offset, int64_t count, float *out);
// The same in the other direction, rounded to nearest even.
void storeFloats(aclDataType dtype, const float *values, int64_t count, void *destination, int64_t offset);

// Which matrix of an operand with leading axes `own` belongs to matrix `index` of a result with leading axes `batch`:
// axes of size 1, and those the operand lacks, are repeated.
int64_t broadcastIndex(int64_t index, const std::vector<int64_t> &batch, const std::vector<int64_t> &own);

}  // namespace sim::primitive
