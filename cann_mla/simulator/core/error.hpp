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

// Sets the text that aclGetRecentErrMsg hands out in this thread to "api: text", and returns the status.
int32_t fail(const char *api, int32_t status, const std::string &text);
inline int32_t fail(const char *api, const Rejection &rejection) { return fail(api, rejection.status, rejection.text); }

// The text of the last failing call, once; valid until the next call in the thread. nullptr if there is none.
const char *takeErrorText();

// One text for the whole process instead of one a thread (aclInit's err_msg_mode).
void shareErrorText(bool shared);

// The status of the last failing runtime call in this thread; `clear` sets it back to 0.
int32_t lastError(bool clear);

// Thrown by a kernel: what the device would report at the next synchronisation.
class KernelFault : public std::runtime_error {
   public:
    KernelFault(int32_t status, const std::string &text) : std::runtime_error(text), status_(status) {}
    int32_t status() const { return status_; }

   private:
    int32_t status_;
};

}  // namespace sim
