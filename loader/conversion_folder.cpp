// A Hugging Face folder of the Llama line as a source: config.json and *.safetensors under GGUF's keys and
// names. GGUF's "llama" turns pairs (2i, 2i+1) of a head where the folder's models turn (i, i + d/2), so rows
// of q and k change places; its other architectures turn the folder's pairs.
#include "conversion_folder.h"

#include "fail.h"
#include "file.h"
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
using nlohmann::json;

struct Family {
    const char *model_type, *architecture;
    bool paired_rows;  // rotates (2i, 2i+1)
    bool head_norms;   // of q and k
};
constexpr Family families[] = {{"llama", "llama", true, false},
                               {"mistral", "llama", true, false},
                               {"qwen2", "qwen2", false, false},
                               {"qwen3", "qwen3", false, true}};

struct Name {
    const char *theirs, *ours;
    bool rotated = false;
};
constexpr Name layer_names[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight", true},
    {"self_attn.k_proj.weight", "attn_k.weight", true},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias", true},
    {"self_attn.k_proj.bias", "attn_k.bias", true},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.o_proj.bias", "attn_output.bias"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
};
constexpr Name names[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

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
    bool flag(const char* key) const {
        const auto found = values_.find(key);
        return found != values_.end() && found->is_boolean() && found->get<bool>();
    }
    double number(const char* key) const { return number_of(values_, key); }
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
    struct Place {
        size_t file = 0;
        uint64_t offset = 0;
        uint64_t pair_rows = 0;     // head size where rows change places, else 0
        std::vector<float> values;  // computed, not in a file
    };
    void open_files();
    void add(const std::string& theirs, const std::string& ours, bool rotated, bool required);

    fs::path folder_;
    Config config_;
    const Family* family_ = nullptr;
    uint32_t head_dim_ = 0;
    std::vector<File> files_;
    std::map<std::string, std::pair<size_t, SafetensorsArray>> arrays_;
    std::set<std::string> claimed_;
    std::vector<Place> places_;
};

FolderSource::FolderSource(const fs::path& folder) : folder_(folder), config_(folder / "config.json") {
    const std::string model_type = config_.text("model_type");
    family_ = std::ranges::find(families, model_type, &Family::model_type);
    if (family_ == std::end(families))
        fail(Status::unsupported, folder.string(),
             "model_type: expected llama, mistral, qwen2 or qwen3, got ", model_type);
    facts_.layers = config_.size("num_hidden_layers");
    facts_.heads = config_.size("num_attention_heads");
    facts_.kv_heads = config_.size("num_key_value_heads", static_cast<uint32_t>(facts_.heads));
    head_dim_ = config_.size("head_dim", config_.size("hidden_size") / static_cast<uint32_t>(facts_.heads));
    if (facts_.layers > 4096)
        fail(Status::bad_file, folder.string(), "num_hidden_layers: expected at most 4096");
    open_files();
    if (config_.rope_type() == "llama3") {
        places_.push_back({.values = llama3_divisors(config_, head_dim_)});
        tensors_.push_back({"rope_freqs.weight", {head_dim_ / 2}, TensorType::f32});
    } else if (config_.rope_type() != "default" && config_.rope_type() != "linear") {
        fail(Status::unsupported, folder.string(), "rope_type: expected default, linear or llama3, got ",
             config_.rope_type());
    }
    const bool tied = config_.flag("tie_word_embeddings");
    if (tied) arrays_.erase("lm_head.weight");  // a copy, in some files
    for (const Name& name : names)
        if (!tied || std::string_view(name.ours) != "output.weight") add(name.theirs, name.ours, false, true);
    for (uint64_t layer = 0; layer < facts_.layers; ++layer)
        for (const Name& name : layer_names) {
            const std::string_view ours = name.ours;
            const bool head_norm = ours == "attn_q_norm.weight" || ours == "attn_k_norm.weight";
            if (head_norm && !family_->head_norms) continue;
            add(cat("model.layers.", layer, ".", name.theirs), cat("blk.", layer, ".", ours), name.rotated,
                !ours.ends_with("bias"));
        }
    // A weight that GGUF has no place for would be missed in every answer. Frequencies follow from the
    // config.
    for (const auto& [name, place] : arrays_)
        if (!claimed_.contains(name) && !name.ends_with("rotary_emb.inv_freq"))
            fail(Status::unsupported, folder.string(), "the tensor ", name, " has no place in the GGUF of a ",
                 model_type);
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

void FolderSource::add(const std::string& theirs, const std::string& ours, bool rotated, bool required) {
    const auto found = arrays_.find(theirs);
    if (found == arrays_.end()) {
        if (required)
            fail(Status::bad_file, folder_.string(), "expected the tensor ", theirs, ", which is missing");
        return;
    }
    const auto& [file, array] = found->second;
    if (array.shape.empty() || array.shape.size() > 2 || array.bytes == 0)
        fail(Status::bad_file, folder_.string(), theirs, ": expected a vector or a matrix");
    Tensor tensor{ours, {array.shape.rbegin(), array.shape.rend()}, type_of(theirs, array)};
    const uint64_t pair_rows = rotated && family_->paired_rows ? head_dim_ : 0;
    if (pair_rows != 0 && (pair_rows % 2 != 0 || array.shape[0] % pair_rows != 0))
        fail(Status::bad_file, folder_.string(), theirs, ": expected rows for heads of an even ", pair_rows,
             ", got ", array.shape[0]);
    claimed_.insert(theirs);
    places_.push_back({file, array.offset, pair_rows, {}});
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
    if (place.pair_rows == 0) return files_[place.file].read(place.offset + first_row * bytes, out);
    for (uint64_t i = 0; i < out.size() / bytes; ++i) {
        const uint64_t row = first_row + i, in_head = row % place.pair_rows;
        const uint64_t from = row - in_head + in_head % 2 * (place.pair_rows / 2) + in_head / 2;
        files_[place.file].read(place.offset + from * bytes, out.subspan(i * bytes, bytes));
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
    out.set(key("attention.layer_norm_rms_epsilon"), static_cast<float>(config_.number("rms_norm_eps")));
    out.set(key("rope.freq_base"), static_cast<float>(config_.theta()));
    out.set(key("rope.dimension_count"), head_dim_);
    out.set(key("vocab_size"), config_.size("vocab_size"));
    const bool qwen = architecture != "llama";  // its folders name a window and switch it off
    if (const uint32_t window = config_.size("sliding_window", 0);
        window != 0 && (!qwen || config_.flag("use_sliding_window")))
        out.set(key("attention.sliding_window"), window);
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
