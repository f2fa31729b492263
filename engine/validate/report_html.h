// The report as one page without links or scripts, to read and to attach to a bug.
#pragma once

#include "report.h"

namespace scoria::validate {

/// Facts of build and devices, a table of op and variant by device, every case with failures first, and the
/// picture of the errors where a result has a map.
std::string report_html(std::span<const Run> runs, const nlohmann::ordered_json& facts);

}  // namespace scoria::validate
