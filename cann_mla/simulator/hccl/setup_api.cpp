// Making, asking and destroying communicators.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "checker/finding.hpp"
#include "core/product.hpp"
#include "core/settings.hpp"
#include "hccl/checks.hpp"
#include "hccl/hccl.h"

namespace hccl = sim::hccl;
using hccl::Communicator;
using sim::Kind;
using sim::Rejection;

namespace {

// What HcclCommConfigInit of CANN writes into the reserved bytes.
struct ConfigHead {
    uint64_t size;
    uint32_t magic;
    uint32_t version;
};

void checkRanks(uint32_t ranks, uint32_t rank) {
    if (ranks == 0) throw Rejection{HCCL_E_PARA, "nRanks is 0"};
    if (rank >= ranks) {
        throw Rejection{HCCL_E_PARA, "rank is " + std::to_string(rank) + ", must be below nRanks, " + std::to_string(ranks)};
    }
}

std::string nameIn(const HcclCommConfig &config) {
    ConfigHead head;
    std::memcpy(&head, config.reserved, sizeof head);
    if (head.magic != HCCL_COMM_CONFIG_MAGIC_WORD) {
        throw Rejection{HCCL_E_PARA, "config was not initialised: set it up as HcclCommConfigInit does"};
    }
    return std::string(config.hcclCommName, strnlen(config.hcclCommName, COMM_NAME_MAX_LENGTH - 1));
}

void initialise(const char *api, uint32_t ranks, const HcclRootInfo *rootInfo, uint32_t rank, const std::string &name,
                HcclComm *comm) {
    *comm = sim::makeHandle(Kind::HcclComm, Communicator::make(*rootInfo, ranks, rank, hccl::currentDevice(), name), api);
}

void destroy(HcclComm comm) {
    auto communicator = hccl::findCommunicator(comm);
    if (communicator->queued > 0) {
        sim::Finding finding;
        finding.rule = "communicator-destroyed-with-work";
        finding.what = std::to_string(communicator->queued) + " operations of the communicator are still queued; they fail";
        finding.object = {sim::kindName(Kind::HcclComm), comm, communicator->text()};
        finding.made = communicator->made;
        sim::report(std::move(finding));
    }
    sim::retire(comm, Kind::HcclComm, {"HcclCommDestroy"});
    communicator->breakDown(HCCL_E_UNAVAIL, "the communicator was destroyed by HcclCommDestroy while operations were queued");
}

// One thread a rank, as all of them wait for each other.
void initialiseAll(const char *api, const std::vector<int32_t> &devices, HcclComm *comms) {
    const HcclRootInfo rootInfo = hccl::openMeeting(hccl::timeoutsOfEnvironment().connect);
    const auto ranks = static_cast<uint32_t>(devices.size());
    std::vector<std::shared_ptr<Communicator>> made(ranks);
    std::vector<Rejection> refusals(ranks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                made[rank] = Communicator::make(rootInfo, ranks, rank, devices[rank], "");
            } catch (const Rejection &rejection) {
                refusals[rank] = rejection;
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    for (const Rejection &refusal : refusals) {
        if (refusal.status != HCCL_SUCCESS) throw refusal;
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) comms[rank] = sim::makeHandle(Kind::HcclComm, made[rank], api);
}

std::atomic<int32_t> deterministic{0};

}  // namespace

HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::currentDevice();
        hccl::checkPointer("rootInfo", rootInfo);
        *rootInfo = hccl::openMeeting(hccl::timeoutsOfEnvironment().connect);
    });
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::currentDevice();
        checkRanks(nRanks, rank);
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("rootInfo", rootInfo);
        initialise("HcclCommInitRootInfo", nRanks, rootInfo, rank, "", comm);
    });
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                      const HcclCommConfig *config, HcclComm *comm) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::currentDevice();
        checkRanks(nRanks, rank);
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("rootInfo", rootInfo);
        hccl::checkPointer("config", config);
        initialise("HcclCommInitRootInfoConfig", nRanks, rootInfo, rank, nameIn(*config), comm);
    });
}

HcclResult HcclCommInitClusterInfo(const char *, uint32_t, HcclComm *) {
    SIM_API;
    return hccl::guarded(__func__, [] {
        throw Rejection{HCCL_E_NOT_SUPPORT, "rank tables are not simulated; use HcclCommInitRootInfo"};
    });
}

HcclResult HcclCommInitClusterInfoConfig(const char *, uint32_t, HcclCommConfig *, HcclComm *) {
    SIM_API;
    return hccl::guarded(__func__, [] {
        throw Rejection{HCCL_E_NOT_SUPPORT, "rank tables are not simulated; use HcclCommInitRootInfoConfig"};
    });
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::currentDevice();
        if (ndev == 0) throw Rejection{HCCL_E_PARA, "ndev is 0"};
        hccl::checkPointer("comms", comms);
        hccl::checkPointer("devices", devices);
        std::vector<int32_t> list(devices, devices + ndev);
        if (std::set<int32_t>(list.begin(), list.end()).size() != ndev) {
            throw Rejection{HCCL_E_PARA, "devices has the same device twice"};
        }
        for (int32_t device : list) {
            if (device < 0 || device >= sim::settings().devices) {
                throw Rejection{HCCL_E_RUNTIME, "device " + std::to_string(device) + " does not exist"};
            }
        }
        initialiseAll("HcclCommInitAll", list, comms);
    });
}

HcclResult HcclCommDestroy(HcclComm comm) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::currentDevice();
        if (comm != nullptr) destroy(comm);
    });
}

HcclResult HcclGetCommName(HcclComm comm, char *commName) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("commName", commName);
        const std::string &name = hccl::findCommunicator(comm)->name();
        std::memcpy(commName, name.c_str(), name.size() + 1);
    });
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("rankSize", rankSize);
        *rankSize = hccl::findCommunicator(comm)->size();
    });
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("rank", rank);
        *rank = hccl::findCommunicator(comm)->rank();
    });
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("comm", comm);
        hccl::checkPointer("asyncError", asyncError);
        *asyncError = hccl::findCommunicator(comm)->error();
    });
}

const char *HcclGetErrorString(HcclResult code) {
    SIM_API_WITHOUT_STATUS;
    static constexpr std::array<const char *, HCCL_E_SUSPENDING + 1> texts = {
        "no error", "parameter error", "empty pointer", "memory error", "internal error", "not support feature",
        "not found specific resource", "resource unavailable", "call system interface error", "timeout",
        "open file fail", "tcp connect fail", "roce connect fail", "tcp transfer fail", "roce transfer fail",
        "call runtime api fail", "call driver api fail", "call profiling api fail", "call cce api fail",
        "call network api fail", "try again", "error cqe", "error communicator suspending"};
    auto index = static_cast<uint32_t>(code);
    return index < texts.size() ? texts[index] : "unknown error";
}

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        // The variable has precedence over the call.
        if (config != HCCL_DETERMINISTIC || std::getenv("HCCL_DETERMINISTIC") != nullptr) return;
        if (configValue.value < 0 || configValue.value > 2) {
            throw Rejection{HCCL_E_PARA, "HCCL_DETERMINISTIC is " + std::to_string(configValue.value) + "; give 0, 1 or 2"};
        }
        if (configValue.value == 2 && sim::product() != sim::Product::A2) {
            throw Rejection{HCCL_E_NOT_SUPPORT, "HCCL_DETERMINISTIC 2 exists on Ascend910B only"};
        }
        deterministic = configValue.value;
    });
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue) {
    SIM_API;
    return hccl::guarded(__func__, [&] {
        hccl::checkPointer("configValue", configValue);
        if (config == HCCL_DETERMINISTIC) configValue->value = deterministic;
    });
}
