// See download.h. libcurl does TLS, proxies (https_proxy, no_proxy) and redirects.
#include "download.h"

#include "console.h"
#include "fail.h"
#include "file.h"
#include "io.h"
#include "models.h"

#include <curl/curl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

namespace scoria::cli {
namespace fs = std::filesystem;
namespace {

constexpr int most_failures = 5;      // in a row, without a byte of progress
constexpr long stalled_seconds = 60;  // without a byte, a connection counts as lost
constexpr auto first_pause = std::chrono::milliseconds(200);

struct Reply {
    long status = 0;
    std::string etag;
    std::optional<uint64_t> first, total;  // of Content-Range; or of Content-Length alone, total
};

/// One request. `on_body` gets the parts of a body of status 200 or 206; false ends it.
class Request {
  public:
    using Body = std::function<bool(const Reply&, std::string_view)>;

    Request(const Remote& remote, uint64_t from, const std::string& etag, Body on_body)
        : curl_(curl_easy_init(), curl_easy_cleanup), on_body_(std::move(on_body)) {
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
        if (from > 0) {
            set(CURLOPT_RANGE, cat(from, "-").c_str());
            if (!etag.empty()) headers_.reset(curl_slist_append(nullptr, cat("If-Range: ", etag).c_str()));
            if (headers_) set(CURLOPT_HTTPHEADER, headers_.get());
        }
        set(CURLOPT_HEADERFUNCTION, &Request::take_header);
        set(CURLOPT_HEADERDATA, this);
        set(CURLOPT_WRITEFUNCTION, &Request::take_body);
        set(CURLOPT_WRITEDATA, this);
        set(CURLOPT_NOPROGRESS, 0L);
        set(CURLOPT_XFERINFOFUNCTION, &Request::interrupted);
    }

    CURLcode run() {
        const CURLcode code = curl_easy_perform(curl_.get());
        curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &answer_.status);
        return code;
    }
    const Reply& answer() const { return answer_; }
    std::string error(CURLcode code) const { return error_[0] ? error_ : curl_easy_strerror(code); }

  private:
    template <class T> void set(CURLoption option, T value) { curl_easy_setopt(curl_.get(), option, value); }

    static size_t take_header(char* data, size_t size, size_t count, void* self) {
        static_cast<Request*>(self)->header({data, size * count});
        return size * count;
    }
    static size_t take_body(char* data, size_t size, size_t count, void* self) {
        auto& request = *static_cast<Request*>(self);
        curl_easy_getinfo(request.curl_.get(), CURLINFO_RESPONSE_CODE, &request.answer_.status);
        const bool wanted = request.answer_.status == 200 || request.answer_.status == 206;
        return !wanted || request.on_body_(request.answer_, {data, size * count}) ? size * count
                                                                                  : CURL_WRITEFUNC_ERROR;
    }
    static int interrupted(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
        return install_interrupt_flag() ? 1 : 0;
    }

    void header(std::string_view line) {
        if (line.starts_with("HTTP/")) answer_ = {};  // of a redirect before
        const size_t colon = line.find(':');
        if (colon == line.npos) return;
        std::string name(line.substr(0, colon));
        std::ranges::transform(name, name.begin(),
                               [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
        std::string_view value = line.substr(colon + 1);
        value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
        value = value.substr(0, value.find_first_of("\r\n"));
        if (name == "etag") answer_.etag = value;
        if (name == "content-length" && !answer_.first) answer_.total = number(value);
        if (name != "content-range" || !value.starts_with("bytes ")) return;
        value.remove_prefix(6);
        answer_.first = number(value);
        const size_t slash = value.find('/');
        answer_.total = slash == value.npos ? std::nullopt : number(value.substr(slash + 1));
    }
    static std::optional<uint64_t> number(std::string_view text) {
        uint64_t value = 0;
        const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
        return result.ec == std::errc() ? std::optional(value) : std::nullopt;
    }

    std::unique_ptr<CURL, void (*)(CURL*)> curl_;
    std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers_{nullptr, curl_slist_free_all};
    Body on_body_;
    Reply answer_;
    char error_[CURL_ERROR_SIZE] = {};
};

[[noreturn]] void refuse_status(const Remote& remote, long status) {
    const char* hint = status == 401 || status == 403 ? " (a gated model needs a token: HF_TOKEN)" : "";
    fail(Status::failed, "pull", "expected status 200, got ", status, " from ", remote.url, hint);
}

void check_interrupt() {
    if (install_interrupt_flag())
        fail(Status::cancelled, "pull", "interrupted; the next pull goes on from here");
}

/// The unfinished file and the ETag of what it is a part of.
class Partial {
  public:
    explicit Partial(const fs::path& target)
        : path_(target.string() + ".partial"), etag_path_(path_ + ".etag") {
        std::error_code error;
        const uint64_t size = fs::file_size(path_, error);
        if (!error) size_ = size;
        if (size_ && fs::exists(etag_path_)) etag_ = read_file(etag_path_, 4096);
        file_ = std::fopen(path_.c_str(), size_ ? "r+b" : "wb");
        if (!file_ || std::fseek(file_, 0, SEEK_END) != 0) broken("open");
    }
    ~Partial() {
        if (file_) std::fclose(file_);
    }
    uint64_t size() const { return size_; }
    const std::string& etag() const { return etag_; }
    const std::string& path() const { return path_; }

    /// The first bytes of a body: from byte 0, unless they go on where the file ends.
    void begin(const Reply& answer) {
        if (answer.status == 206 && answer.first == size_) return;
        if (answer.status == 206)
            fail(Status::failed, "pull", "expected bytes from ", size_,
                 " on, got a server that sends others");
        restart();
        etag_ = answer.etag;
        write_file_atomic(etag_path_, std::as_bytes(std::span(etag_)));
    }
    void append(std::string_view bytes) {
        if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) broken("write");
        size_ += bytes.size();
    }
    void restart() {
        file_ = std::freopen(path_.c_str(), "wb", file_);
        if (!file_) broken("open");
        size_ = 0;
    }
    void discard() {
        std::error_code ignored;
        fs::remove(path_, ignored);
        fs::remove(etag_path_, ignored);
    }
    void flush() {
        if (std::fflush(file_) != 0) broken("write");
    }
    void commit(const fs::path& target) {
        flush();
        fs::rename(path_, target);
        std::error_code ignored;
        fs::remove(etag_path_, ignored);
    }

  private:
    [[noreturn]] void broken(const char* what) const {
        fail(Status::failed, "pull", "expected to ", what, " ", path_, ", got: ", std::strerror(errno));
    }
    std::string path_, etag_path_, etag_;
    std::FILE* file_ = nullptr;
    uint64_t size_ = 0;
};

/// One connection's worth. True when the file is complete; false when the connection was lost.
bool go_on(const Remote& remote, Partial& partial, Progress& progress) {
    if (remote.bytes && partial.size() > *remote.bytes) partial.restart();
    bool begun = false;
    std::exception_ptr problem;  // C callbacks pass no exceptions
    std::optional<uint64_t> total = remote.bytes;
    const auto body = [&](const Reply& answer, std::string_view bytes) {
        try {
            if (!begun) partial.begin(answer);
            begun = true;
            if (!total) total = answer.total;
            partial.append(bytes);
            progress.update(partial.size(), total.value_or(0));
            if (remote.bytes && partial.size() > *remote.bytes) {
                partial.discard();
                fail(Status::bad_file, "pull", "expected ", *remote.bytes, " bytes, got more from ",
                     remote.url);
            }
            return true;
        } catch (...) {
            problem = std::current_exception();
            return false;
        }
    };
    Request request(remote, partial.size(), partial.etag(), body);
    const CURLcode code = request.run();
    if (problem) std::rethrow_exception(problem);
    check_interrupt();
    const long status = request.answer().status;
    if (status == 416 && partial.size() > 0) {  // nothing is left of it, or it is another file now
        if (remote.bytes.value_or(request.answer().total.value_or(0)) == partial.size()) return true;
        partial.restart();
        return false;
    }
    if (status >= 400 && status < 500 && status != 408 && status != 429) refuse_status(remote, status);
    if (code == CURLE_OK && (status == 200 || status == 206)) {
        if (!begun) partial.begin(request.answer());  // an empty body
        return !remote.bytes || partial.size() >= *remote.bytes;
    }
    note("[pull] ", code == CURLE_OK ? cat("status ", status) : request.error(code), "; trying again");
    return false;
}

}  // namespace

void download(const Remote& remote, const fs::path& target, const std::string& label) {
    fs::create_directories(target.parent_path());
    Partial partial(target);
    Progress progress(label);
    uint64_t best = partial.size();  // progress is what no earlier attempt reached: a server may begin anew
    for (int failures = 0;;) {
        check_interrupt();
        if (go_on(remote, partial, progress)) break;
        failures = partial.size() > best ? 0 : failures + 1;
        best = std::max(best, partial.size());
        if (failures == most_failures)
            fail(Status::failed, "pull", "expected ", remote.url, ", got no byte more in ", most_failures,
                 " attempts; the next pull goes on from byte ", partial.size());
        std::this_thread::sleep_for(first_pause * (1 << failures));
    }
    progress.finish();
    partial.flush();
    const auto refuse = [&](const auto&... parts) {
        partial.discard();
        fail(Status::bad_file, "pull", parts..., " (", remote.url, ')');
    };
    if (remote.bytes && partial.size() != *remote.bytes)
        refuse("expected ", *remote.bytes, " bytes, got ", partial.size());
    if (!remote.sha256.empty())
        if (const std::string actual = sha256_of(partial.path()); actual != remote.sha256)
            refuse("expected SHA-256 ", remote.sha256, ", got ", actual);
    partial.commit(target);
}

std::string fetch_text(const Remote& remote, uint64_t limit) {
    for (int failures = 0;; ++failures) {
        check_interrupt();
        std::string text;
        Request request(remote, 0, "", [&](const Reply&, std::string_view bytes) {
            text += bytes;
            return text.size() <= limit;
        });
        const CURLcode code = request.run();
        check_interrupt();
        const long status = request.answer().status;
        if (text.size() > limit)
            fail(Status::bad_file, "pull", "expected at most ", limit, " bytes, got more from ", remote.url);
        if (code == CURLE_OK && status == 200) return text;
        if (status >= 400 && status < 500) refuse_status(remote, status);
        const std::string problem = code == CURLE_OK ? cat("status ", status) : request.error(code);
        if (failures + 1 == most_failures)
            fail(Status::failed, "pull", "expected an answer, got: ", problem, " (", remote.url, ')');
        note("[pull] ", problem, "; trying again");
        std::this_thread::sleep_for(first_pause * (1 << failures));
    }
}

}  // namespace scoria::cli
