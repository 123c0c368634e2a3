// Fault injection as programs ask for it.
#include <stdexcept>
#include <string>

#include "checker/fault_injection.hpp"
#include "core/error.hpp"
#include "sim/cann_mla_sim.h"

int32_t cannMlaSimInject(const char *faults, int64_t *id) {
    if (faults == nullptr || id == nullptr) return sim::fail(__func__, ACL_ERROR_INVALID_PARAM, "a pointer is null");
    try {
        *id = sim::injectFaults(faults);
        return ACL_SUCCESS;
    } catch (const std::invalid_argument &error) {
        return sim::fail(__func__, ACL_ERROR_INVALID_PARAM, error.what());
    }
}

int32_t cannMlaSimWithdraw(int64_t id) {
    if (id == 0) {
        sim::withdrawAllFaults();
        return ACL_SUCCESS;
    }
    if (sim::withdrawFaults(id)) return ACL_SUCCESS;
    return sim::fail(__func__, ACL_ERROR_INVALID_PARAM, "there are no faults of id " + std::to_string(id));
}

int64_t cannMlaSimStrikeCount(int64_t id) {
    auto struck = sim::struckFaults(id);
    return struck ? static_cast<int64_t>(struck->size()) : -1;
}

const char *cannMlaSimStrikeText(int64_t id, int64_t index) {
    thread_local std::string text;
    auto struck = sim::struckFaults(id);
    if (!struck || index < 0 || index >= static_cast<int64_t>(struck->size())) return nullptr;
    text = (*struck)[static_cast<size_t>(index)];
    return text.c_str();
}
