// scoria serve as a program beside the test, and an HTTP client.
#pragma once

#include "program.h"
#include "test_env.h"

#include <doctest/doctest.h>
#include <httplib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <netinet/tcp.h>
#include <thread>

namespace scoria::test {

using Json = nlohmann::json;

class Server {
  public:
    explicit Server(std::vector<std::string> flags,
                    const std::map<std::string, std::string>& environment = {})
        : program_(with(std::move(flags)), "Ctrl-C ends it", environment) {
        const std::string& err = program_.err();
        const std::string sign = "listening on http://127.0.0.1:";
        port_ = std::stoi(err.substr(err.find(sign) + sign.size()));
    }
    httplib::Client client() const {
        httplib::Client client("127.0.0.1", port_);
        client.set_read_timeout(60);
        return client;
    }
    Background& program() { return program_; }
    int port() const { return port_; }

    struct Result {
        int status = 0;
        Json json;
    };
    Result post(const std::string& path, const std::string& body,
                const httplib::Headers& headers = {}) const {
        httplib::Client client = this->client();
        const auto response =
            client.Post(path.starts_with('/') ? path : "/v1/" + path, headers, body, "application/json");
        REQUIRE(response);
        return {response->status, Json::parse(response->body, nullptr, false)};
    }
    Result post(const std::string& path, const Json& body) const { return post(path, body.dump()); }
    int get(const std::string& path, const httplib::Headers& headers) const {
        const auto response = client().Get(path, headers);
        REQUIRE(response);
        return response->status;
    }

  private:
    static std::vector<std::string> with(std::vector<std::string> flags) {
        std::vector<std::string> own = {"serve", "--port", "0"};
        if (std::ranges::find(flags, "-m") == flags.end())
            own.insert(own.end(), {"-m", default_model(), "--ctx", "2048"});
        flags.insert(flags.begin(), own.begin(), own.end());
        return flags;
    }
    Background program_;
    int port_ = 0;
};

/// The events of a stream but for the last, which is [DONE].
inline std::vector<Json> events(const std::string& body) {
    std::vector<Json> all;
    size_t at = 0;
    for (size_t end; (end = body.find("\n\n", at)) != std::string::npos; at = end + 2) {
        const std::string event = body.substr(at, end - at);
        if (event.starts_with(':')) continue;  // a heartbeat
        REQUIRE(event.starts_with("data: "));
        if (event == "data: [DONE]") break;
        all.push_back(Json::parse(event.substr(6)));
    }
    CHECK(body.substr(at) == "data: [DONE]\n\n");
    return all;
}

/// A number of /metrics.
inline double value_of(const Server& server, const std::string& name, const httplib::Headers& headers = {}) {
    const auto response = server.client().Get("/metrics", headers);
    REQUIRE(response);
    CHECK(response->get_header_value("Content-Type").starts_with("text/plain; version=0.0.4"));
    const size_t at = response->body.find("\nscoria_" + name + " ");
    REQUIRE_MESSAGE(at != std::string::npos, name);
    return std::stod(response->body.substr(at + name.size() + 9));
}

/// Within five seconds: a response is counted a moment after its last byte.
inline bool becomes(const Server& server, const std::string& name, double wanted,
                    const httplib::Headers& headers = {}) {
    for (int i = 0; i < 100 && value_of(server, name, headers) != wanted; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return value_of(server, name, headers) == wanted;
}

/// A connection of bytes, for what HTTP clients do not do.
class Wire {
  public:
    /// buffer: bytes that are received while nobody reads; 0: as the system has it.
    explicit Wire(int port, int buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        if (buffer) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(uint16_t(port));
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    }
    ~Wire() { close(socket_); }
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;
    void post(const std::string& path, const Json& body, const std::string& version = "1.1") {
        const std::string text = body.dump();
        const std::string all = "POST /v1/" + path + " HTTP/" + version + "\r\nHost: localhost\r\n" +
                                "Authorization: Bearer secret\r\nContent-Type: application/json\r\n" +
                                "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
        REQUIRE(say(all));
    }
    /// false: the server takes no more.
    bool say(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t count = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (count <= 0) return false;
            bytes.remove_prefix(size_t(count));
        }
        return true;
    }
    /// Segments that were lost so far, of them those that ask for the connection.
    uint32_t sent_again() const {
        tcp_info info{};
        socklen_t size = sizeof info;
        REQUIRE(getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0);
        return info.tcpi_total_retrans;
    }
    void end_sending() { REQUIRE(shutdown(socket_, SHUT_WR) == 0); }
    std::string rest() {  // until the server closes it
        std::string all;
        char bytes[4096];
        for (ssize_t count; (count = recv(socket_, bytes, sizeof bytes, 0)) > 0;)
            all.append(bytes, size_t(count));
        return all;
    }

  private:
    const int socket_;
};

}  // namespace scoria::test
