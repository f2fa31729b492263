// See connection.h.
#include "connection.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <poll.h>
#include <string_view>

namespace scoria::server {
namespace {

constexpr auto most_reading = std::chrono::seconds(60);  // of a request

thread_local Connection* connection_of_thread = nullptr;

}  // namespace

Connection& Connection::current() {
    assert(connection_of_thread);
    return *connection_of_thread;
}

Connection::Connection(socket_t socket) : socket_(socket) { connection_of_thread = this; }

Connection::~Connection() {
    connection_of_thread = nullptr;
    close(socket_);
}

void Connection::linger() {
    constexpr int most_quiet = 1000;  // milliseconds
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    shutdown(socket_, SHUT_WR);
    pollfd readable{socket_, POLLIN, 0};
    while (std::chrono::steady_clock::now() < end && poll(&readable, 1, most_quiet) > 0 &&
           receive(MSG_DONTWAIT) > 0) {
    }
}

ssize_t Connection::receive(int flags) {
    ssize_t count = 0;
    do count = recv(socket_, received_.data(), received_.size(), flags);
    while (count < 0 && errno == EINTR);
    return count;
}

ssize_t Connection::read(char* to, size_t size) {
    if (left_ == 0) cut_short_ = too_long_;
    if (std::chrono::steady_clock::now() - begun_ > most_reading) cut_short_ = 408;
    if (cut_short_) return -1;
    if (begin_ == end_) {
        const ssize_t count = receive(0);
        if (count <= 0) return count;
        begin_ = 0;
        end_ = size_t(count);
    }
    size = std::min({size, end_ - begin_, left_});
    left_ -= size;
    std::copy_n(received_.data() + begin_, size, to);
    begin_ += size;
    return ssize_t(size);
}

ssize_t Connection::write(const char* from, size_t size) {
    ssize_t count = 0;
    do count = send(socket_, from, size, CPPHTTPLIB_SEND_FLAGS);
    while (count < 0 && errno == EINTR);
    return count;
}

bool Connection::stays() {
    constexpr std::string_view interim = "HTTP/1.1 100 Continue\r\n\r\n";
    const ssize_t count = receive(MSG_DONTWAIT);  // what comes behind a request is nobody's
    if (count > 0) return true;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    return has_interim_ && write(interim.data(), interim.size()) == ssize_t(interim.size());
}

template <class Stream> bool Listener::process(Stream& stream) {
    bool closed = false;
    const auto setup = [&](httplib::Request& request) {
        stream.begin_body(request.version, this->payload_max_length_);
        if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding"))
            request.set_header("Content-Length", "0");  // the library would wait for the connection's end
        request.ranges.clear();  // what is answered is whole: its parts could be asked for without end
    };
    if constexpr (requires { this->process_request(stream, true, closed, setup); })
        return this->process_request(stream, true, closed, setup);
    else  // from 0.18 on, which asks for the addresses of both ends
        return this->process_request(stream, "", 0, "", 0, true, closed, setup);
}

bool Listener::process_and_close_socket(socket_t socket) {
    uint64_t number = 0;
    {
        const std::lock_guard lock(mutex_);
        number = begun_++;
        open_[number] = socket;
        if (shut_) shutdown(socket, *shut_);
    }
    Connection connection(socket);
    const bool whole = process(connection);
    connection.linger();
    const std::lock_guard lock(mutex_);  // before it is closed, and another one has its descriptor
    open_.erase(number);
    closed_.notify_all();
    return whole;
}

void Listener::end(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    const uint64_t end = begun_;  // who comes later hears at once that the server ends
    const auto shut = [&](int how) {
        shut_ = how;
        for (const auto& [number, socket] : open_) shutdown(socket, how);
    };
    shut(SHUT_RD);
    closed_.wait_for(lock, most, [&] { return open_.empty() || open_.begin()->first >= end; });
    shut(SHUT_RDWR);
    lock.unlock();
    stop();
}

}  // namespace scoria::server
