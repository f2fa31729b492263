// GGUF files as a source: metadata are copied byte by byte, widths included. Weights that keep a factor apart
// are read with it, as a model has them.
#include "conversion_source.h"

#include "conversion_folder.h"
#include "gguf_families.h"
#include "gguf_scales.h"
#include "gguf_split.h"
#include "hf_folder.h"

#include <algorithm>

namespace scoria {
namespace {

constexpr uint32_t array_type = 9;

class GgufSource final : public ConversionSource {
  public:
    explicit GgufSource(const std::filesystem::path& path) : opened_(open_gguf_files(path)) {
        const GgufMetadata& metadata = opened_.gguf.metadata;
        const std::string* family = metadata.text("general.architecture");
        add_tensors(family != nullptr ? *family : "");
        const std::string prefix = family != nullptr ? *family + "." : "";
        facts_.layers = first_number(prefix + "block_count");
        facts_.heads = first_number(prefix + "attention.head_count");
        facts_.kv_heads = first_number(prefix + "attention.head_count_kv");
        facts_.experts = first_number(prefix + "expert_count");
        facts_.alignment = static_cast<uint32_t>(metadata.integer("general.alignment").value_or(32));
    }

    std::vector<std::string> paths() const override {
        std::vector<std::string> result;
        for (const File& file : source_.files()) result.push_back(file.path());
        return result;
    }

    void metadata(GgufWriter& out) const override {
        std::vector<std::byte> value;
        for (const GgufEntry& entry : opened_.gguf.entries) {
            value.resize(static_cast<size_t>(entry.bytes));
            source_.files().front().read(entry.offset, value);
            out.set_raw(entry.key, entry.type, value);
        }
        for (const char* key : {"split.no", "split.count", "split.tensors.count"}) out.remove(key);
    }

    void read_rows(size_t tensor, uint64_t first_row, std::span<std::byte> out) const override {
        const TensorView& view = views_[tensor];
        source_.read(view, first_row * view.row_bytes(), out);
    }

  private:
    void add_tensors(const std::string& family) {
        std::vector<StoredTensor> stored = stored_tensors(opened_.gguf);
        source_.set_scales(join_gguf_scales(family, stored, source_));
        std::vector<GatherRecipe> recipes;
        for (const StoredTensor& tensor : stored) {
            TensorView view = view_of(tensor);
            if (tensor.scales >= 0) {
                view.recipe = static_cast<int32_t>(recipes.size());
                recipes.push_back(whole_of(tensor));
            }
            views_.push_back(std::move(view));
            tensors_.push_back({tensor.name, {tensor.shape.rbegin(), tensor.shape.rend()}, tensor.type});
        }
        source_.set_recipes(std::move(recipes));
    }

    /// Of a key that some files give once and some per layer; 0 if it is absent.
    uint64_t first_number(const std::string& key) const {
        const auto entry = std::ranges::find(opened_.gguf.entries, key, &GgufEntry::key);
        if (entry == opened_.gguf.entries.end()) return 0;
        if (entry->type != array_type) return opened_.gguf.metadata.integer(key).value_or(0);
        const std::vector<int64_t> values =
            opened_.gguf.metadata.integers(key).value_or(std::vector<int64_t>());
        const auto some = std::ranges::find_if(values, [](int64_t value) { return value > 0; });
        return some == values.end() ? 0 : static_cast<uint64_t>(*some);
    }

    GgufFiles opened_;
    GatheredTensors source_{std::move(opened_.files)};
    std::vector<TensorView> views_;
};

}  // namespace

uint64_t ConversionSource::Tensor::rows() const {
    uint64_t product = 1;
    for (size_t i = 1; i < dimensions.size(); ++i) product *= dimensions[i];
    return product;
}

std::unique_ptr<const ConversionSource> open_conversion_source(const std::filesystem::path& path) {
    if (is_hugging_face_model(path)) return open_conversion_folder(path);
    return std::make_unique<const GgufSource>(path);
}

}  // namespace scoria
