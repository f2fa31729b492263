// One HTTP request by libcurl, which does TLS, proxies (https_proxy, no_proxy) and redirects.
#pragma once

#include "download.h"

#include <curl/curl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

namespace scoria::cli {

struct Reply {
    long status = 0;
    std::string validator;                 // for If-Range: a strong ETag, else Last-Modified; or empty
    std::optional<uint64_t> first, total;  // of Content-Range; or of Content-Length alone, total
};

/// Bytes of a file, up to before `end`; 0: to its end.
struct ByteRange {
    uint64_t begin = 0, end = 0;
};

/// `on_body` gets the parts of a body of status 200 or 206; false ends the request, as do Ctrl-C and `stop`.
class Request {
  public:
    using Body = std::function<bool(const Reply&, std::string_view)>;

    Request(const Remote& remote, const ByteRange& range, const std::string& validator, Body on_body,
            const std::atomic<bool>* stop = nullptr);
    CURLcode run();
    const Reply& answer() const { return answer_; }
    std::string error(CURLcode code) const { return error_[0] ? error_ : curl_easy_strerror(code); }

  private:
    template <class T> void set(CURLoption option, T value) { curl_easy_setopt(curl_.get(), option, value); }
    static size_t take_header(char* data, size_t size, size_t count, void* self);
    static size_t take_body(char* data, size_t size, size_t count, void* self);
    static int interrupted(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);
    void header(std::string_view line);

    std::unique_ptr<CURL, void (*)(CURL*)> curl_;
    std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers_{nullptr, curl_slist_free_all};
    Body on_body_;
    const std::atomic<bool>* stop_;
    Reply answer_;
    char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace scoria::cli
