// See download.h. A file's first piece tells how long it is and whether its server sends pieces; the others
// then come over several connections at once, and are appended in order: what is on disk is always the file's
// beginning.
#include "download.h"

#include "console.h"
#include "fail.h"
#include "file.h"
#include "http_request.h"
#include "io.h"
#include "models.h"
#include "side_by_side.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace scoria::cli {
namespace fs = std::filesystem;
namespace {

constexpr int most_failures = 5;  // in a row, without a byte of progress
constexpr auto first_pause = std::chrono::milliseconds(200);
constexpr uint64_t least_piece = 64 << 10, largest_piece = 8 << 20;  // bytes; one per connection is in memory
constexpr uint64_t wanted_pieces = 64;                               // of a file

[[noreturn]] void refuse_status(const Remote& remote, long status) {
    const char* hint = status == 401 || status == 403 ? " (a gated model needs a token: HF_TOKEN)" : "";
    fail(Status::failed, "pull", "expected status 200, got ", status, " from ", remote.url, hint);
}

void check_interrupt() {
    if (install_interrupt_flag())
        fail(Status::cancelled, "pull", "interrupted; the next pull goes on from here");
}

/// The unfinished file and the validator (RFC 9110, 13.1.5) of what it is a part of.
class Partial {
  public:
    explicit Partial(const fs::path& target)
        : path_(path_of(target.string() + ".partial")), validator_path_(path_of(path_.string() + ".etag")) {
        std::error_code error;
        const uint64_t size = fs::file_size(path_, error);
        if (!error) size_ = size;
        if (size_ && fs::exists(validator_path_)) validator_ = read_file(validator_path_.string(), 4096);
        file_ = std::fopen(path_.c_str(), size_ ? "r+b" : "wb");
        if (!file_ || std::fseek(file_, 0, SEEK_END) != 0) broken("open");
    }
    ~Partial() {
        if (file_) std::fclose(file_);
    }
    uint64_t size() const { return size_; }
    const std::string& validator() const { return validator_; }
    const fs::path& path() const { return path_; }

    /// The first bytes of a body: from byte 0, unless they go on where the file ends.
    void begin(const Reply& answer) {
        if (answer.status == 206 && answer.first != size_)
            fail(Status::failed, "pull", "expected bytes from ", size_,
                 " on, got a server that sends others");
        if (answer.status == 206 && size_ > 0) return;
        restart();
        validator_ = answer.validator;
        write_file_atomic(validator_path_.string(), std::as_bytes(std::span(validator_)));
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
        fs::remove(validator_path_, ignored);
    }
    void flush() {
        if (std::fflush(file_) != 0) broken("write");
    }
    void commit(const fs::path& target) {
        flush();
        fs::rename(path_, target);
        std::error_code ignored;
        fs::remove(validator_path_, ignored);
    }

  private:
    [[noreturn]] void broken(const char* what) const {
        fail(Status::failed, "pull", "expected to ", what, " ", path_.string(),
             ", got: ", std::strerror(errno));
    }
    fs::path path_, validator_path_;
    std::string validator_;
    std::FILE* file_ = nullptr;
    uint64_t size_ = 0;
};

/// Throws if no repetition changes the answer.
void refuse_final(const Remote& remote, const Request& request, CURLcode code) {
    if (code == CURLE_URL_MALFORMAT)
        fail(Status::bad_argument, "pull", "expected a URL, got ", remote.url, ": ", request.error(code));
    const long status = request.answer().status;
    if (status >= 400 && status < 500 && status != 408 && status != 429) refuse_status(remote, status);
}

class Download {
  public:
    Download(const Remote& remote, Partial& partial, Progress& progress, uint32_t connections)
        : remote_(remote), partial_(partial), progress_(progress), connections_(connections),
          pieces_(connections > 1) {}

    enum class Outcome : uint8_t { complete, more, lost };
    /// One connection's worth, or all the pieces that are left. After `lost`, wait and try again.
    Outcome go_on() { return total_ && pieces_ ? by_pieces() : by_one(); }

  private:
    Outcome by_one();
    Outcome by_pieces();
    void begin(const Reply& answer) {
        if (answer.status == 200) total_.reset();  // it may be another file now
        check_total(answer);
        partial_.begin(answer);
    }
    /// Not all servers heed If-Range.
    void check_total(const Reply& answer) {
        if (answer.status != 206 || !total_ || answer.total.value_or(*total_) == *total_) return;
        partial_.discard();
        fail(Status::bad_file, "pull", "expected a piece of ", *total_, " bytes, got one of ", *answer.total,
             " from ", remote_.url);
    }
    bool fetch(const ByteRange& piece, std::string& bytes);
    void work();
    void say_lost(const Request& request, CURLcode code) const {
        note("[pull] ", code == CURLE_OK ? cat("status ", request.answer().status) : request.error(code),
             "; trying again");
    }

    const Remote& remote_;
    Partial& partial_;
    Progress& progress_;
    const uint32_t connections_;
    std::atomic<bool> pieces_;       // as far as is known, the server sends them
    std::optional<uint64_t> total_;  // of a file of which a piece came

    // by_pieces
    std::mutex mutex_;
    std::condition_variable appended_;
    uint64_t piece_bytes_ = 0, next_ = 0;  // next_: where the next piece begins that nobody fetches
    uint64_t received_ = 0;
    std::atomic<bool> stop_ = false;
    std::exception_ptr problem_;
};

Download::Outcome Download::by_one() {
    if (remote_.bytes && partial_.size() > *remote_.bytes) partial_.restart();
    bool begun = false;
    std::exception_ptr problem;  // C callbacks pass no exceptions
    std::optional<uint64_t> total = remote_.bytes;
    const auto body = [&](const Reply& answer, std::string_view bytes) {
        try {
            if (!begun) begin(answer);
            begun = true;
            if (!total) total = answer.total;
            partial_.append(bytes);
            progress_.update(partial_.size(), total.value_or(0));
            if (remote_.bytes && partial_.size() > *remote_.bytes) {
                partial_.discard();
                fail(Status::bad_file, "pull", "expected ", *remote_.bytes, " bytes, got more from ",
                     remote_.url);
            }
            return true;
        } catch (...) {
            problem = std::current_exception();
            return false;
        }
    };
    const uint64_t from = partial_.size();
    Request request(remote_, {from, pieces_ ? from + least_piece : 0}, partial_.validator(), body);
    const CURLcode code = request.run();
    if (problem) std::rethrow_exception(problem);
    check_interrupt();
    const Reply& answer = request.answer();
    if (answer.status == 416) {  // nothing is left of it, or it is another file now, or an empty one
        if (from > 0 && remote_.bytes.value_or(answer.total.value_or(0)) == from) return Outcome::complete;
        if (from == 0 && !pieces_) refuse_status(remote_, answer.status);
        pieces_ = pieces_ && from > 0;
        partial_.restart();
        return Outcome::lost;
    }
    refuse_final(remote_, request, code);
    if (code == CURLE_OK && (answer.status == 200 || answer.status == 206)) {
        if (!begun) begin(answer);  // an empty body
        const bool piece = answer.status == 206 && pieces_;
        if (piece) total_ = remote_.bytes ? remote_.bytes : answer.total;
        if (piece && !total_) pieces_ = false;
        if (piece ? total_ && partial_.size() >= *total_
                  : !remote_.bytes || partial_.size() >= *remote_.bytes)
            return Outcome::complete;
        return piece ? Outcome::more : Outcome::lost;
    }
    say_lost(request, code);
    return Outcome::lost;
}

/// False: stopped, or the server does not send pieces of this file any more.
bool Download::fetch(const ByteRange& piece, std::string& bytes) {
    for (int failures = 0; !stop_;) {
        const size_t before = bytes.size();
        Request request(
            remote_, {piece.begin + before, piece.end}, partial_.validator(),
            [&](const Reply& answer, std::string_view part) {
                const bool expected = answer.status == 206 && answer.first == piece.begin + before &&
                                      answer.total.value_or(*total_) == *total_ &&
                                      bytes.size() + part.size() <= piece.end - piece.begin;
                if (!expected) return false;
                bytes += part;
                const std::lock_guard lock(mutex_);
                received_ += part.size();
                progress_.update(received_, *total_);
                return true;
            },
            &stop_);
        const CURLcode code = request.run();
        if (bytes.size() == piece.end - piece.begin) return true;
        if (stop_) return false;
        check_interrupt();
        check_total(request.answer());
        const long status = request.answer().status;
        if (status == 200 || status == 416 ||
            (status == 206 && bytes.size() == before && code != CURLE_OK &&
             request.answer().first != piece.begin + before)) {
            pieces_ = false;
            return false;
        }
        refuse_final(remote_, request, code);
        say_lost(request, code);
        failures = bytes.size() > before ? 0 : failures + 1;
        if (failures == most_failures)
            fail(Status::failed, "pull", "expected ", remote_.url, ", got no byte more in ", most_failures,
                 " attempts; the next pull goes on from what is there");
        std::this_thread::sleep_for(first_pause * (1 << failures));
    }
    return false;
}

void Download::work() {
    try {
        for (;;) {
            ByteRange piece;
            {
                const std::lock_guard lock(mutex_);
                if (stop_ || next_ == *total_) return;
                piece = {next_, std::min(next_ + piece_bytes_, *total_)};
                next_ = piece.end;
            }
            std::string bytes;
            const bool whole = fetch(piece, bytes);
            std::unique_lock lock(mutex_);
            if (!whole) stop_ = true;
            appended_.wait(lock, [&] { return stop_ || partial_.size() == piece.begin; });
            // A piece whose turn it is counts even when others failed.
            if (partial_.size() == piece.begin) partial_.append(bytes);
            appended_.notify_all();
            if (stop_) return;
        }
    } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!problem_) problem_ = std::current_exception();
        stop_ = true;
        appended_.notify_all();
    }
}

Download::Outcome Download::by_pieces() {
    piece_bytes_ = std::clamp(*total_ / wanted_pieces, least_piece, largest_piece);
    next_ = received_ = partial_.size();
    stop_ = false;
    side_by_side(connections_, [this] { work(); });
    if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
    check_interrupt();
    return partial_.size() == *total_ ? Outcome::complete : Outcome::more;
}

}  // namespace

void download(const Remote& remote, const fs::path& target, const std::string& label, uint32_t connections) {
    fs::create_directories(target.parent_path());
    Partial partial(target);
    // Nothing would say that what comes is of the same file.
    if (partial.validator().empty() && remote.sha256.empty()) partial.restart();
    Progress progress(label);
    Download work(remote, partial, progress, connections);
    uint64_t best = partial.size();  // progress is what no earlier attempt reached: a server may begin anew
    for (int failures = 0;;) {
        check_interrupt();
        const Download::Outcome outcome = work.go_on();
        if (outcome == Download::Outcome::complete) break;
        failures = partial.size() > best ? 0 : failures + 1;
        best = std::max(best, partial.size());
        if (failures == most_failures)
            fail(Status::failed, "pull", "expected ", remote.url, ", got no byte more in ", most_failures,
                 " attempts; the next pull goes on from byte ", partial.size());
        if (outcome == Download::Outcome::lost) std::this_thread::sleep_for(first_pause * (1 << failures));
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
        Request request(remote, {}, "", [&](const Reply&, std::string_view bytes) {
            text += bytes;
            return text.size() <= limit;
        });
        const CURLcode code = request.run();
        check_interrupt();
        const long status = request.answer().status;
        if (text.size() > limit)
            fail(Status::bad_file, "pull", "expected at most ", limit, " bytes, got more from ", remote.url);
        if (code == CURLE_OK && status == 200) return text;
        refuse_final(remote, request, code);
        const std::string problem = code == CURLE_OK ? cat("status ", status) : request.error(code);
        if (failures + 1 == most_failures)
            fail(Status::failed, "pull", "expected an answer, got: ", problem, " (", remote.url, ')');
        note("[pull] ", problem, "; trying again");
        std::this_thread::sleep_for(first_pause * (1 << failures));
    }
}

}  // namespace scoria::cli
