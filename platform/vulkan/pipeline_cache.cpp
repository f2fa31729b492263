// Layout of the file, all integers little-endian as on every machine with a Vulkan driver:
//   FileHeader, then the bytes of vkGetPipelineCacheData.
#include "pipeline_cache.h"

#include <algorithm>
#include <cstring>

namespace scoria::vk {
namespace {

constexpr uint32_t file_magic = 0x43504353;  // "SCPC"
constexpr uint32_t file_version = 1;

struct FileHeader {
    uint32_t magic = file_magic, version = file_version;
    uint64_t key = 0;       // of device and driver
    uint64_t bytes = 0;     // of the blob
    uint64_t checksum = 0;  // of the blob
};

// VkPipelineCacheHeaderVersionOne, as the specification lays it out in bytes.
struct DriverHeader {
    uint32_t length, version, vendor_id, device_id;
    std::array<uint8_t, 16> uuid;
};
static_assert(sizeof(DriverHeader) == 32 && sizeof(FileHeader) == 32);

// FNV-1a, 64 bits (Fowler, Noll, Vo): damage is to be found, not an attacker.
uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash = 0xCBF29CE484222325ull) {
    for (const std::byte byte : bytes) hash = (hash ^ uint64_t(byte)) * 0x100000001B3ull;
    return hash;
}

uint64_t key_of(const Caps& caps) {
    const uint32_t numbers[] = {caps.vendor_id, caps.device_id, caps.driver_id, caps.driver_version,
                                caps.api_version};
    uint64_t hash = fnv1a(std::as_bytes(std::span(numbers)));
    for (const auto* uuid : {&caps.pipeline_cache_uuid, &caps.device_uuid, &caps.driver_uuid})
        hash = fnv1a(std::as_bytes(std::span(*uuid)), hash);
    return fnv1a(std::as_bytes(std::span(caps.driver_info)), hash);
}

}  // namespace

std::string device_key(const Caps& caps) {
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(key_of(caps) >> shift) & 15];
    return digits;
}

std::string pipeline_cache_name(const Caps& caps) { return "pipelines-" + device_key(caps) + ".bin"; }

std::vector<std::byte> wrap_pipeline_cache(const Caps& caps, std::span<const std::byte> blob) {
    FileHeader header;
    header.key = key_of(caps);
    header.bytes = blob.size();
    header.checksum = fnv1a(blob);
    std::vector<std::byte> file(sizeof header + blob.size());
    std::memcpy(file.data(), &header, sizeof header);
    std::ranges::copy(blob, file.begin() + sizeof header);
    return file;
}

std::vector<std::byte> unwrap_pipeline_cache(const Caps& caps, std::span<const std::byte> file,
                                             std::string& why) {
    FileHeader header;
    DriverHeader driver;
    const auto refuse = [&](std::string reason) {
        why = std::move(reason);
        return std::vector<std::byte>{};
    };
    if (file.size() < sizeof header + sizeof driver) return refuse("it is too short");
    std::memcpy(&header, file.data(), sizeof header);
    const std::span<const std::byte> blob = file.subspan(sizeof header);
    if (header.magic != file_magic || header.version != file_version)
        return refuse("it is of another format");
    if (header.key != key_of(caps)) return refuse("it is of another device or driver");
    if (header.bytes != blob.size() || header.checksum != fnv1a(blob)) return refuse("it is damaged");
    std::memcpy(&driver, blob.data(), sizeof driver);
    if (driver.length < sizeof driver || driver.length > blob.size() || driver.version != 1 ||
        driver.vendor_id != caps.vendor_id || driver.device_id != caps.device_id ||
        driver.uuid != caps.pipeline_cache_uuid)
        return refuse("the driver's header inside it does not fit this device");
    return {blob.begin(), blob.end()};
}

}  // namespace scoria::vk
