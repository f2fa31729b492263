// See importance.h.
#include "importance.h"

#include "fail.h"
#include "gguf.h"
#include "gguf_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace scoria {
namespace {

constexpr uint64_t most_bytes = 1ull << 30;
constexpr std::string_view sums_end = ".in_sum2", counts_end = ".counts";

void check(const std::string& name, const std::vector<float>& values) {
    for (const float value : values)
        if (!std::isfinite(value) || value < 0)
            fail(Status::bad_file, "importance", name, ": expected finite numbers of 0 or more, got ", value);
}

std::vector<float> read_floats(const File& file, const GgufTensor& tensor) {
    const TensorView view = tensor_view(tensor);
    if (view.type != TensorType::f32 || view.bytes() > most_bytes)
        fail(Status::bad_file, "importance", tensor.name, ": expected F32, at most ", most_bytes, " bytes");
    std::vector<float> values(size_t{view.rows} * view.cols);
    file.read(view.offset, std::as_writable_bytes(std::span(values)));
    return values;
}

ImportanceMatrix read_gguf_importance(const File& file) {
    const Gguf gguf = read_gguf(file);
    ImportanceMatrix result;
    for (const GgufTensor& tensor : gguf.tensors) {
        if (!tensor.name.ends_with(sums_end)) continue;
        const std::string name = tensor.name.substr(0, tensor.name.size() - sums_end.size());
        const auto counts_tensor = std::ranges::find(gguf.tensors, cat(name, counts_end), &GgufTensor::name);
        if (counts_tensor == gguf.tensors.end())
            fail(Status::bad_file, "importance", tensor.name, ": expected counts beside it");
        std::vector<float> values = read_floats(file, tensor);
        const std::vector<float> counts = read_floats(file, *counts_tensor);
        if (values.size() % counts.size() != 0)
            fail(Status::bad_file, "importance", name, ": expected a multiple of ", counts.size(),
                 " sums, got ", values.size());
        const size_t cols = values.size() / counts.size();
        // An expert that no token reached has no sums: all its columns count alike.
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = counts[i / cols] > 0 ? values[i] / counts[i / cols] : 1;
        check(name, values);
        result[name] = std::move(values);
    }
    if (result.empty()) fail(Status::bad_file, file.path(), "expected tensors that end in ", sums_end);
    return result;
}

/// Fields of the older format, in order.
class Fields {
  public:
    explicit Fields(const File& file) : file_(file) {}
    uint32_t number(std::string_view what, uint64_t most) {
        int32_t value = 0;
        take(std::as_writable_bytes(std::span(&value, 1)));
        if (value < 0 || static_cast<uint64_t>(value) > most)
            fail(Status::bad_file, file_.path(), what, ": expected 0 to ", most, ", got ", value);
        return static_cast<uint32_t>(value);
    }
    void take(std::span<std::byte> out) {
        file_.read(at_, out);
        at_ += out.size();
    }
    uint64_t left() const { return file_.size() - at_; }

  private:
    const File& file_;
    uint64_t at_ = 0;
};

ImportanceMatrix read_old_importance(const File& file) {
    Fields fields(file);
    ImportanceMatrix result;
    const uint32_t entries = fields.number("entries of an importance matrix", 1 << 16);
    if (entries == 0) fail(Status::bad_file, file.path(), "expected entries, got none");
    for (uint32_t i = 0; i < entries; ++i) {
        std::string name(fields.number("length of a name", 255), '\0');
        fields.take(std::as_writable_bytes(std::span(name)));
        const uint32_t calls = fields.number(cat(name, ": calls"), 1u << 31);
        std::vector<float> values(fields.number(cat(name, ": values"), fields.left() / sizeof(float)));
        fields.take(std::as_writable_bytes(std::span(values)));
        if (calls > 0)
            for (float& value : values) value /= static_cast<float>(calls);
        check(name, values);
        result[name] = std::move(values);
    }
    return result;
}

}  // namespace

ImportanceMatrix read_importance(const std::string& path) {
    const File file(path);
    char magic[4] = {};
    file.read(0, std::as_writable_bytes(std::span(magic)));
    return std::memcmp(magic, "GGUF", 4) == 0 ? read_gguf_importance(file) : read_old_importance(file);
}

void write_importance(const std::string& path, const std::map<std::string, ActivationSums>& sums,
                      const ImportanceText& text) {
    GgufWriter writer;
    writer.set("general.type", "imatrix");
    writer.set("imatrix.datasets", std::span(&text.name, 1));
    writer.set("imatrix.chunk_count", text.windows);
    writer.set("imatrix.chunk_size", text.window_tokens);
    for (const auto& [name, of] : sums) {
        writer.add(cat(name, sums_end), {of.squares.size() / of.counts.size(), of.counts.size()},
                   TensorType::f32);
        writer.add(cat(name, counts_end), {1, of.counts.size()}, TensorType::f32);
    }
    const std::vector<std::byte> header = writer.header(32);
    NewFile file(path, writer.file_bytes());
    file.write(0, header);
    auto tensor = writer.tensors().begin();
    const auto write = [&](const auto& values) {
        const std::vector<float> rounded(values.begin(), values.end());
        file.write((tensor++)->offset, std::as_bytes(std::span(rounded)));
    };
    for (const auto& [name, of] : sums) write(of.squares), write(of.counts);
    file.commit();
}

}  // namespace scoria
