// Sockets between the ranks of one machine: of the abstract Unix domain, which leaves no files behind, and works
// between processes and between the threads of one process alike.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/stream.hpp"

namespace sim::hccl {

// Owns a non-blocking socket; may hold none.
class Socket {
   public:
    Socket() = default;
    explicit Socket(int fd) : fd_(fd) {}
    ~Socket();
    Socket(Socket &&other) noexcept;
    Socket &operator=(Socket &&other) noexcept;

    int fd() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    // Ends the connection for both sides, and wakes who waits for it; the descriptor stays.
    void shutDown();

   private:
    int fd_ = -1;
};

// A name that nobody else has.
std::string freshName();

// Empty when the system refuses.
Socket listenAt(const std::string &name, int backlog);
// Empty when nobody listens there.
Socket connectTo(const std::string &name);
// Empty when nobody came in time.
Socket acceptFrom(const Socket &listener, Deadline deadline);

// False when the other side has gone, or time is up.
bool sendAll(const Socket &socket, const void *data, size_t bytes, Deadline deadline);
bool receiveAll(const Socket &socket, void *data, size_t bytes, Deadline deadline);

}  // namespace sim::hccl
