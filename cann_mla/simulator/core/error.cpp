#include "core/error.hpp"

#include <atomic>
#include <mutex>
#include <optional>

#include "checker/findings.hpp"

namespace sim {
namespace {

struct ThreadErrors {
    std::optional<std::string> pending;
    std::string handedOut;  // keeps the characters alive that takeErrorText returned
    int32_t last = 0;
};

ThreadErrors &mine() {
    thread_local ThreadErrors errors;
    return errors;
}

std::atomic<bool> sharedMode{false};

struct SharedText {
    std::mutex mutex;
    std::optional<std::string> pending;
};

SharedText &sharedText() {
    static SharedText &instance = *new SharedText;
    return instance;
}

}  // namespace

int32_t fail(const char *api, int32_t status, const std::string &text) {
    noteFailure(api, status, text);
    std::string message = std::string(api) + ": " + text;
    mine().last = status;
    if (sharedMode.load(std::memory_order_relaxed)) {
        std::lock_guard lock(sharedText().mutex);
        sharedText().pending = std::move(message);
    } else {
        mine().pending = std::move(message);
    }
    return status;
}

const char *takeErrorText() {
    ThreadErrors &errors = mine();
    std::optional<std::string> text;
    if (sharedMode.load(std::memory_order_relaxed)) {
        std::lock_guard lock(sharedText().mutex);
        text.swap(sharedText().pending);
    } else {
        text.swap(errors.pending);
    }
    if (!text) return nullptr;
    errors.handedOut = std::move(*text);
    return errors.handedOut.c_str();
}

void shareErrorText(bool shared) { sharedMode.store(shared, std::memory_order_relaxed); }

int32_t lastError(bool clear) {
    int32_t status = mine().last;
    if (clear) mine().last = 0;
    return status;
}

}  // namespace sim
