// Who may ask: a server on this machine is reachable from every page in the user's browser, and by DNS
// rebinding under any name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scoria::server {

struct GuardRules {
    std::string key;  // empty: none is asked for
    std::vector<std::string>
        hosts;  // names beside localhost and numeric addresses, by which we may be called
    std::vector<std::string> origins;  // of pages that may ask beside our own; "*": any
};

/// Headers of a request, empty where it has none.
struct Caller {
    std::string host, origin, authorization;
    bool needs_key = true;
};

struct Refusal {
    int status;
    std::string why;
};

std::optional<Refusal> refuse(const GuardRules& rules, const Caller& caller);
/// For Access-Control-Allow-Origin: whether the rules name the origin, not our own.
bool allows_origin(const GuardRules& rules, std::string_view origin);

}  // namespace scoria::server
