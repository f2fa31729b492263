// Which device to use: the default by type, or the one that the user names.
#include "caps_query.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace scoria::vk {
namespace {

int rank(DeviceType type) {
    switch (type) {
    case DeviceType::discrete:
        return 0;
    case DeviceType::integrated:
        return 1;
    case DeviceType::virtual_gpu:
        return 2;
    case DeviceType::cpu:
        return 3;
    case DeviceType::other:
        break;
    }
    return 4;
}

/// Lower is better. A GPU's own driver goes before one that is layered over another API.
auto rank(const ListedDevice& device) {
    return std::pair(rank(device.caps.type), device.caps.driver_id == driver_dozen);
}

bool contains_ignoring_case(const std::string& text, const std::string& part) {
    const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
    return part.empty() ||
           std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

std::string listed_names(const std::vector<ListedDevice>& devices) {
    std::string text;
    for (size_t i = 0; i < devices.size(); ++i)
        text += cat(i ? ", " : "", i, " \"", devices[i].caps.name, "\"",
                    devices[i].unusable.empty() ? "" : " (unusable: " + devices[i].unusable + ")");
    return text;
}

}  // namespace

size_t choose_device(const std::vector<ListedDevice>& devices, const std::string& select) {
    if (devices.empty())
        fail(Status::unsupported, "vulkan",
             "no device: no Vulkan driver found one; install your GPU's driver, or mesa-vulkan-drivers");
    size_t index = 0;
    const auto [end, error] = std::from_chars(select.data(), select.data() + select.size(), index);
    if (!select.empty() && error == std::errc{} && end == select.data() + select.size()) {
        if (index >= devices.size())
            fail(Status::bad_argument, "device", "expected an index below ", devices.size(), ", got ", select,
                 "; there are: ", listed_names(devices));
        if (!devices[index].unusable.empty())
            fail(Status::unsupported, "device", "\"", devices[index].caps.name,
                 "\" cannot be used: ", devices[index].unusable);
        return index;
    }
    std::optional<size_t> best;
    const ListedDevice* refused = nullptr;
    for (size_t i = 0; i < devices.size(); ++i) {
        if (!contains_ignoring_case(devices[i].caps.name, select)) continue;
        if (!devices[i].unusable.empty())
            refused = &devices[i];
        else if (!best || rank(devices[i]) < rank(devices[*best]))
            best = i;
    }
    if (best) return *best;
    if (refused)
        fail(Status::unsupported, "device", "\"", refused->caps.name,
             "\" cannot be used: ", refused->unusable);
    fail(Status::bad_argument, "device", "expected an index or a part of a name, got \"", select,
         "\"; there are: ", listed_names(devices));
}

void mark_duplicates(std::vector<ListedDevice>& devices) {
    const auto known = [](const Caps& caps) {
        return std::ranges::any_of(caps.device_uuid, [](uint8_t b) { return b; });
    };
    for (size_t i = 0; i < devices.size(); ++i)
        for (size_t earlier = 0; earlier < i && !devices[i].same_as; ++earlier)
            if (devices[earlier].unusable.empty() && known(devices[i].caps) &&
                devices[earlier].caps.device_uuid == devices[i].caps.device_uuid)
                devices[i].same_as = earlier;
}

std::vector<ListedDevice> list_devices() {
    const Instance instance(Validation::none);
    std::vector<ListedDevice> listed;
    for (const VkPhysicalDevice device : instance.physical_devices())
        listed.push_back(query_device(instance, device));
    if (listed.empty()) choose_device(listed, "");  // throws
    mark_duplicates(listed);
    if (std::ranges::any_of(listed, [](const auto& device) { return device.unusable.empty(); }))
        listed[choose_device(listed, "")].chosen = true;
    return listed;
}

}  // namespace scoria::vk
