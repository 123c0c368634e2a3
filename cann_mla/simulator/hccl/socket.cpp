#include "hccl/socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

namespace sim::hccl {
namespace {

Socket newSocket() { return Socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

struct Address {
    sockaddr_un address{};
    socklen_t length;

    // A first byte of 0 makes the name abstract.
    explicit Address(const std::string &name) {
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
        length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&address); }
};

// Milliseconds for poll(); rounded up, or it would spin at the end.
int remaining(Deadline deadline) {
    if (!deadline) return -1;
    auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

bool waitFor(int fd, short events, Deadline deadline) {
    for (;;) {
        pollfd entry{fd, events, 0};
        int ready = ::poll(&entry, 1, remaining(deadline));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
        if (deadline && Clock::now() >= *deadline) return false;
    }
}

}  // namespace

Socket::~Socket() {
    if (fd_ >= 0) ::close(fd_);
}

Socket::Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket &Socket::operator=(Socket &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}

void Socket::shutDown() {
    if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

std::string freshName() {
    static std::atomic<uint32_t> count{0};
    std::random_device random;
    return "cann_mla_hccl_" + std::to_string(getpid()) + "_" + std::to_string(count++) + "_" + std::to_string(random());
}

Socket listenAt(const std::string &name, int backlog) {
    Socket socket = newSocket();
    Address address(name);
    bool open = socket && ::bind(socket.fd(), address.get(), address.length) == 0 && ::listen(socket.fd(), backlog) == 0;
    return open ? std::move(socket) : Socket();
}

Socket connectTo(const std::string &name) {
    Socket socket = newSocket();
    Address address(name);
    return socket && ::connect(socket.fd(), address.get(), address.length) == 0 ? std::move(socket) : Socket();
}

Socket acceptFrom(const Socket &listener, Deadline deadline) {
    while (waitFor(listener.fd(), POLLIN, deadline)) {
        int fd = ::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) return Socket(fd);
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) break;
    }
    return Socket();
}

bool sendAll(const Socket &socket, const void *data, size_t bytes, Deadline deadline) {
    const char *from = static_cast<const char *>(data);
    while (bytes > 0) {
        ssize_t sent = ::send(socket.fd(), from, bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            from += sent;
            bytes -= static_cast<size_t>(sent);
        } else if (errno != EINTR && (errno != EAGAIN || !waitFor(socket.fd(), POLLOUT, deadline))) {
            return false;
        }
    }
    return true;
}

bool receiveAll(const Socket &socket, void *data, size_t bytes, Deadline deadline) {
    char *to = static_cast<char *>(data);
    while (bytes > 0) {
        ssize_t received = ::recv(socket.fd(), to, bytes, 0);
        if (received == 0) return false;
        if (received > 0) {
            to += received;
            bytes -= static_cast<size_t>(received);
        } else if (errno != EINTR && (errno != EAGAIN || !waitFor(socket.fd(), POLLIN, deadline))) {
            return false;
        }
    }
    return true;
}

}  // namespace sim::hccl
