#include "hccl/rendezvous.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <thread>

#include "core/error.hpp"

namespace sim::hccl {
namespace {

constexpr char kMagic[16] = "cann_mla_sim";
constexpr size_t kNameBytes = 80;

struct Root {
    char magic[sizeof kMagic];
    char name[kNameBytes];
};
static_assert(sizeof(Root) <= HCCL_ROOT_INFO_BYTES);

// What a rank says when it comes.
struct Arrival {
    uint32_t rank;
    uint32_t ranks;
    char listener[kNameBytes];
};

// What it hears in the end; the names of all listeners follow when the status is 0.
struct Answer {
    int32_t status;
    char text[240];
};

void copyText(char *to, size_t room, const std::string &text) {
    std::memset(to, 0, room);
    std::memcpy(to, text.data(), std::min(text.size(), room - 1));
}

struct Guest {
    Socket socket;
    Arrival arrival;
};

class Meeting {
   public:
    Meeting(Socket listener, std::chrono::seconds timeout)
        : listener_(std::move(listener)), timeout_(timeout), deadline_(Clock::now() + timeout) {}

    void run() {
        Rejection outcome = gather();
        Answer answer{outcome.status, {}};
        copyText(answer.text, sizeof answer.text, outcome.text);
        std::string names;
        std::sort(guests_.begin(), guests_.end(),
                  [](const Guest &a, const Guest &b) { return a.arrival.rank < b.arrival.rank; });
        for (const Guest &guest : guests_) names.append(guest.arrival.listener, kNameBytes);
        const Deadline soon = Clock::now() + std::chrono::seconds(5);
        for (const Guest &guest : guests_) {
            if (!sendAll(guest.socket, &answer, sizeof answer, soon)) continue;
            if (answer.status == HCCL_SUCCESS) sendAll(guest.socket, names.data(), names.size(), soon);
        }
    }

   private:
    Rejection gather() {
        do {
            Guest guest{acceptFrom(listener_, deadline_), {}};
            if (!guest.socket) return {HCCL_E_TIMEOUT, missing()};
            if (!receiveAll(guest.socket, &guest.arrival, sizeof guest.arrival, deadline_)) continue;
            guests_.push_back(std::move(guest));
            if (auto text = contradiction(guests_.back().arrival); !text.empty()) return {HCCL_E_PARA, text};
        } while (guests_.empty() || guests_.size() < guests_.front().arrival.ranks);
        return {HCCL_SUCCESS, ""};
    }

    std::string contradiction(const Arrival &last) const {
        const Arrival &first = guests_.front().arrival;
        if (last.ranks != first.ranks) {
            return "rank " + std::to_string(last.rank) + " was given nRanks " + std::to_string(last.ranks) + ", rank " +
                   std::to_string(first.rank) + " was given " + std::to_string(first.ranks);
        }
        auto same = [&](const Guest &guest) { return guest.arrival.rank == last.rank; };
        if (std::count_if(guests_.begin(), guests_.end(), same) > 1) {
            return "two ranks were given the number " + std::to_string(last.rank);
        }
        return "";
    }

    std::string missing() const {
        std::string text = std::to_string(guests_.size()) + " ranks came to the root within " +
                           std::to_string(timeout_.count()) + " s (HCCL_CONNECT_TIMEOUT):";
        for (const Guest &guest : guests_) text += " " + std::to_string(guest.arrival.rank);
        return text + "; the others did not call HcclCommInitRootInfo with its root info";
    }

    const Socket listener_;
    const std::chrono::seconds timeout_;
    const Deadline deadline_;
    std::vector<Guest> guests_;
};

}  // namespace

Timeouts timeoutsOfEnvironment() {
    Timeouts timeouts{std::chrono::seconds(120), std::chrono::seconds(1836)};
    if (const char *text = std::getenv("HCCL_CONNECT_TIMEOUT")) {
        bool digits = std::regex_match(text, std::regex("[0-9]{1,9}"));
        long seconds = digits ? std::strtol(text, nullptr, 10) : -1;
        if (seconds < 120 || seconds > 7200) {
            throw Rejection{HCCL_E_PARA, std::string("HCCL_CONNECT_TIMEOUT is ") + text + "; give 120 to 7200 seconds"};
        }
        timeouts.connect = std::chrono::seconds(seconds);
    }
    if (const char *text = std::getenv("HCCL_EXEC_TIMEOUT")) {
        bool number = std::regex_match(text, std::regex("[0-9]{1,10}([.][0-9]+)?"));
        double seconds = number ? std::strtod(text, nullptr) : -1;
        if (seconds < 0 || seconds > 2147483647) {
            throw Rejection{HCCL_E_PARA, std::string("HCCL_EXEC_TIMEOUT is ") + text + "; give 0 to 2147483647 seconds"};
        }
        timeouts.execute = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
    }
    return timeouts;
}

HcclRootInfo openMeeting(std::chrono::seconds timeout) {
    constexpr int backlog = 1024;
    std::string name = freshName();
    Socket listener = listenAt(name, backlog);
    if (!listener) throw Rejection{HCCL_E_SYSCALL, std::string("no socket for the root: ") + std::strerror(errno)};
    std::thread([meeting = std::make_shared<Meeting>(std::move(listener), timeout)] { meeting->run(); }).detach();
    Root root{};
    std::memcpy(root.magic, kMagic, sizeof kMagic);
    copyText(root.name, kNameBytes, name);
    HcclRootInfo rootInfo{};
    std::memcpy(rootInfo.internal, &root, sizeof root);
    return rootInfo;
}

std::string meetingOf(const HcclRootInfo &rootInfo) {
    Root root;
    std::memcpy(&root, rootInfo.internal, sizeof root);
    if (std::memcmp(root.magic, kMagic, sizeof kMagic) != 0) {
        throw Rejection{HCCL_E_PARA, "rootInfo is not from HcclGetRootInfo; all ranks take the one of the root rank"};
    }
    root.name[kNameBytes - 1] = '\0';
    return root.name;
}

std::vector<std::string> meet(const std::string &meeting, uint32_t ranks, uint32_t rank, const std::string &listener,
                              Deadline deadline) {
    Socket root = connectTo(meeting);
    if (!root) {
        throw Rejection{HCCL_E_TCP_CONNECT,
                        "nobody waits at the root info: the root's process has ended, a communicator was made with it "
                        "before, or HCCL_CONNECT_TIMEOUT is over"};
    }
    Arrival arrival{rank, ranks, {}};
    copyText(arrival.listener, kNameBytes, listener);
    Answer answer;
    if (!sendAll(root, &arrival, sizeof arrival, deadline) || !receiveAll(root, &answer, sizeof answer, deadline)) {
        bool late = deadline && Clock::now() >= *deadline;
        throw Rejection{late ? HCCL_E_TIMEOUT : HCCL_E_TCP_TRANSFER,
                        late ? "the root did not answer in time" : "the root went away before all ranks had come"};
    }
    answer.text[sizeof answer.text - 1] = '\0';
    if (answer.status != HCCL_SUCCESS) throw Rejection{answer.status, answer.text};
    std::vector<char> names(ranks * kNameBytes);
    if (!receiveAll(root, names.data(), names.size(), deadline)) {
        throw Rejection{HCCL_E_TCP_TRANSFER, "the root went away while it told the ranks of each other"};
    }
    std::vector<std::string> result;
    for (uint32_t i = 0; i < ranks; ++i) result.emplace_back(names.data() + i * kNameBytes);
    return result;
}

}  // namespace sim::hccl
