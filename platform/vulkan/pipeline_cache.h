// The pipeline cache on disk: one file per device, driver and version, believed only after checks.
#pragma once

#include "caps.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace scoria::vk {

/// 16 hexadecimal digits that differ between devices, drivers and driver versions.
std::string device_key(const Caps& caps);

/// File name for these caps (no folder): differs between devices, drivers and driver versions.
std::string pipeline_cache_name(const Caps& caps);

/// The driver's blob wrapped with a key of `caps` and a checksum.
std::vector<std::byte> wrap_pipeline_cache(const Caps& caps, std::span<const std::byte> blob);

/// The blob inside `file`; empty, with the reason in `why`, if it is damaged or of another device or
/// driver. Drivers have crashed on blobs that are not theirs, so nothing doubtful reaches them.
std::vector<std::byte> unwrap_pipeline_cache(const Caps& caps, std::span<const std::byte> file,
                                             std::string& why);

}  // namespace scoria::vk
