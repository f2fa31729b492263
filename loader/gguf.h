// The header of a GGUF file, versions 2 and 3: metadata and tensor table. A file is untrusted: every
// count is capped and compared with the bytes that are left before anything is allocated for it.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include "architecture.h"
#include "fail.h"
#include "file.h"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace scoria {

/// Elements of one array value; arrays of arrays are refused (no published file has one).
using GgufArray =
    std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;
/// Integers and floats of every width are widened; `bool` elements of arrays become 0 and 1.
using GgufValue = std::variant<bool, uint64_t, int64_t, double, std::string, GgufArray>;

struct GgufTensor {
    std::string name;
    std::vector<uint64_t> dimensions;  // 1 to 4, all at least 1, fastest first
    uint32_t type = 0;                 // GGUF's number; may be one that this build cannot read
    uint64_t offset = 0;               // bytes from the start of the file
    uint32_t file = 0;                 // of a model in several (gguf_split.h)
};

/// Metadata with typed access. A getter is empty if the key is absent and throws bad_file, naming the
/// key, if the value has another type.
class GgufMetadata {
  public:
    std::optional<uint64_t> integer(std::string_view key) const;  // not negative, any width
    std::optional<double> number(std::string_view key) const;     // float or integer
    std::optional<bool> boolean(std::string_view key) const;
    const std::string* text(std::string_view key) const;  // null if absent
    const std::vector<std::string>* texts(std::string_view key) const;
    std::optional<std::vector<int64_t>> integers(std::string_view key) const;
    std::optional<std::vector<double>> numbers(std::string_view key) const;
    bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
    /// A JSON object; of arrays the first few elements and the count.
    std::string json() const;
    /// The keys that begin with `prefix`, without it, as a JSON object with whole arrays.
    nlohmann::json section(std::string_view prefix) const;

  private:
    friend class GgufReader;
    template <class T> const T* find(std::string_view key, const char* expected) const;
    std::map<std::string, GgufValue, std::less<>> values_;
};

/// Where the bytes of one value lie, so that it can be copied as it is, its width included.
struct GgufEntry {
    std::string key;
    uint32_t type = 0;               // GGUF's number of the value's type
    uint64_t offset = 0, bytes = 0;  // in the file; an array's element type and count belong to it
};

struct Gguf {
    uint32_t version = 0;
    GgufMetadata metadata;
    std::vector<GgufEntry> entries;   // of the metadata, in the file's order
    std::vector<GgufTensor> tensors;  // in the file's order; those of known types lie inside the file
};

/// Reads the header by positioned reads; `whole`: bytes of the whole file, where `file` is only its
/// beginning. Errors: bad_file, naming the field; unsupported for a big-endian file and for another version.
Gguf read_gguf(const File& file, uint64_t whole = 0);

/// What `work` returns; its errors that say [gguf] say [`path`] instead.
template <class Work> auto naming_file(const std::string& path, const Work& work) try {
    return work();
} catch (const Error& error) {
    constexpr std::string_view nameless = "[gguf]";
    const std::string_view text = error.what();
    if (!text.starts_with(nameless)) throw;
    throw Error(error.status(), cat("[", path, "]", text.substr(nameless.size())));
}

/// "Q4_K", also for types that this build cannot read; "type 77" for unknown numbers.
std::string gguf_type_name(uint32_t type);

/// The tensor as rows of contiguous weights. Errors: unsupported, naming tensor and type.
TensorView tensor_view(const GgufTensor& tensor);

}  // namespace scoria
