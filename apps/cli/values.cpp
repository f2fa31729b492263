// See values.h.
#include "values.h"

#include "file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace scoria::cli {
namespace {

constexpr std::array may_be_empty = {"prompt", "system", "answer", "bos", "eos"};

std::string decimal(std::string& text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        return cat("expected a whole number from 0 to ", UINT64_MAX, ", got '", text, "'");
    text = cat(value);
    return {};
}

std::string finite(std::string& text) {
    return decimal_number(text) ? "" : cat("expected a number such as 0.5, got '", text, "'");
}

/// Of a number with a unit: CLI11 takes "-5" for 2^64 - 5.
std::string unsigned_size(std::string& text) {
    const bool digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
    return digit ? "" : cat("expected a size such as 6G, got '", text, "'");
}

std::string filled(std::string& text) { return text.empty() ? "expected a value, got an empty one" : ""; }

}  // namespace

std::optional<double> decimal_number(std::string_view text) {
    double value = 0;
    if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
    return value;
}

CLI::Validator no_stdout() {
    const auto check = [](std::string& path) -> std::string {
        return path == "-" ? "expected a file, got -, as stdout says what was done (./- is a file)" : "";
    };
    return CLI::Validator(check, "");
}

CLI::Validator writable(bool or_stdout) {
    const auto check = [or_stdout](std::string& path) -> std::string {
        if (path == "-") return or_stdout ? "" : no_stdout()(path);
        try {
            check_writable(path);
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    };
    return CLI::Validator(check, "");
}

void check_values(CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
        const std::string type = option->get_type_name();
        const auto is_named = [&](const char* name) { return option->check_lname(name); };
        if (type.starts_with("UINT"))
            option->transform(CLI::Validator(type.find("SIZE") == type.npos ? decimal : unsigned_size, ""),
                              "");
        else if (type.starts_with("FLOAT"))
            option->transform(CLI::Validator(finite, ""), "");
        else if (type.starts_with("TEXT") && std::ranges::none_of(may_be_empty, is_named))
            option->transform(CLI::Validator(filled, ""), "");
    }
}

void check_alone(const CLI::App& app, const std::vector<LoneFlag>& flags) {
    for (const auto& [flag, others] : flags)
        for (const char* other : others)
            if (app.count(flag) > 0 && app.count(other) > 0)
                fail(Status::bad_argument, app.get_name(), "expected ", flag, " without ", other);
}

void check_company(const CLI::App& app, const std::vector<LoneFlag>& flags) {
    for (const auto& [flag, others] : flags) {
        if (app.count(flag) == 0 ||
            std::ranges::any_of(others, [&](const char* other) { return app.count(other) > 0; }))
            continue;
        std::string names;
        for (const char* other : others) names += cat(names.empty() ? "" : " or ", other);
        fail(Status::bad_argument, app.get_name(), "expected ", names, " beside ", flag);
    }
}

}  // namespace scoria::cli
