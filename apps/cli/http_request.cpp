// See http_request.h.
#include "http_request.h"

#include "console.h"
#include "fail.h"

#include <algorithm>
#include <charconv>

namespace scoria::cli {
namespace {

constexpr long stalled_seconds = 60;  // without a byte, a connection counts as lost

std::optional<uint64_t> number(std::string_view text) {
    uint64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

Request::Request(const Remote& remote, const ByteRange& range, const std::string& validator, Body on_body,
                 const std::atomic<bool>* stop)
    : curl_(curl_easy_init(), curl_easy_cleanup), on_body_(std::move(on_body)), stop_(stop) {
    if (!curl_) fail(Status::failed, "pull", "expected libcurl to start, got an error");
    set(CURLOPT_URL, remote.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_USERAGENT, "scoria");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, 30L);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, stalled_seconds);
    set(CURLOPT_ERRORBUFFER, error_);
    if (!remote.token.empty()) {  // libcurl does not send it on to another host
        set(CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        set(CURLOPT_XOAUTH2_BEARER, remote.token.c_str());
    }
    if (range.begin > 0 || range.end > 0) {
        const std::string last = range.end ? cat(range.end - 1) : "";
        set(CURLOPT_RANGE, cat(range.begin, '-', last).c_str());
        if (!validator.empty())
            headers_.reset(curl_slist_append(nullptr, cat("If-Range: ", validator).c_str()));
        if (headers_) set(CURLOPT_HTTPHEADER, headers_.get());
    }
    set(CURLOPT_HEADERFUNCTION, &Request::take_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Request::take_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Request::interrupted);
    set(CURLOPT_XFERINFODATA, this);
}

CURLcode Request::run() {
    const CURLcode code = curl_easy_perform(curl_.get());
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &answer_.status);
    return code;
}

size_t Request::take_header(char* data, size_t size, size_t count, void* self) {
    static_cast<Request*>(self)->header({data, size * count});
    return size * count;
}

size_t Request::take_body(char* data, size_t size, size_t count, void* self) {
    auto& request = *static_cast<Request*>(self);
    curl_easy_getinfo(request.curl_.get(), CURLINFO_RESPONSE_CODE, &request.answer_.status);
    const bool wanted = request.answer_.status == 200 || request.answer_.status == 206;
    return !wanted || request.on_body_(request.answer_, {data, size * count}) ? size * count
                                                                              : CURL_WRITEFUNC_ERROR;
}

int Request::interrupted(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const std::atomic<bool>* stop = static_cast<Request*>(self)->stop_;
    return install_interrupt_flag() || (stop && *stop) ? 1 : 0;
}

void Request::header(std::string_view line) {
    if (line.starts_with("HTTP/")) answer_ = {};  // of a redirect before
    const size_t colon = line.find(':');
    if (colon == line.npos) return;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    value = value.substr(0, value.find_first_of("\r\n"));
    if (name == "etag" && !value.starts_with("W/")) answer_.validator = value;
    if (name == "last-modified" && answer_.validator.empty()) answer_.validator = value;
    if (name == "content-length" && !answer_.first) answer_.total = number(value);
    if (name != "content-range" || !value.starts_with("bytes ")) return;
    value.remove_prefix(6);
    answer_.first = number(value);
    const size_t slash = value.find('/');
    answer_.total = slash == value.npos ? std::nullopt : number(value.substr(slash + 1));
}

}  // namespace scoria::cli
