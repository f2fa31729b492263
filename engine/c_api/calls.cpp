// The last error of each thread, the log, and names of statuses.
#include "calls.h"

#include "log.h"

namespace scoria::c_api {
namespace {

constexpr size_t longest_error = 1024;
thread_local char last_error[longest_error] = "";

constexpr const char* status_names[] = {"SCORIA_OK",
                                        "SCORIA_FAILED",
                                        "SCORIA_BAD_ARGUMENT",
                                        "SCORIA_BAD_FILE",
                                        "SCORIA_UNSUPPORTED",
                                        "SCORIA_OUT_OF_HOST_MEMORY",
                                        "SCORIA_OUT_OF_DEVICE_MEMORY",
                                        "SCORIA_DEVICE_LOST",
                                        "SCORIA_CANCELLED",
                                        "SCORIA_CONTEXT_FULL",
                                        "SCORIA_NON_FINITE",
                                        "SCORIA_TIMEOUT",
                                        "SCORIA_BUSY"};
static_assert(std::size(status_names) == SCORIA_BUSY + 1);
static_assert(uint32_t(Status::bad_file) == SCORIA_BAD_FILE && uint32_t(Status::busy) == SCORIA_BUSY);

}  // namespace

scoria_status report(Status status, const char* text) noexcept {
    size_t bytes = std::min(std::strlen(text), longest_error - 1);
    if (text[bytes] != '\0')  // cut: not inside a character
        while (bytes > 0 && (uint8_t(text[bytes]) & 0xC0) == 0x80) --bytes;
    std::memcpy(last_error, text, bytes);
    last_error[bytes] = '\0';
    return scoria_status(status);
}

void give_text(std::string_view from, char* to, size_t capacity, size_t* length) {
    require(length && (to || !capacity), "a place for the text and its length");
    if (from.size() < capacity) {
        std::copy(from.begin(), from.end(), to);
        to[from.size()] = '\0';
    }
    *length = from.size();
}

}  // namespace scoria::c_api

using namespace scoria::c_api;

const char* scoria_last_error(void) { return last_error; }
const char* scoria_version(void) { return SCORIA_VERSION; }

const char* scoria_status_name(scoria_status status) {
    return size_t(status) < std::size(status_names) ? status_names[size_t(status)] : "unknown status";
}

scoria_status scoria_set_log(scoria_log_callback callback, void* user) {
    return guarded([&] {
        if (!callback) return scoria::set_log(nullptr);
        scoria::set_log([=](std::string_view line) { callback(user, std::string(line).c_str()); });
    });
}
