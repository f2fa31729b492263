// scoria serve as a program beside the test, and an HTTP client.
#pragma once

#include "program.h"
#include "test_env.h"

#include <doctest/doctest.h>
#include <httplib.h>
#include <nlohmann/json.hpp>

#include <algorithm>

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
        const auto response = client.Post("/v1/" + path, headers, body, "application/json");
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

}  // namespace scoria::test
