// Files over HTTP: resumed, checked, and under their name only when they are whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace scoria::cli {

struct Remote {
    std::string url;
    std::string token;              // of the host, sent to no other; may be empty
    std::optional<uint64_t> bytes;  // what the file must have
    std::string sha256;             // lower-case hex, or empty
};

/// Writes `target`, over as many connections at once, if the server sends pieces of files. Bytes go to
/// `target`.partial, which a later call goes on from if the server still has the same file, by its validator
/// or `sha256`. Lost connections are taken up again while they make progress. Errors: failed (no connection,
/// an answer other than 200, disk), bad_file (other length or checksum; nothing is kept then), cancelled
/// (Ctrl-C; what came is kept).
void download(const Remote& remote, const std::filesystem::path& target, const std::string& label,
              uint32_t connections);

/// The body of a small answer. Errors: as download; bad_file if it is longer than `limit` bytes.
std::string fetch_text(const Remote& remote, uint64_t limit);

}  // namespace scoria::cli
