#include "hccl/communicator.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sim::hccl {
namespace {

// How the rank that connects introduces a lane.
struct Greeting {
    uint32_t rank;
    uint32_t sends;  // whether that rank is the one that sends there
};

Rejection lost(uint32_t peer) {
    return {HCCL_E_TCP_CONNECT, "rank " + std::to_string(peer) + " went away while the ranks connected"};
}

// The higher rank of each pair connects, the lower one accepts.
std::vector<Link> connectAll(const std::vector<std::string> &names, uint32_t rank, const Socket &listener,
                             Deadline deadline) {
    const auto ranks = static_cast<uint32_t>(names.size());
    std::vector<Link> links(ranks);
    for (uint32_t peer = 0; peer < rank; ++peer) {
        for (uint32_t sends : {1U, 0U}) {
            Socket socket = connectTo(names[peer]);
            Greeting greeting{rank, sends};
            if (!socket || !sendAll(socket, &greeting, sizeof greeting, deadline)) throw lost(peer);
            (sends ? links[peer].out : links[peer].in).socket = std::move(socket);
        }
    }
    for (uint32_t missing = 2 * (ranks - 1 - rank); missing > 0; --missing) {
        Socket socket = acceptFrom(listener, deadline);
        Greeting greeting;
        if (!socket || !receiveAll(socket, &greeting, sizeof greeting, deadline)) {
            throw Rejection{HCCL_E_TIMEOUT, "rank " + std::to_string(rank) + " waited in vain for " +
                                                std::to_string(missing) + " connections of higher ranks"};
        }
        if (greeting.rank <= rank || greeting.rank >= ranks) throw lost(greeting.rank);
        (greeting.sends ? links[greeting.rank].in : links[greeting.rank].out).socket = std::move(socket);
    }
    return links;
}

}  // namespace

Communicator::Communicator(uint32_t rank, int32_t device, std::string name, std::vector<Link> links, Timeouts timeouts)
    : rank_(rank), device_(device), name_(std::move(name)), timeouts_(timeouts), links_(std::move(links)) {}

std::shared_ptr<Communicator> Communicator::make(const HcclRootInfo &rootInfo, uint32_t ranks, uint32_t rank,
                                                 int32_t device, const std::string &name) {
    const Timeouts timeouts = timeoutsOfEnvironment();
    // CANN gives the root 20 s more to tell the ranks why they could not meet.
    const Deadline deadline = Clock::now() + timeouts.connect + std::chrono::seconds(20);
    const std::string meeting = meetingOf(rootInfo);
    const std::string ownName = freshName();
    Socket listener = listenAt(ownName, static_cast<int>(2 * ranks));
    if (!listener) throw Rejection{HCCL_E_SYSCALL, std::string("no socket for the rank: ") + std::strerror(errno)};
    std::vector<std::string> names = meet(meeting, ranks, rank, ownName, deadline);
    std::vector<Link> links = connectAll(names, rank, listener, deadline);
    return std::make_shared<Communicator>(rank, device, name.empty() ? meeting : name, std::move(links), timeouts);
}

bool Communicator::take(const std::vector<Lane *> &lanes, const std::function<bool()> &stop) {
    constexpr std::chrono::milliseconds look{10};
    auto isTaken = [](const Lane *lane) { return lane->taken; };
    std::unique_lock lock(mutex_);
    while (std::any_of(lanes.begin(), lanes.end(), isTaken)) {
        if (lanesFree_.wait_for(lock, look) == std::cv_status::timeout) {
            lock.unlock();
            if (stop()) return false;
            lock.lock();
        }
    }
    for (Lane *lane : lanes) lane->taken = true;
    return true;
}

void Communicator::giveBack(const std::vector<Lane *> &lanes) {
    {
        std::lock_guard lock(mutex_);
        for (Lane *lane : lanes) lane->taken = false;
    }
    lanesFree_.notify_all();
}

void Communicator::breakDown(HcclResult error, const std::string &why) {
    std::lock_guard lock(mutex_);
    if (error_ != HCCL_SUCCESS) return;  // the first reason counts
    error_ = error;
    why_ = why;
    for (Link &link : links_) {
        link.out.socket.shutDown();
        link.in.socket.shutDown();
    }
}

HcclResult Communicator::error() {
    std::lock_guard lock(mutex_);
    return error_;
}

std::string Communicator::whyBroken() {
    std::lock_guard lock(mutex_);
    return why_;
}

}  // namespace sim::hccl
