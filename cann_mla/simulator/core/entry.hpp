// How every exported function begins.
//
//     aclError aclrtX(...) {
//         SIM_API;
//
// It notes that the thread is in this function, and asks fault injection, which may answer in its place: functions
// that return a status return the injected one, functions that return a handle return null.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "core/origin.hpp"

#define SIM_API SIM_API_NAMED(__func__)

// For C++ functions, whose __func__ lacks their scope.
#define SIM_API_NAMED(name)                        \
    const sim::ApiCall simApiCall(name, SIM_CALLER); \
    if (auto simInjected = simApiCall.injected()) return sim::InjectedAnswer{*simInjected}

// For functions that return neither a status nor a handle.
#define SIM_API_WITHOUT_STATUS const sim::ApiCall simApiCall(__func__, SIM_CALLER)

#define SIM_CALLER (sim::Caller{__builtin_return_address(0), __builtin_dwarf_cfa()})

namespace sim __attribute__((visibility("default"))) {

// True while fault injection has anything to say about calls.
extern std::atomic<bool> faultsArmed;

// What fault injection makes this call of `api` return, counting the call; nullopt: let it run. Sets the error text.
std::optional<int32_t> injectedStatus(const char *api);

// Where a function was called.
struct Caller {
    const void *returnAddress = nullptr;
    const void *frameEnd = nullptr;  // the canonical frame address of the function
};

// One call of a program into the simulator. Exported functions call each other: only the outermost call counts.
class ApiCall {
   public:
    ApiCall(const char *api, const Caller &caller);
    ~ApiCall();
    ApiCall(const ApiCall &) = delete;
    ApiCall &operator=(const ApiCall &) = delete;

    std::optional<int32_t> injected() const {
        if (!faultsArmed.load(std::memory_order_relaxed) || !outermost_) return std::nullopt;
        return injectedStatus(api_);
    }

   private:
    const char *const api_;
    const bool outermost_;
};

// The call that a thread is in.
struct CurrentCall {
    Origin origin;
    Caller caller;
    bool located = false;
};

// The program's own code, called in the middle of a call: what it calls are calls of their own.
class UserCode {
   public:
    UserCode();
    ~UserCode();
    UserCode(const UserCode &) = delete;
    UserCode &operator=(const UserCode &) = delete;

   private:
    const CurrentCall interrupted_;
};

// A task of a stream: while it runs, its thread works for the call that queued it.
class TaskCall {
   public:
    explicit TaskCall(const Origin &origin);
    ~TaskCall();
    TaskCall(const TaskCall &) = delete;
    TaskCall &operator=(const TaskCall &) = delete;
};

// The exported function that this thread is in or works for; "" outside of all.
const char *currentApi();
// The address in the program that the function will return to; nullptr outside of all.
const void *currentReturnAddress();

struct InjectedAnswer {
    int32_t status;
    operator int32_t() const { return status; }
    template <typename T>
    operator T *() const { return nullptr; }
    template <typename T, std::enable_if_t<std::is_enum_v<T>, int> = 0>
    operator T() const { return static_cast<T>(status); }
};

}  // namespace sim
