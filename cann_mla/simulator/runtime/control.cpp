#include "sim/cann_mla_sim.h"

#include <string>

#include "checker/findings.hpp"
#include "checker/leaks.hpp"
#include "checker/place.hpp"
#include "checker/report_file.hpp"
#include "checker/report_text.hpp"
#include "checker/suppressions.hpp"
#include "core/device_memory.hpp"
#include "core/error.hpp"
#include "core/handles.hpp"
#include "core/product.hpp"
#include "core/settings.hpp"
#include "runtime/host_memory.hpp"

static_assert(CANN_MLA_SIM_HCCL_COMM == static_cast<int>(sim::Kind::HcclComm), "the kinds are numbered alike");

namespace {

bool isDevice(int32_t device) { return device >= 0 && device < sim::settings().devices; }

}  // namespace

const char *cannMlaSimVersion(void) { return "1.0"; }

int32_t cannMlaSimSetSoc(const char *product) {
    if (product != nullptr && sim::setProduct(product)) return ACL_SUCCESS;
    return sim::fail(__func__, ACL_ERROR_INVALID_PARAM,
                     std::string(product == nullptr ? "null" : product) +
                         " is no product; give Ascend910B, Ascend910_93 or Ascend950");
}

const char *cannMlaSimGetSoc(void) { return sim::productName(sim::product()); }

void cannMlaSimSetStrict(int32_t on) { sim::setStrict(on != 0); }
int32_t cannMlaSimGetStrict(void) { return sim::strict() ? 1 : 0; }

int64_t cannMlaSimLiveHandles(cannMlaSimKind kind) {
    if (kind < CANN_MLA_SIM_TENSOR || kind > CANN_MLA_SIM_HCCL_COMM) return -1;
    return sim::liveHandles(static_cast<sim::Kind>(kind));
}

int64_t cannMlaSimDeviceBytes(int32_t device) {
    return isDevice(device) ? static_cast<int64_t>(sim::memoryUse(device).used) : -1;
}

int64_t cannMlaSimDeviceAllocations(int32_t device) {
    return isDevice(device) ? sim::memoryUse(device).allocations : -1;
}

int64_t cannMlaSimHostBytes(void) { return static_cast<int64_t>(sim::pinnedUse().bytes); }
int64_t cannMlaSimHostAllocations(void) { return static_cast<int64_t>(sim::pinnedUse().allocations); }

int64_t cannMlaSimFindingCount(void) { return static_cast<int64_t>(sim::findingCount()); }

const char *cannMlaSimFindingText(int64_t index) {
    thread_local std::string text;
    auto kept = index < 0 ? std::nullopt : sim::findingAt(static_cast<size_t>(index));
    if (!kept) return nullptr;
    text = sim::textOf(*kept);
    return text.c_str();
}

const char *cannMlaSimFindingJson(int64_t index) {
    thread_local std::string text;
    auto kept = index < 0 ? std::nullopt : sim::findingAt(static_cast<size_t>(index));
    if (!kept) return nullptr;
    text = sim::jsonOf(*kept);
    return text.c_str();
}

void cannMlaSimClearFindings(void) { sim::clearFindings(); }
void cannMlaSimBeginWatch(void) { sim::beginWatch(); }
void cannMlaSimEndWatch(void) { sim::endWatch(); }

uint64_t cannMlaSimMarkLiving(void) { return sim::checker::markLiving(); }

int32_t cannMlaSimReportLeaksSince(uint64_t mark) {
    if (sim::checker::reportLeaksSince(mark)) return ACL_SUCCESS;
    return sim::fail(__func__, ACL_ERROR_INVALID_PARAM, "no such mark, or it was used before");
}

int32_t cannMlaSimLoadSuppressions(const char *path) {
    if (path == nullptr) return sim::fail(__func__, ACL_ERROR_INVALID_PARAM, "path is null");
    const std::string wrong = sim::loadSuppressions(path);
    return wrong.empty() ? ACL_SUCCESS : sim::fail(__func__, ACL_ERROR_INVALID_FILE, wrong);
}

void cannMlaSimSetLocator(cannMlaSimLocator locator) { sim::setLocator(locator); }

int64_t cannMlaSimCheckGuardBands(void) {
    size_t before = sim::findingCount();
    sim::checkGuardBands(__func__);
    return static_cast<int64_t>(sim::findingCount() - before);
}
