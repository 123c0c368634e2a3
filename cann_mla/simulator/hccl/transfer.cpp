#include "hccl/transfer.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "acl/acl_base.h"
#include "checker/uses.hpp"
#include "core/device_memory.hpp"
#include "core/settings.hpp"

namespace sim::hccl {
namespace {

constexpr std::array<const char *, static_cast<size_t>(Operation::Count)> kOperationNames = {
    "HcclSend or HcclRecv", "HcclBatchSendRecv", "HcclAllGather", "HcclAllReduce", "HcclBroadcast", "HcclBarrier",
    "HcclReduceScatter", "HcclReduce", "HcclScatter", "HcclAlltoAll", "HcclAlltoAllV"};

std::string textOf(const Terms &terms) {
    auto operation = static_cast<size_t>(terms.operation);
    return std::string(operation < kOperationNames.size() ? kOperationNames[operation] : "something else") + " with " +
           std::to_string(terms.bytes) + " bytes of HcclDataType " + std::to_string(terms.dataType) +
           ", reduction or root " + std::to_string(terms.detail);
}

bool agree(const Terms &a, const Terms &b) {
    return a.operation == b.operation && a.dataType == b.dataType && a.detail == b.detail && a.bytes == b.bytes;
}

// The transfers of one lane, one after the other.
class Course {
   public:
    Course(Communicator &communicator, Lane &lane) : communicator_(communicator), lane_(lane) {}

    void add(const Transfer &transfer) { left_.push_back(transfer); }
    Lane *lane() { return &lane_; }
    bool isOver() const { return left_.empty(); }
    const Transfer &current() const { return left_.front(); }

    pollfd request() const {
        bool writes = said_ < sizeof(Terms) || (current().sends && heard_ == sizeof(Terms));
        bool reads = heard_ < sizeof(Terms) || !current().sends;
        return {lane_.socket.fd(), static_cast<short>((writes ? POLLOUT : 0) | (reads ? POLLIN : 0)), 0};
    }

    // Goes on as far as possible without waiting; whether that was anywhere.
    bool advance() {
        moving_ = false;
        while (!isOver()) {
            Transfer &transfer = left_.front();
            if (!move(true, reinterpret_cast<char *>(&transfer.terms), said_, sizeof(Terms))) break;
            if (!move(false, reinterpret_cast<char *>(&theirs_), heard_, sizeof(Terms))) break;
            if (!agree(transfer.terms, theirs_)) refuse(transfer);
            if (!move(transfer.sends, transfer.data, moved_, transfer.terms.bytes)) break;
            left_.pop_front();
            said_ = heard_ = moved_ = 0;
        }
        return moving_;
    }

   private:
    // Moves bytes up to `end`; false when it has to wait for the other side.
    bool move(bool out, char *data, uint64_t &done, uint64_t end) {
        constexpr uint64_t kPiece = uint64_t{1} << 20;
        while (done < end) {
            size_t piece = std::min(end - done, kPiece);
            ssize_t count = out ? ::send(lane_.socket.fd(), data + done, piece, MSG_NOSIGNAL)
                                : ::recv(lane_.socket.fd(), data + done, piece, 0);
            if (count > 0) {
                done += static_cast<uint64_t>(count);
                moving_ = true;
            } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                return false;
            } else if (count == 0 || errno != EINTR) {
                lost();
            }
        }
        return true;
    }

    [[noreturn]] void lost() const {
        if (std::string why = communicator_.whyBroken(); !why.empty()) throw KernelFault(ACL_ERROR_RT_SOCKET_CLOSE, why);
        std::string why = "rank " + std::to_string(current().peer) + " is gone: its process has ended, or it destroyed "
                          "its communicator, or gave up after an error of its own; look at its output";
        communicator_.breakDown(HCCL_E_REMOTE, why);
        throw KernelFault(ACL_ERROR_RT_SOCKET_CLOSE, why);
    }

    [[noreturn]] void refuse(const Transfer &transfer) const {
        std::string peer = std::to_string(transfer.peer), rank = std::to_string(communicator_.rank());
        std::string why = "the ranks do not call the same operation: rank " + rank + " is in " + textOf(transfer.terms) +
                          ", rank " + peer + " in " + textOf(theirs_);
        communicator_.breakDown(HCCL_E_PARA, why);
        throw KernelFault(ACL_ERROR_RT_INTERNAL_ERROR, why);
    }

    Communicator &communicator_;
    Lane &lane_;
    std::deque<Transfer> left_;
    Terms theirs_{};
    uint64_t said_ = 0, heard_ = 0, moved_ = 0;
    bool moving_ = false;
};

std::string whoIsMissing(const Communicator &communicator, const std::vector<Course> &courses) {
    std::string peers;
    for (const Course &course : courses) {
        if (course.isOver()) continue;
        const Transfer &left = course.current();
        peers += (peers.empty() ? "rank " : ", rank ") + std::to_string(left.peer);
        peers += left.sends ? " to receive" : " to send";
    }
    return "rank " + std::to_string(communicator.rank()) + " of " + std::to_string(communicator.size()) + " waited " +
           std::to_string(communicator.executeTimeout().count()) + " ms (HCCL_EXEC_TIMEOUT) for " + peers;
}

class Run {
   public:
    Run(Communicator &communicator, Stream &stream) : communicator_(communicator), stream_(stream) { restartClock(); }

    void operator()(const std::vector<Transfer> &transfers) {
        if (std::string why = communicator_.whyBroken(); !why.empty()) throw KernelFault(ACL_ERROR_RT_SOCKET_CLOSE, why);
        std::map<std::pair<uint32_t, bool>, size_t> numbers;
        for (const Transfer &transfer : transfers) {
            auto [entry, isNew] = numbers.try_emplace({transfer.peer, transfer.sends}, courses_.size());
            Link &link = communicator_.link(transfer.peer);
            if (isNew) courses_.emplace_back(communicator_, transfer.sends ? link.out : link.in);
            courses_[entry->second].add(transfer);
        }
        std::vector<Lane *> lanes;
        for (Course &course : courses_) lanes.push_back(course.lane());
        if (!communicator_.take(lanes, [this] { return isAborted(); })) return;
        try {
            while (step()) {
            }
        } catch (...) {
            communicator_.giveBack(lanes);
            throw;
        }
        communicator_.giveBack(lanes);
    }

   private:
    // The timeout is for a wait, not for the whole of a large transfer.
    void restartClock() {
        auto timeout = communicator_.executeTimeout();
        if (timeout.count() > 0) deadline_ = Clock::now() + timeout;
    }

    // False when all is done, or the stream was aborted.
    bool step() {
        constexpr int kLook = 10;  // milliseconds between two looks at what else may end the wait
        std::vector<pollfd> requests;
        for (Course &course : courses_) {
            if (course.advance()) restartClock();
            if (!course.isOver()) requests.push_back(course.request());
        }
        if (requests.empty()) return false;
        ::poll(requests.data(), requests.size(), kLook);
        return !isAborted();
    }

    bool isAborted() {
        if (stream_.aborting()) {
            communicator_.breakDown(HCCL_E_SUSPENDING, "an operation of the communicator was aborted with its stream");
            return true;
        }
        if (deadline_ && Clock::now() >= *deadline_) {
            std::string why = whoIsMissing(communicator_, courses_);
            communicator_.breakDown(HCCL_E_TIMEOUT, why);
            throw KernelFault(ACL_ERROR_RT_WAIT_TIMEOUT, why);
        }
        return false;
    }

    Communicator &communicator_;
    Stream &stream_;
    Deadline deadline_;
    std::vector<Course> courses_;
};

void checkBuffer(const Buffer &buffer, int32_t device) {
    if (auto fault = rangeFault(buffer.address, buffer.bytes)) {
        throw KernelFault(ACL_ERROR_RT_DEVICE_MEM_ERROR, buffer.name + (": " + *fault));
    }
    auto allocation = findAllocation(buffer.address);
    if (allocation && allocation->device != device) {
        throw KernelFault(ACL_ERROR_RT_DEVICE_MEM_ERROR,
                          std::string(buffer.name) + " lies on device " + std::to_string(allocation->device) +
                              ", the communicator is on device " + std::to_string(device));
    }
}

// What strict mode has to know of a task.
checker::TaskNote noteOf(const std::vector<Buffer> &buffers) {
    checker::TaskNote note;
    if (!strict()) return note;
    for (const Buffer &buffer : buffers) {
        checker::Use use;
        use.name = buffer.name;
        use.address = buffer.address;
        use.where = checker::Footprint(0, buffer.bytes);
        use.reads = buffer.use == Use::Write ? checker::Reads::No : checker::Reads::Maybe;  // as a copy does
        use.writes = buffer.use != Use::Read;
        note.uses.push_back(std::move(use));
    }
    return note;
}

// Counts a queued task until it is over, or dropped.
class Queued {
   public:
    explicit Queued(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {
        ++communicator_->queued;
    }
    ~Queued() { --communicator_->queued; }
    Queued(const Queued &) = delete;
    Queued &operator=(const Queued &) = delete;
    Communicator &communicator() { return *communicator_; }

   private:
    std::shared_ptr<Communicator> communicator_;
};

}  // namespace

void launch(const char *api, std::shared_ptr<Communicator> communicator, const std::shared_ptr<Stream> &stream,
            Task task) {
    auto queued = std::make_shared<Queued>(std::move(communicator));
    Stream *worker = stream.get();
    checker::TaskNote note = noteOf(task.buffers);
    auto run = [queued, worker, task = std::move(task)] {
        for (const Buffer &buffer : task.buffers) checkBuffer(buffer, queued->communicator().device());
        Run(queued->communicator(), *worker)(task.transfers);
        if (task.finish && !worker->aborting()) task.finish();
    };
    stream->enqueue(api, std::move(run), std::move(note));
}

}  // namespace sim::hccl
