// Clients' connections as the HTTP library reads and writes them. Its own take a client that has ended what
// it sends, but still waits for its answer, for one that is gone.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

namespace scoria::server {

/// One request and its response, within the timeouts that the library gives a socket.
class Connection final : public httplib::Stream {
  public:
    /// The one whose request this thread answers.
    static Connection& current();

    explicit Connection(socket_t socket);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Whether the client still waits for its response, of which nothing is sent. One that sends no more is
    /// sent an interim response: where nobody reads it, the next call learns of that. Versions of HTTP
    /// before 1.1 know none, and a client of theirs is gone then.
    bool stays();
    /// Ends the response. A socket that is closed with something unread resets its connection, and a client
    /// that still sends what was refused may lose the response with it: that is read, too, for a while.
    void linger();
    /// The head is read, and a body of so many bytes may come.
    void begin_body(const std::string& http_version, size_t most) {
        has_interim_ = http_version == "HTTP/1.1";
        too_long_ = 413;
        left_ = most;
    }
    /// The HTTP status of a request that read() has cut short, as too long or too slow; 0: of none. The
    /// library bounds neither the head, nor a body that does not say how long it is, nor the time.
    int cut_short() const { return cut_short_; }

    // What the library's versions from 0.11 to 0.53 ask for, each something else.
    // NOLINTBEGIN(modernize-use-override)
    bool is_readable() const { return true; }
    bool is_writable() const { return true; }
    bool wait_readable() const { return true; }
    bool wait_writable() const { return true; }
    ssize_t read(char* to, size_t size);
    ssize_t write(const char* from, size_t size);
    void get_remote_ip_and_port(std::string&, int&) const {}
    void get_local_ip_and_port(std::string&, int&) const {}
    socket_t socket() const { return socket_; }
    time_t duration() const { return 0; }
    // NOLINTEND(modernize-use-override)

  private:
    ssize_t receive(int flags);

    const socket_t socket_;
    const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    bool has_interim_ = false;
    size_t left_ = 64u << 10;  // bytes that may be read, first of the head
    int too_long_ = 431, cut_short_ = 0;
    std::array<char, 4096> received_{};
    size_t begin_ = 0, end_ = 0;  // of what is received and not read
};

class Listener final : public httplib::Server {
  public:
    /// Once bound: lets as many clients connect at a time as the system does, where the library's packages
    /// are built for five, and others try again after a second. false: it cannot be had.
    bool widen() { return ::listen(svr_sock_, SOMAXCONN) == 0; }
    /// Reads no more, waits up to `most` for the responses that are under way, cuts off those that are left,
    /// and stops. The library's stop() alone cuts off every stream where it is. Thread-safe.
    void end(std::chrono::milliseconds most);

  private:
    bool process_and_close_socket(socket_t socket) override;
    template <class Stream> bool process(Stream& stream);

    std::mutex mutex_;
    std::condition_variable closed_;
    std::map<uint64_t, socket_t> open_;  // in the order in which they began
    uint64_t begun_ = 0;
    std::optional<int> shut_;  // of connections that come now: the server ends
};

}  // namespace scoria::server
