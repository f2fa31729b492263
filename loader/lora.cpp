// Opens adapter files; lora_attach.cpp adds them to a model.
#include "lora.h"

#include "fail.h"
#include "gguf_families.h"
#include "hf_folder.h"
#include "hf_text_part.h"
#include "tokenizer/json.h"
#include "tokenizer/regex.h"

#include <array>
#include <cmath>
#include <optional>

namespace scoria {
namespace {

namespace fs = std::filesystem;

constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";
constexpr uint64_t most_config_bytes = 1 << 20, most_rank = 1 << 16;

/// "W" and which of its two a tensor is, by the ends of names in the two formats.
struct Ends {
    std::string_view begin, a, b, weight;
};
constexpr Ends peft_ends{"base_model.model.", ".lora_A.weight", ".lora_B.weight", ".weight"},
    gguf_ends{"", ".lora_a", ".lora_b", ""};

/// Puts tensors together as pairs; `scale` is asked for a weight's name and rank.
template <class Scale>
void add_pairs(Adapter& adapter, std::vector<StoredTensor> tensors, const Ends& ends, const Scale& scale) {
    std::map<std::string, std::pair<std::optional<StoredTensor>, std::optional<StoredTensor>>> found;
    for (StoredTensor& tensor : tensors) {
        std::string_view name = tensor.name;
        const bool is_a = name.ends_with(ends.a);
        if (!name.starts_with(ends.begin) || (!is_a && !name.ends_with(ends.b)))
            fail(Status::unsupported, "lora", adapter.name, ": tensor ", name, ": expected a name ",
                 ends.begin, "*", ends.a, " or *", ends.b);
        name = name.substr(ends.begin.size(), name.size() - ends.begin.size() - ends.a.size());
        if (tensor_type_info(tensor.type).block != 1)
            fail(Status::unsupported, "lora", adapter.name, ": tensor ", tensor.name,
                 ": expected F32, F16 or BF16, got ", tensor_type_info(tensor.type).name);
        // Where the base sees images, too, its text is called as the folder's tensors are.
        auto& [a, b] = found[text_part_name(std::string(name) + std::string(ends.weight))];
        (is_a ? a : b) = std::move(tensor);
    }
    if (found.empty()) fail(Status::bad_file, "lora", adapter.name, ": expected tensors, got none");
    for (auto& [name, pair] : found) {
        auto& [a, b] = pair;
        if (!a || !b)
            fail(Status::bad_file, "lora", adapter.name, ": tensor ", (a ? a : b)->name, ": expected ",
                 a ? ends.b : ends.a, " beside it, got none");
        if (a->shape.size() != 2 || a->shape[0] == 0 || a->shape[0] > most_rank)
            fail(Status::bad_file, "lora", adapter.name, ": tensor ", a->name, ": expected [1 to ", most_rank,
                 ", columns], got ", shape_text(a->shape));
        const auto rank = static_cast<uint32_t>(a->shape[0]);
        if (b->shape.size() != 2 || b->shape[1] != rank)
            fail(Status::bad_file, "lora", adapter.name, ": tensor ", b->name, ": expected [rows, ", rank,
                 "], got ", shape_text(b->shape));
        adapter.pairs[name] = {std::move(*a), std::move(*b), scale(name, rank)};
    }
}

/// Refuses whatever makes an adapter more than B A. fan_in_fan_out tells only how the base lies.
void check_kind(const Settings& config) {
    if (const std::string type = config.text("peft_type"); type != "LORA")
        fail(Status::unsupported, config.where(), "peft_type: expected LORA, got ", type);
    config.refuse(std::array{"use_dora", "modules_to_save", "lora_bias", "layer_replication",
                             "alora_invocation_tokens", "trainable_token_indices", "target_parameters",
                             "use_qalora"});
    if (const std::string bias = config.text("bias", "none"); bias != "none")
        fail(Status::unsupported, config.where(), "bias: expected none, got ", bias);
    // These train what they take away from the base's weights first, which no base has lost.
    const nlohmann::json* init = config.find("init_lora_weights");
    const std::string name = init != nullptr && init->is_string() ? init->get<std::string>() : "";
    for (const char* changing : {"pissa", "olora", "corda", "loftq", "lora_ga"})
        if (name.starts_with(changing))
            fail(Status::unsupported, config.where(),
                 "init_lora_weights: expected one that leaves the base "
                 "as it is, got ",
                 name);
}

/// lora_alpha of a weight: that of the one pattern that its module's name ends with, else the file's.
class Alphas {
  public:
    explicit Alphas(const Settings& config) : where_(config.where()), alpha_(config.positive("lora_alpha")) {
        const nlohmann::json* patterns = config.find("alpha_pattern");
        if (patterns == nullptr) return;
        if (!patterns->is_object()) config.wrong("alpha_pattern", "an object");
        const Settings section = config.section("alpha_pattern");
        for (const auto& [pattern, alpha] : patterns->items())
            patterns_.emplace_back(Regex("^(?:.*\\.)?(?:" + pattern + ")$"), section.positive(pattern));
    }
    double of(std::string_view module) const {
        std::optional<double> alpha;
        for (const auto& [pattern, value] : patterns_) {
            if (!RegexSearch(pattern, module).next()) continue;
            if (alpha.value_or(value) != value)
                fail(Status::unsupported, where_, "alpha_pattern: expected one pattern for ", module,
                     ", got several");
            alpha = value;
        }
        return alpha.value_or(alpha_);
    }

  private:
    std::string where_;
    double alpha_;
    std::vector<std::pair<Regex, double>> patterns_;
};

Adapter open_peft(const fs::path& folder) {
    const std::string config_text = read_file((folder / config_name).string(), most_config_bytes);
    const Settings config(Settings::Format::hugging_face, config_name, "",
                          parse_json(config_text, config_name));
    check_kind(config);
    const fs::path weights = folder / weights_name;
    if (!fs::exists(weights) && fs::exists(folder / "adapter_model.bin"))
        fail(Status::unsupported, "lora", folder.string(), ": expected ", weights_name,
             ", got adapter_model.bin, a pickle, which could run anything");
    const Safetensors arrays(weights.string());
    std::vector<StoredTensor> tensors;
    for (const auto& [name, array] : arrays.arrays()) tensors.push_back(stored_tensor(name, array, 0));

    Adapter adapter{folder.lexically_normal().string(),
                    Settings::Format::hugging_face,
                    config.text("base_model_name_or_path"),
                    {},
                    {}};
    const Alphas alphas(config);
    const bool root = config.flag("use_rslora", false);  // Kalajdzievski 2023
    add_pairs(adapter, std::move(tensors), peft_ends, [&](std::string_view weight, uint32_t rank) {
        return alphas.of(weight.substr(0, weight.size() - peft_ends.weight.size())) /
               (root ? std::sqrt(double(rank)) : double(rank));
    });
    std::vector<File> files;
    files.emplace_back(weights.string());
    adapter.tensors = std::make_shared<GatheredTensors>(std::move(files));
    return adapter;
}

Adapter open_gguf(const fs::path& path) {
    std::vector<File> files;
    files.emplace_back(path.string());
    const Gguf gguf = read_gguf(files.front());
    const auto text = [&](const char* key) {
        const std::string* value = gguf.metadata.text(key);
        return value != nullptr ? *value : std::string();
    };
    const std::pair<const char*, const char*> kinds[] = {{"general.type", "adapter"},
                                                         {"adapter.type", "lora"}};
    for (const auto& [key, expected] : kinds)
        if (text(key) != expected)
            fail(Status::bad_file, "lora", path.string(), ": ", key, ": expected ", expected, ", got ",
                 text(key).empty() ? "nothing" : text(key));
    if (gguf.metadata.has("adapter.alora.invocation_tokens"))
        fail(Status::unsupported, "lora", path.string(),
             ": adapter.alora.invocation_tokens is not supported");
    const std::optional<double> alpha = gguf.metadata.number("adapter.lora.alpha");
    if (!alpha || !std::isfinite(*alpha))
        fail(Status::bad_file, "lora", path.string(), ": adapter.lora.alpha: expected a number, got ",
             alpha ? cat(*alpha) : "nothing");
    Adapter adapter{path.string(), Settings::Format::gguf, text("general.architecture"), {}, {}};
    add_pairs(adapter, stored_tensors(gguf), gguf_ends, [&](std::string_view, uint32_t rank) {
        return *alpha == 0 ? 1 : *alpha / rank;  // 0 stands for none in llama.cpp
    });
    adapter.tensors = std::make_shared<GatheredTensors>(std::move(files));
    return adapter;
}

}  // namespace

bool is_peft_adapter(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) return path.filename() == weights_name;
    return fs::exists(path / config_name, ignored) && !fs::exists(path / "config.json", ignored);
}

bool is_adapter(const Gguf& gguf) {
    const std::string* type = gguf.metadata.text("general.type");
    return type != nullptr && *type == "adapter";
}

Adapter open_adapter(const fs::path& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return open_peft(path);
    if (path.extension() == ".safetensors") return open_peft(path.parent_path());
    return open_gguf(path);
}

}  // namespace scoria
