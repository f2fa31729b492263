// download.h in a build without libcurl.
#include "download.h"

#include "fail.h"

namespace scoria::cli {
namespace {

[[noreturn]] void refuse(const Remote& remote) {
    fail(Status::unsupported, "pull", "expected a build with libcurl, got one without, which cannot fetch ",
         remote.url, ": fetch it by other means and give its path to -m");
}

}  // namespace

void download(const Remote& remote, const std::filesystem::path&, const std::string&, uint32_t) {
    refuse(remote);
}

std::string fetch_text(const Remote& remote, uint64_t) { refuse(remote); }

}  // namespace scoria::cli
