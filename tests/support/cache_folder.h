// A cache folder of a test, and what is logged while it is there.
#pragma once

#include "device.h"
#include "fail.h"
#include "file.h"
#include "log.h"
#include "system.h"

#include <filesystem>
#include <string>

namespace scoria::test {

struct CacheFolder {
    std::filesystem::path folder =
        std::filesystem::temp_directory_path() / path_of(cat("scoria-\u6771\u4eac-", process_id()));
    std::string logged;

    CacheFolder() {
        std::filesystem::remove_all(folder);
        std::filesystem::create_directories(folder);
        set_log([this](std::string_view line) { logged += cat(line, "\n"); });
    }
    ~CacheFolder() {
        set_log(nullptr);
        std::filesystem::remove_all(folder);
    }
    CacheFolder(const CacheFolder&) = delete;
    EngineOptions options(SelfTest self_test) const {
        EngineOptions result = engine_options(Precision::strict);
        result.device.cache_folder = folder.string();
        result.self_test = self_test;
        return result;
    }
};

}  // namespace scoria::test
