// See guard.h.
#include "guard.h"

#include "fail.h"

#include <algorithm>
#include <cctype>

namespace scoria::server {
namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = char(std::tolower(uint8_t(c)));
    return out;
}

/// "[::1]:8080" and "localhost:8080" without the port.
std::string_view host_name(std::string_view host) {
    const size_t colon = host.rfind(':');
    const size_t bracket = host.rfind(']');
    return colon == host.npos || (bracket != host.npos && colon < bracket) ? host : host.substr(0, colon);
}

/// An address in digits is no name, so that nobody can make it point here who could not before.
bool is_address(std::string_view name) {
    if (name.starts_with('[')) return name.ends_with(']');
    return !name.empty() &&
           std::ranges::all_of(name, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

/// In time that does not tell how much of it is right.
bool same_secret(std::string_view a, std::string_view b) {
    uint32_t differs = a.size() != b.size();
    for (size_t i = 0; i < b.size(); ++i) differs |= uint8_t(b[i]) ^ uint8_t(i < a.size() ? a[i] : 0);
    return differs == 0;
}

}  // namespace

bool allows_origin(const GuardRules& rules, std::string_view origin) {
    return std::ranges::any_of(
        rules.origins, [&](const std::string& each) { return each == "*" || lower(each) == lower(origin); });
}

std::optional<Refusal> refuse(const GuardRules& rules, const Caller& caller) {
    const std::string name = lower(host_name(caller.host));
    const bool known =
        name == "localhost" || is_address(name) ||
        std::ranges::any_of(rules.hosts, [&](const std::string& each) { return lower(each) == name; });
    if (!known)
        return Refusal{403, cat("[serve] expected Host: localhost, an address or one of --allow-host, got '",
                                caller.host, "'")};
    const std::string origin = lower(caller.origin), host = lower(caller.host);
    if (!origin.empty() && origin != "http://" + host && origin != "https://" + host &&
        !allows_origin(rules, origin))
        return Refusal{403, cat("[serve] expected Origin: this server's or one of --allow-origin, got '",
                                caller.origin, "'")};
    if (caller.needs_key && !rules.key.empty() && !same_secret(caller.authorization, "Bearer " + rules.key))
        return Refusal{401,
                       "[serve] expected Authorization: Bearer and the server's key, got another or none"};
    return std::nullopt;
}

}  // namespace scoria::server
