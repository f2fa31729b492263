// The hyperparameters of a model by what they mean, whatever its file calls them: config.json has several
// names for most, GGUF one. Numbers are checked for range, and names that nobody asked for can be refused.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

enum class Field : uint8_t {
    vocab,
    hidden,
    layers,
    heads,
    kv_heads,
    head_dim,
    context,
    feed_forward,
    epsilon,
    experts,
    experts_used,
    expert_size,
    shared_size,
    window,
    activation,
    clip,
};

class Settings {
  public:
    enum class Format : uint8_t { hugging_face, gguf };
    /// `where` opens messages, `prefix` is put before names in them.
    Settings(Format format, std::string where, std::string prefix, nlohmann::json values)
        : format_(format), where_(std::move(where)), prefix_(std::move(prefix)), values_(std::move(values)) {}

    Format format() const { return format_; }
    const std::string& where() const { return where_; }
    std::string full_name(std::string_view name) const { return prefix_ + std::string(name); }
    /// The name under which this file has the field, else the commonest one.
    const char* name_of(Field field) const;

    /// The value, or null if it is absent or null. Marks the name as understood, as all getters do.
    const nlohmann::json* find(std::string_view name) const;
    bool has(std::string_view name) const { return find(name) != nullptr; }
    bool is_null(std::string_view name) const { return values_.contains(name) && !has(name); }
    bool has(Field field) const { return has(name_of(field)); }
    /// Names that are understood and need no value.
    void understood(std::string_view name) const { asked_.emplace(name); }

    /// An integer from `least` to `most`, or a list of equal ones and zeros; without a fallback it must be
    /// there.
    uint32_t size(std::string_view name, uint64_t most, std::optional<uint64_t> fallback = {},
                  uint64_t least = 1) const;
    uint32_t size(Field field, uint64_t most, std::optional<uint64_t> fallback = {}) const {
        return size(name_of(field), most, fallback);
    }
    /// Errors: bad_file, where the file has the field twice by unlike names and with unlike values, of which
    /// each class reads its own.
    void expect_one(Field field) const;
    /// Integers to `most` where the file has a list that is not of equal ones, one for each of `count`
    /// layers; else empty. 0: the layer has none.
    std::vector<uint32_t> sizes(Field field, size_t count, uint64_t most) const;
    /// A number above 0 that is one as a float too; `fallback`, whatever it is, where there is none.
    double positive(std::string_view name, std::optional<double> fallback = {}) const;
    float number(std::string_view name, double fallback) const {
        return static_cast<float>(positive(name, fallback));
    }
    bool flag(std::string_view name, bool otherwise) const;
    std::string text(std::string_view name, std::string otherwise = {}) const;
    /// Empty if it is absent. Errors: bad_file, if it is no list of such values.
    std::vector<double> numbers(std::string_view name) const;
    std::vector<std::string> texts(std::string_view name) const;
    /// An object under `name`, or an empty one.
    Settings section(std::string_view name) const;

    /// Errors: unsupported, where the file has one of these and it is not off (false, null, empty).
    void refuse(std::span<const char* const> names) const;
    /// Errors: unsupported, naming a value that nobody asked for; `harmless` lets one pass.
    void refuse_unknown(bool (*harmless)(std::string_view name, const nlohmann::json& value) = nullptr) const;
    [[noreturn]] void wrong(std::string_view name, std::string_view expected) const;

  private:
    Format format_;
    std::string where_, prefix_;
    nlohmann::json values_;
    mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace scoria
