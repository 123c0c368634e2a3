// The error text of a thread, and refusals that carry one.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace sim __attribute__((visibility("default"))) {

// A status with the text that explains it.
struct Rejection {
    int32_t status;
    std::string text;
};

// Appends "api: text" to the text that aclGetRecentErrMsg hands out in this thread, and returns the status.
int32_t fail(const char *api, int32_t status, const std::string &text);

// The text collected since the last call, which stays valid until the next call in the thread; nullptr if none.
const char *takeErrorText();

// Thrown by a kernel: what the device would report at the next synchronisation.
class KernelFault : public std::runtime_error {
   public:
    KernelFault(int32_t status, const std::string &text) : std::runtime_error(text), status_(status) {}
    int32_t status() const { return status_; }

   private:
    int32_t status_;
};

}  // namespace sim
