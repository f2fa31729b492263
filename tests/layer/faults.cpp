// Parsing of SCORIA_LAYER_FAIL and counting of calls.
#include "faults.h"

#include <charconv>
#include <stdexcept>
#include <string>

namespace scoria_layer {
namespace {

constexpr std::string_view functions[] = {
#define X(name) "vk" #name,
    SCORIA_FAILABLE(X)
#undef X
};

struct NamedResult {
    std::string_view name;
    VkResult result;
};
constexpr NamedResult results[] = {{"SIGKILL", end_process},
                                   {"NOTHING", no_work},
#define X(name) {#name, name},
                                   X(VK_TIMEOUT) X(VK_NOT_READY) X(VK_ERROR_OUT_OF_HOST_MEMORY)
                                       X(VK_ERROR_OUT_OF_DEVICE_MEMORY) X(VK_ERROR_INITIALIZATION_FAILED)
                                           X(VK_ERROR_DEVICE_LOST) X(VK_ERROR_MEMORY_MAP_FAILED)
                                               X(VK_ERROR_TOO_MANY_OBJECTS) X(VK_ERROR_FRAGMENTED_POOL)
                                                   X(VK_ERROR_OUT_OF_POOL_MEMORY) X(VK_ERROR_UNKNOWN)
#undef X
};

template <class Table, class Name> size_t index_of(const Table& table, std::string_view wanted, Name name) {
    for (size_t i = 0; i < std::size(table); ++i)
        if (name(table[i]) == wanted) return i;
    throw std::runtime_error("SCORIA_LAYER_FAIL: unknown name " + std::string(wanted));
}

std::string_view cut(std::string_view& text, char at) {
    const size_t end = text.find(at);
    const std::string_view head = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    return head;
}

}  // namespace

Faults::Faults(std::string_view text) {
    while (!text.empty()) {
        std::string_view entry = cut(text, ',');
        const size_t function =
            index_of(functions, cut(entry, ':'), [](std::string_view name) { return name; });
        std::string_view count = cut(entry, ':');
        Fault& fault = faults_[function];
        fault.result =
            results[index_of(results, entry, [](const NamedResult& named) { return named.name; })].result;
        const bool and_later = count.ends_with('+');
        fault.once = count.ends_with('!');
        if (and_later || fault.once) count.remove_suffix(1);
        const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), fault.from);
        if (error != std::errc{} || end != count.data() + count.size() || fault.from == 0)
            throw std::runtime_error("SCORIA_LAYER_FAIL: expected a call from 1 on, got " +
                                     std::string(count));
        fault.to = and_later ? UINT64_MAX : fault.from;
    }
}

VkResult Faults::next(Failable function) {
    const Fault& fault = faults_[size_t(function)];
    const uint64_t call = ++calls_[size_t(function)];
    if (!fault.from || call < fault.from || call > fault.to) return VK_SUCCESS;
    static std::array<std::atomic<bool>, size_t(Failable::count)> had;
    return fault.once && had[size_t(function)].exchange(true) ? VK_SUCCESS : fault.result;
}

}  // namespace scoria_layer
