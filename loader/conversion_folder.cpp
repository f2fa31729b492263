// A Hugging Face folder of the families in the table below as a source: config.json and *.safetensors under
// GGUF's keys and names. GGUF's "llama" turns pairs (2i, 2i+1) of a head where the folder's models turn (i, i
// + d/2), so rows of q and k change places; its other architectures turn the folder's pairs.
#include "conversion_folder.h"

#include "conversion_families.h"
#include "fail.h"
#include "file.h"
#include "gather.h"
#include "safetensors.h"
#include "tokenizer/json.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <set>

namespace scoria {
namespace {

namespace fs = std::filesystem;
using namespace conversion;
using nlohmann::json;

/// config.json with types checked.
class Config {
  public:
    explicit Config(const fs::path& path)
        : path_(path.string()), values_(parse_json(read_file(path_, 1 << 24), path_)) {
        // Older files have rope_theta and rope_scaling, newer ones rope_parameters.
        for (const char* key : {"rope_parameters", "rope_scaling"})
            if (values_.contains(key) && values_[key].is_object()) rope_ = values_[key];
    }
    std::string text(const char* key) const {
        const auto found = values_.find(key);
        if (found == values_.end() || !found->is_string())
            fail(Status::bad_file, path_, key, ": expected a string");
        return found->get<std::string>();
    }
    uint32_t size(const char* key) const {
        const auto found = values_.find(key);
        if (found == values_.end() || !found->is_number_unsigned() || found->get<uint64_t>() == 0 ||
            found->get<uint64_t>() > 1u << 30)
            fail(Status::bad_file, path_, key, ": expected an integer from 1 to 2^30");
        return found->get<uint32_t>();
    }
    uint32_t size(const char* key, uint32_t otherwise) const {
        return values_.contains(key) && !values_[key].is_null() ? size(key) : otherwise;
    }
    bool has(const char* key) const { return values_.contains(key) && !values_[key].is_null(); }
    bool flag(const char* key, bool otherwise = false) const {
        const auto found = values_.find(key);
        return found != values_.end() && found->is_boolean() ? found->get<bool>() : otherwise;
    }
    double number(const char* key) const { return number_of(values_, key); }
    bool says(const Must& must) const {
        const auto found = values_.find(must.key);
        return found == values_.end() || *found == json::parse(must.value);
    }
    /// Whether it lists nothing of the layers, or for each what `expected` says.
    template <class Expected> bool lists(const char* key, uint64_t layers, const Expected& expected) const {
        const auto found = values_.find(key);
        if (found == values_.end() || !found->is_array()) return true;
        for (uint64_t i = 0; i < std::min<uint64_t>(found->size(), layers); ++i)
            if ((*found)[i] != expected(i)) return false;
        return found->size() == layers;
    }
    /// The first of several names that is there.
    uint32_t first_size(std::initializer_list<const char*> keys) const {
        for (const char* key : keys)
            if (values_.contains(key)) return size(key);
        return size(*keys.begin());
    }
    double rotated_share() const {
        if (rope_.contains("partial_rotary_factor")) return number_of(rope_, "partial_rotary_factor");
        return values_.contains("partial_rotary_factor") ? number("partial_rotary_factor") : 1;
    }
    double theta() const {
        if (rope_.contains("rope_theta")) return number_of(rope_, "rope_theta");
        return values_.contains("rope_theta") ? number("rope_theta") : 10000;
    }
    double rope(const char* key) const { return number_of(rope_, key); }
    std::string rope_type() const {
        for (const char* key : {"rope_type", "type"})
            if (rope_.contains(key) && rope_[key].is_string()) return rope_[key].get<std::string>();
        return "default";
    }

  private:
    double number_of(const json& object, const char* key) const {
        const auto found = object.find(key);
        if (found == object.end() || !found->is_number() || !(found->get<double>() > 0))
            fail(Status::bad_file, path_, key, ": expected a number above 0");
        return found->get<double>();
    }
    std::string path_;
    json values_, rope_ = json::object();
};

TensorType type_of(const std::string& name, const SafetensorsArray& array) {
    constexpr std::pair<const char*, TensorType> types[] = {
        {"F32", TensorType::f32}, {"F16", TensorType::f16}, {"BF16", TensorType::bf16}};
    for (const auto& [text, type] : types)
        if (array.type == text) return type;
    fail(Status::unsupported, "safetensors", name, ": expected F32, F16 or BF16, got ", array.type);
}

/// Divisors of Llama 3.1's rope ("llama3" scaling): 1 for short waves, `factor` for long ones, between them
/// linear in the inverse.
std::vector<float> llama3_divisors(const Config& config, uint32_t width) {
    const double factor = config.rope("factor"), original = config.rope("original_max_position_embeddings");
    const double low = config.rope("low_freq_factor"), high = config.rope("high_freq_factor");
    std::vector<float> divisors;
    for (uint32_t i = 0; i < width / 2; ++i) {
        const double turns = original / (2 * std::numbers::pi * std::pow(config.theta(), 2.0 * i / width));
        const double share = std::clamp((turns - low) / (high - low), 0.0, 1.0);  // kept
        divisors.push_back(static_cast<float>(1 / ((1 - share) / factor + share)));
    }
    return divisors;
}

class FolderSource final : public ConversionSource {
  public:
    explicit FolderSource(const fs::path& folder);
    std::vector<std::string> paths() const override;
    void metadata(GgufWriter& out) const override;
    void read_rows(size_t tensor, uint64_t first_row, std::span<std::byte> out) const override;

  private:
    struct Part {
        size_t file = 0;
        uint64_t offset = 0;
    };
    struct Place {
        std::vector<Part> parts;  // of equally many rows: experts
        uint64_t part_rows = 0;
        uint64_t pair_rows = 0;     // head size where rows change places, else 0
        std::vector<float> values;  // computed, not in a file
    };
    [[noreturn]] void refuse(const char* key, const std::string& expected) const;
    bool is_windowed() const;
    void check_layers() const;
    void open_files();
    void add(const std::string& prefix, const Name& name, const std::string& ours);
    std::vector<float> plus_one(const std::pair<size_t, SafetensorsArray>& found, TensorType type) const;

    fs::path folder_;
    Config config_;
    const ConversionFamily* family_ = nullptr;
    uint32_t head_dim_ = 0;
    std::vector<File> files_;
    std::map<std::string, std::pair<size_t, SafetensorsArray>> arrays_;
    std::set<std::string> claimed_;
    std::vector<Place> places_;
};

FolderSource::FolderSource(const fs::path& folder) : folder_(folder), config_(folder / "config.json") {
    const std::string model_type = config_.text("model_type");
    const auto found = std::ranges::find(conversion_families(), model_type, &ConversionFamily::model_type);
    if (found == conversion_families().end()) {
        std::string known;
        for (const ConversionFamily& family : conversion_families())
            known += cat(known.empty() ? "" : ", ", family.model_type);
        fail(Status::unsupported, folder.string(), "model_type: expected one of ", known, ", got ",
             model_type);
    }
    family_ = &*found;
    for (const Must& must : family_->must)
        if (must.key != nullptr && !config_.says(must)) refuse(must.key, must.value);
    facts_.layers = config_.size("num_hidden_layers");
    facts_.heads = config_.size("num_attention_heads");
    facts_.kv_heads = config_.size("num_key_value_heads", static_cast<uint32_t>(facts_.heads));
    check_layers();
    head_dim_ = config_.size("head_dim", config_.size("hidden_size") / static_cast<uint32_t>(facts_.heads));
    if (facts_.layers > 4096)
        fail(Status::bad_file, folder.string(), "num_hidden_layers: expected at most 4096");
    const auto has_experts = [](const Name& name) { return std::strchr(name.theirs, '@') != nullptr; };
    for (const Names names_of : family_->layer_names)
        if (std::ranges::any_of(names_of, has_experts))
            facts_.experts = config_.first_size({"num_experts", "num_local_experts"});
    if (facts_.experts > 4096) fail(Status::bad_file, folder.string(), "experts: expected at most 4096");
    open_files();
    if (config_.rope_type() == "llama3") {
        places_.push_back({.parts = {}, .values = llama3_divisors(config_, head_dim_)});
        tensors_.push_back({"rope_freqs.weight", {head_dim_ / 2}, TensorType::f32});
    } else if (config_.rope_type() != "default" && config_.rope_type() != "linear") {
        fail(Status::unsupported, folder.string(), "rope_type: expected default, linear or llama3, got ",
             config_.rope_type());
    }
    const bool tied = config_.flag("tie_word_embeddings", family_->plus_one || family_->layer_norm);
    if (tied) arrays_.erase("lm_head.weight");  // a copy, in some files
    add("", {"model.embed_tokens.weight", ""}, "token_embd.weight");
    add("", {"model.norm.weight", "", family_->plus_one ? Lay::plus_one : Lay::as_is}, "output_norm.weight");
    if (!tied) add("", {"lm_head.weight", ""}, "output.weight");
    for (uint64_t layer = 0; layer < facts_.layers; ++layer)
        for (const Names names_of : family_->layer_names)
            for (const Name& name : names_of)
                add(cat("model.layers.", layer, "."), name, cat("blk.", layer, ".", name.ours));
    // A weight that GGUF has no place for would be missed in every answer. Frequencies follow from the
    // config.
    for (const auto& [name, place] : arrays_)
        if (!claimed_.contains(name) && !name.ends_with("rotary_emb.inv_freq"))
            fail(Status::unsupported, folder.string(), "the tensor ", name, " has no place in the GGUF of a ",
                 model_type);
}

void FolderSource::refuse(const char* key, const std::string& expected) const {
    fail(Status::unsupported, folder_.string(), key, ": expected ", expected, ", since GGUF's ",
         family_->architecture, " cannot say otherwise");
}

bool FolderSource::is_windowed() const {
    const bool used = family_->window == Window::always ||
                      (family_->window == Window::if_used && config_.flag("use_sliding_window"));
    return used && config_.size("sliding_window", 0) != 0;
}

/// What GGUF has no key for follows from the family, and must be so here.
void FolderSource::check_layers() const {
    const auto is_nth = [](uint64_t layer, uint32_t every) { return every != 0 && (layer + 1) % every == 0; };
    const std::string activation = family_->activation ? cat('"', family_->activation, '"') : "";
    if (family_->activation && !config_.says({"hidden_act", activation.c_str()}))
        refuse("hidden_act", activation);
    const bool listed = config_.has("layer_types");
    if (is_windowed() && family_->window == Window::if_used && !listed &&
        !config_.says({"max_window_layers", "0"}))
        refuse("max_window_layers", "0");
    if (!config_.lists("layer_types", facts_.layers, [&](uint64_t i) {
            return is_windowed() && !is_nth(i, family_->full_every) ? "sliding_attention" : "full_attention";
        }))
        refuse("layer_types", !is_windowed() ? "full_attention in all"
                              : family_->full_every
                                  ? cat("all windowed but every ", family_->full_every, "th")
                                  : "sliding_attention in all");
    const uint32_t every = family_->no_rope_every;
    const auto rotates = [&](uint64_t i) { return is_nth(i, every) ? 0 : 1; };
    if (every && !config_.lists("no_rope_layers", facts_.layers, rotates))
        refuse("no_rope_layers", cat("0 for every ", every, "th"));
    if (every && !config_.has("no_rope_layers") && config_.size("no_rope_layer_interval", every) != every)
        refuse("no_rope_layer_interval", cat(every));
}

void FolderSource::open_files() {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
        if (entry.path().extension() == ".safetensors" &&
            entry.path().filename().string().starts_with("model"))
            found.push_back(entry.path());
    std::ranges::sort(found);
    if (found.empty()) fail(Status::bad_file, folder_.string(), "expected model*.safetensors, got none");
    for (const fs::path& path : found) {
        const Safetensors header(path.string());
        for (const auto& [name, array] : header.arrays())
            if (!arrays_.emplace(name, std::pair(files_.size(), array)).second)
                fail(Status::bad_file, path.string(), name, ": expected in one file, got in two");
        files_.emplace_back(path.string());
    }
}

std::vector<float> FolderSource::plus_one(const std::pair<size_t, SafetensorsArray>& found,
                                          TensorType type) const {
    std::vector<File> files;
    files.emplace_back(files_[found.first].path());
    const auto& [shape, offset] = std::tie(found.second.shape, found.second.offset);
    std::vector<float> values =
        GatheredTensors(std::move(files))
            .floats({.type = type, .shape = {shape.begin(), shape.end()}, .offset = offset});
    for (float& value : values) value += 1;
    return values;
}

void FolderSource::add(const std::string& prefix, const Name& name, const std::string& ours) {
    const size_t at = std::string_view(name.theirs).find('@');
    const bool each = at != std::string_view::npos;  // expert
    Place place;
    Tensor tensor{ours, {}, TensorType::f32};
    for (uint64_t expert = 0; expert < (each ? facts_.experts : 1); ++expert) {
        std::string theirs = prefix + name.theirs;
        if (each) theirs.replace(prefix.size() + at, 1, cat(expert));
        const auto found = arrays_.find(theirs);
        if (found == arrays_.end()) {
            if (name.optional) return;
            fail(Status::bad_file, folder_.string(), "expected the tensor ", theirs, ", which is missing");
        }
        const auto& [file, array] = found->second;
        const bool flat =
            array.shape.size() == 1 || (array.shape.size() == 2 && !each && array.shape[0] == 1);
        if (array.shape.empty() || array.shape.size() > 2 || array.bytes == 0 || (each && flat))
            fail(Status::bad_file, folder_.string(), theirs, ": expected a vector or a matrix");
        // The gate of a shared expert is a matrix of one row there and a vector here.
        std::vector<uint64_t> dimensions(array.shape.rbegin(), array.shape.rend());
        if (flat) dimensions.resize(1);
        const TensorType type = type_of(theirs, array);
        if (expert > 0 && (dimensions != tensor.dimensions || type != tensor.type))
            fail(Status::bad_file, folder_.string(), theirs,
                 ": expected shape and type of the expert before it");
        tensor.dimensions = dimensions;
        tensor.type = type;
        if (name.lay == Lay::rotated && family_->paired_rows) place.pair_rows = head_dim_;
        if (place.pair_rows != 0 && (place.pair_rows % 2 != 0 || array.shape[0] % place.pair_rows != 0))
            fail(Status::bad_file, folder_.string(), theirs, ": expected rows for heads of an even ",
                 place.pair_rows, ", got ", array.shape[0]);
        if (name.lay == Lay::plus_one) {
            place.values = plus_one(found->second, type);
            tensor.type = TensorType::f32;
        }
        claimed_.insert(theirs);
        place.parts.push_back({file, array.offset});
        place.part_rows = flat ? 1 : array.shape[0];
    }
    if (each) tensor.dimensions.push_back(facts_.experts);
    places_.push_back(std::move(place));
    tensors_.push_back(std::move(tensor));
}

std::vector<std::string> FolderSource::paths() const {
    std::vector<std::string> result;
    for (const File& file : files_) result.push_back(file.path());
    return result;
}

void FolderSource::read_rows(size_t tensor, uint64_t first_row, std::span<std::byte> out) const {
    const Place& place = places_[tensor];
    if (!place.values.empty()) {
        std::memcpy(out.data(), place.values.data(), out.size());
        return;
    }
    const bool vector = tensors_[tensor].dimensions.size() == 1;  // of which elements change places
    const uint64_t element = tensor_type_info(tensors_[tensor].type).block_bytes;
    const uint64_t bytes = vector ? element : element * tensors_[tensor].cols();
    if (place.pair_rows == 0 && place.parts.size() == 1)
        return files_[place.parts[0].file].read(place.parts[0].offset + first_row * bytes, out);
    for (uint64_t i = 0; i < out.size() / bytes; ++i) {
        const uint64_t row = first_row + i, heads = std::max<uint64_t>(place.pair_rows, 1),
                       in_head = row % heads;
        const uint64_t from =
            place.pair_rows == 0 ? row : row - in_head + in_head % 2 * (heads / 2) + in_head / 2;
        const size_t number = place.parts.size() == 1 ? 0 : from / place.part_rows;
        const Part& part = place.parts[number];
        files_[part.file].read(part.offset + (from - number * place.part_rows) * bytes,
                               out.subspan(i * bytes, bytes));
    }
}

void FolderSource::metadata(GgufWriter& out) const {
    const std::string architecture = family_->architecture;
    const auto key = [&](const char* name) { return cat(architecture, ".", name); };
    out.set("general.architecture", architecture);
    out.set("general.type", "model");
    out.set("general.name", fs::weakly_canonical(folder_).filename().string());
    out.set(key("block_count"), static_cast<uint32_t>(facts_.layers));
    out.set(key("context_length"), config_.size("max_position_embeddings"));
    out.set(key("embedding_length"), config_.size("hidden_size"));
    out.set(key("feed_forward_length"), config_.size("intermediate_size"));
    out.set(key("attention.head_count"), static_cast<uint32_t>(facts_.heads));
    out.set(key("attention.head_count_kv"), static_cast<uint32_t>(facts_.kv_heads));
    out.set(key("attention.key_length"), head_dim_);
    out.set(key("attention.value_length"), head_dim_);
    if (family_->layer_norm)
        out.set(key("attention.layer_norm_epsilon"), static_cast<float>(config_.number("layer_norm_eps")));
    else
        out.set(key("attention.layer_norm_rms_epsilon"), static_cast<float>(config_.number("rms_norm_eps")));
    for (const Key& each : family_->floats)
        out.set(key(each.ours), static_cast<float>(config_.number(each.theirs)));
    if (facts_.experts > 0) {
        out.set(key("expert_count"), static_cast<uint32_t>(facts_.experts));
        out.set(key("expert_used_count"), config_.size("num_experts_per_tok"));
        out.set(key("expert_feed_forward_length"),
                config_.size("moe_intermediate_size", config_.size("intermediate_size")));
        if (const uint32_t shared = config_.size("shared_expert_intermediate_size", 0))
            out.set(key("expert_shared_feed_forward_length"), shared);
    }
    out.set(key("rope.freq_base"), static_cast<float>(config_.theta()));
    out.set(key("rope.dimension_count"), static_cast<uint32_t>(head_dim_ * config_.rotated_share()));
    out.set(key("vocab_size"), config_.size("vocab_size"));
    if (is_windowed()) out.set(key("attention.sliding_window"), config_.size("sliding_window"));
    if (config_.rope_type() == "linear") {
        out.set(key("rope.scaling.type"), "linear");
        out.set(key("rope.scaling.factor"), static_cast<float>(config_.rope("factor")));
    }
    add_folder_vocabulary(folder_, config_.size("vocab_size"), out);
}

}  // namespace

std::unique_ptr<const ConversionSource> open_conversion_folder(const fs::path& folder) {
    return std::make_unique<const FolderSource>(folder);
}

}  // namespace scoria
