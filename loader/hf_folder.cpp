// See hf_folder.h.
#include "hf_folder.h"

#include "classifier.h"
#include "fail.h"
#include "family_attention.h"
#include "family_parts.h"
#include "feature_draft.h"
#include "file.h"
#include "hf_families.h"
#include "hf_scales.h"
#include "hf_text_part.h"
#include "layer_ahead.h"
#include "tokenizer/json.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace scoria {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t most_json_bytes = 64 << 20;  // the index of the largest model published is a few MB
constexpr const char* index_name = "model.safetensors.index.json";

struct ElementType {
    std::string_view name;
    TensorType type;  // as it is read
    Decode decode;
};
constexpr ElementType element_types[] = {
    {"F32", TensorType::f32, Decode::none},
    {"F16", TensorType::f16, Decode::none},
    {"BF16", TensorType::bf16, Decode::none},
    {"F64", TensorType::f32, Decode::f64},
    {"F8_E4M3", TensorType::bf16, Decode::f8_e4m3},
    {"F8_E5M2", TensorType::bf16, Decode::f8_e5m2},
    {"I8", TensorType::f32, Decode::i8},
    {"U8", TensorType::f32, Decode::u8},
    {"BOOL", TensorType::f32, Decode::u8},
    {"I16", TensorType::f32, Decode::i16},
    {"U16", TensorType::f32, Decode::u16},
    {"I32", TensorType::f32, Decode::i32},
    {"U32", TensorType::f32, Decode::u32},
    {"I64", TensorType::f32, Decode::i64},
    {"U64", TensorType::f32, Decode::u64},
};

struct Shards {
    std::vector<File> files;
    std::vector<StoredTensor> tensors;
};

/// `is_listed`: whether the index says that this shard has the tensor.
template <class Listed> void add_shard(Shards& shards, const fs::path& path, const Listed& is_listed) {
    const Safetensors arrays(path.string());
    const auto file = static_cast<uint32_t>(shards.files.size());
    shards.files.emplace_back(path.string());
    for (const auto& [name, array] : arrays.arrays()) {
        if (!is_listed(name))
            fail(Status::bad_file, index_name, "weight_map: ", path.filename().string(), " holds ", name,
                 ", and the map does not say so");
        shards.tensors.push_back(stored_tensor(name, array, file));
        shards.tensors.back().rename(text_part_name(name));
    }
}

/// The shards of an index, {"weight_map": {tensor: file name}}.
Shards open_shards(const fs::path& folder) {
    const nlohmann::json index =
        parse_json(read_file((folder / index_name).string(), most_json_bytes), index_name);
    const nlohmann::json& map = json_member(index, "weight_map", index_name);
    if (!map.is_object() || map.empty()) fail(Status::bad_file, index_name, "weight_map: expected an object");
    std::map<std::string, std::set<std::string, std::less<>>> names;  // of tensors, by file
    for (const auto& [tensor, file] : map.items()) {
        const std::string name = file.is_string() ? file.get<std::string>() : "";
        if (name.empty() || name != path_of(name).filename().string() || name.starts_with('.'))
            fail(Status::bad_file, index_name, "weight_map: ", tensor,
                 ": expected the name of a file in this folder, got ", file.dump().substr(0, 80));
        names[name].insert(tensor);
    }
    Shards shards;
    for (const auto& [name, tensors] : names) {
        if (!fs::exists(folder / path_of(name)))
            fail(Status::bad_file, index_name, "shard ", name, " is missing");
        const size_t before = shards.tensors.size();
        add_shard(shards, folder / path_of(name),
                  [&listed = tensors](const std::string& tensor) { return listed.contains(tensor); });
        if (shards.tensors.size() - before == tensors.size()) continue;
        for (const std::string& tensor : tensors)
            if (std::ranges::find(shards.tensors, text_part_name(tensor), &StoredTensor::name) ==
                shards.tensors.end())
                fail(Status::bad_file, index_name, "weight_map: expected ", tensor, " in ", name,
                     ", got a file without it");
    }
    return shards;
}

Shards open_tensors(const fs::path& folder) {
    if (fs::exists(folder / "model.safetensors")) {
        Shards shards;
        add_shard(shards, folder / "model.safetensors", [](const std::string&) { return true; });
        return shards;
    }
    if (fs::exists(folder / index_name)) return open_shards(folder);
    fail(Status::bad_file, folder.string(), "expected model.safetensors or ", index_name, ", got neither");
}

/// ModelOpt says in a file of its own how weights are quantised, where config.json does not.
void add_modelopt(nlohmann::json& config, const fs::path& folder) {
    constexpr const char* name = "hf_quant_config.json";
    if (!config.is_object() || config.contains("quantization_config") || !fs::exists(folder / name)) return;
    const nlohmann::json all = parse_json(read_file((folder / name).string(), most_json_bytes), name);
    nlohmann::json section = json_member(all, "quantization", name);
    if (!section.is_object()) fail(Status::bad_file, name, "quantization: expected an object");
    if (!section.contains("quant_algo") || section["quant_algo"].is_null()) return;  // the cache alone
    section["quant_method"] = "modelopt";
    config["quantization_config"] = std::move(section);
}

/// Whether two matrices are the same bytes.
bool are_equal(const StoredTensor& a, const StoredTensor& b, const GatheredTensors& tensors) {
    if (a.type != b.type || a.decode != Decode::none || b.decode != Decode::none || a.shape != b.shape ||
        a.shape.size() != 2)
        return false;
    const TensorView left = view_of(a), right = view_of(b);
    std::vector<std::byte> some(1 << 20), others(some.size());
    for (uint64_t at = 0; at < left.bytes(); at += some.size()) {
        const size_t count = size_t(std::min<uint64_t>(some.size(), left.bytes() - at));
        tensors.read(left, at, std::span(some).first(count));
        tensors.read(right, at, std::span(others).first(count));
        if (std::memcmp(some.data(), others.data(), count) != 0) return false;
    }
    return true;
}

struct ConfiguredModel {
    Architecture architecture;
    BoundWeights bound;
    std::optional<Ranking> ranking;
};

/// What transformers makes of a decoder whose config says is_causal false, as those that embed do: every
/// token sees all others.
void uncover(const Settings& config, Architecture& architecture) {
    if (architecture.bidirectional()) return;
    for (const Layer& layer : architecture.layers) {
        const Attention& attention = layer.attention;
        if (attention.heads == 0 || attention.mask != Mask::causal || attention.window != 0 ||
            attention.bias != PositionBias::none || layer.recurs() || layer.cross.heads != 0)
            fail(Status::unsupported, config.where(),
                 "is_causal: expected true where layers have a window, slopes or no attention, got false");
    }
    see_both_sides(architecture);
}

ConfiguredModel read_model(const Settings& config, Catalog& catalog, const GatheredTensors& tensors,
                           ModelPart part) {
    const Family& family =
        find_family(hugging_face_families(), config.text("model_type"), config.where(), "model_type");
    config.refuse(std::array{"compression_config"});
    // Of a model that was saved without its head all names lack what the one with it has in front.
    const bool bare = catalog.set_prefix(*family.prefix != 0 ? family.prefix : "model.");
    ConfiguredModel model{describe(family, config), {}, {}};
    Architecture& architecture = model.architecture;
    architecture.vocab = config.size(Field::vocab, most_size);
    architecture.context =
        config.size(Field::context, most_size,
                    family.context ? std::optional<uint64_t>(family.context) : std::optional<uint64_t>());
    if (family.positions) architecture.positions = architecture.context;
    for (const RopeSettings& rope : read_hugging_face_ropes(family, config, architecture))
        architecture.ropes.push_back(make_rope(rope, config.where()));
    for (const Rope& rope : architecture.ropes)  // dynamic NTK's base grows with whatever length there is
        if (rope.ntk_base > 0) architecture.context = std::max(architecture.context, no_limit);

    Synthesised synthesised;
    Reading reading{config, catalog, architecture, synthesised, tensors};
    if (family.adjust != nullptr) family.adjust(reading);
    if (!config.flag("is_causal", true)) uncover(config, architecture);
    read_layer_numbers(family, catalog, tensors, architecture);
    assign_ropes(family, config, architecture);
    set_biases(family, config, catalog, architecture);
    const auto stored = [&](Role role) -> const StoredTensor* {
        for (const std::span<const TensorRow> rows : family.tensors)
            for (const TensorRow& row : rows)
                if (const StoredTensor* found = row.role == role ? catalog.find(row.name) : nullptr)
                    return found;
        return nullptr;
    };
    const StoredTensor *output = stored(Role::output), *table = stored(Role::token_embedding);
    const bool has_output = output != nullptr;
    // As in transformers 5, a file with another output than its table says more than its config.
    const bool decides = !family.output_decides && !architecture.two_streams;
    const bool tied = config.flag("tie_word_embeddings", !has_output) &&
                      !(decides && output && table && !are_equal(*output, *table, tensors));
    architecture.tied_embeddings = !architecture.two_streams && (family.output_decides ? !has_output : tied);
    if (bare && !has_output && (!tied || architecture.bidirectional())) architecture.has_head = false;
    model.ranking = take_classifier(family, config, catalog, architecture);
    if (model.ranking && !has_output) {
        architecture.has_head = architecture.head_transform = false;
        architecture.tied_embeddings = true;
    }
    config.refuse_unknown(is_harmless_field);
    if (part == ModelPart::ahead) set_ahead(catalog, architecture);
    model.bound = bind_weights(architecture, with_rows_ahead(family.tensors), family.encoder_tensors,
                               synthesised, catalog, tensors);
    return model;
}

/// The weights of sentence-transformers' modules, each in a file of its own.
std::vector<Dense> open_dense(const fs::path& folder, const EmbeddingModules& modules,
                              std::vector<File>& files) {
    std::vector<Dense> all;
    for (const EmbeddingModules::Dense& module : modules.dense) {
        const std::string where = module.path + "/model.safetensors";
        const Safetensors arrays((folder / path_of(where)).string());
        const auto file = static_cast<uint32_t>(files.size());
        files.emplace_back((folder / path_of(where)).string());
        const auto view = [&](const std::string& name, std::vector<uint64_t> shape) {
            const auto found = arrays.arrays().find(name);
            if (found == arrays.arrays().end()) fail(Status::bad_file, where, "tensor ", name, " is missing");
            const StoredTensor tensor = stored_tensor(name, found->second, file);
            if (tensor.decode != Decode::none)
                fail(Status::unsupported, where, name, ": expected F32, F16 or BF16, got ",
                     found->second.type);
            if (tensor.shape != shape)
                fail(Status::bad_file, where, name, ": expected ", shape_text(shape), ", got ",
                     shape_text(tensor.shape));
            if (shape.size() == 1) shape.insert(shape.begin(), 1);
            return TensorView{cat(module.path, ".", name), tensor.type, uint32_t(shape[0]),
                              uint32_t(shape[1]),          file,        tensor.offset};
        };
        Dense dense{view("linear.weight", {module.out, module.in}), {}, module.activation};
        if (module.bias) dense.bias = view("linear.bias", {module.out});
        all.push_back(std::move(dense));
    }
    return all;
}

/// Each module must take what comes before it.
void check_dense(const EmbeddingModules& modules, uint32_t features) {
    for (const EmbeddingModules::Dense& module : modules.dense) {
        if (module.in != features)
            fail(Status::bad_file, module.path + "/config.json", "in_features: expected ", features, ", got ",
                 module.in);
        features = module.out;
    }
}

/// Of a decoder with sentence-transformers' LogitScore behind it.
void rank_by_answers(const std::vector<TokenId>& answers, Model& model) {
    if (answers.empty()) return;
    for (const TokenId token : answers)
        if (uint32_t(token) >= model.architecture.logits() || !model.architecture.has_head)
            fail(Status::bad_file, "modules.json", "LogitScore: expected tokens that have logits, got ",
                 token);
    model.ranking = Ranking{.tokens = answers, .odds = answers.size() == 2};
}

/// What sentence-transformers puts behind scores: by its newest file, and where older ones had it.
bool ranks_by_logistic(const nlohmann::json& config, const fs::path& folder) {
    constexpr const char* newest = "config_sentence_transformers.json";
    nlohmann::json name;
    if (fs::exists(folder / newest)) {
        const nlohmann::json own = parse_json(read_file((folder / newest).string(), most_json_bytes), newest);
        if (own.is_object()) name = own.value("activation_fn", name);
    }
    if (const auto own = config.find("sentence_transformers");
        name.is_null() && own != config.end() && own->is_object())
        name = own->value("activation_fn", name);
    if (name.is_null()) name = config.value("sbert_ce_default_activation_function", name);
    if (name.is_null()) return true;
    const std::string whole = name.is_string() ? name.get<std::string>() : name.dump();
    if (whole.ends_with(".Sigmoid")) return true;
    if (!whole.ends_with(".Identity"))
        fail(Status::unsupported, folder.filename().string(),
             "activation_fn: expected Sigmoid or Identity, got ", whole.substr(0, 80));
    return false;
}

/// tokenizer_config.json's chat_template: a text, or a list of {name, template}, of which "default" is meant.
std::string template_of(const nlohmann::json& config) {
    const auto found = config.find("chat_template");
    if (found == config.end()) return {};
    if (found->is_string()) return found->get<std::string>();
    if (!found->is_array()) return {};
    for (const nlohmann::json& each : *found)
        if (each.is_object() && each.value("name", nlohmann::json()) == "default" &&
            each.value("template", nlohmann::json()).is_string())
            return each.at("template").get<std::string>();
    return {};
}

ChatTemplate read_chat_template(const fs::path& folder, const Tokenizer* tokenizer) {
    const std::string source = chat_template_of(folder);
    if (source.empty()) return {};
    const auto text = [&](TokenId id) {
        return tokenizer == nullptr || id < 0 ? std::string() : tokenizer->piece(id, true);
    };
    return ChatTemplate(source, tokenizer ? text(tokenizer->bos()) : "",
                        tokenizer ? text(tokenizer->eos()) : "");
}

void read_tokenizer(Model& model, const fs::path& folder) {
    const auto has = [&](const char* name) { return fs::exists(folder / name); };
    if (!has("tokenizer.json") && !has("tokenizer.model") && !has("spiece.model") && !has("vocab.txt")) {
        model.tokenizer_problem = "the folder has no tokenizer";
        return;
    }
    try {
        model.tokenizer = open_tokenizer(folder);
    } catch (const Error& error) {  // as for GGUF: it still runs on token ids
        if (error.status() != Status::unsupported) throw;
        model.tokenizer_problem = error.what();
    }
}

}  // namespace

std::string chat_template_of(const fs::path& folder) {
    if (fs::exists(folder / "chat_template.jinja"))
        return read_file((folder / "chat_template.jinja").string(), most_json_bytes);
    for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {  // the first is an older form
        if (!fs::exists(folder / name)) continue;
        const std::string source =
            template_of(parse_json(read_file((folder / name).string(), most_json_bytes), name));
        if (!source.empty()) return source;
    }
    return {};
}

StoredTensor stored_tensor(const std::string& name, const SafetensorsArray& array, uint32_t file) {
    const auto type = std::ranges::find(element_types, array.type, &ElementType::name);
    if (type == std::end(element_types))
        fail(Status::unsupported, "safetensors", name, ": element type ", array.type, " is not supported");
    for (const uint64_t size : array.shape)
        if (size > std::numeric_limits<uint32_t>::max())
            fail(Status::unsupported, "safetensors", name, ": expected sizes below 2^32, got ", size);
    return {name, type->type, type->decode, array.shape, file, array.offset};
}

bool is_hugging_face_model(const fs::path& path) {
    std::error_code ignored;
    return path.extension() == ".json" || fs::is_directory(path, ignored);
}

HuggingFacePaths hugging_face_paths(const fs::path& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return {path, path / "config.json"};
    return {path.has_parent_path() ? path.parent_path() : fs::path("."), path};
}

nlohmann::json read_config(const fs::path& config) {
    std::string text = read_file(config.string(), most_json_bytes);
    constexpr std::string_view infinity = "Infinity";
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '"') quoted = !quoted;
        if (quoted && text[i] == '\\') ++i;
        if (quoted || !std::string_view(text).substr(i).starts_with(infinity)) continue;
        text.replace(i, infinity.size(), "\"Infinity\"");
        i += infinity.size() + 1;
    }
    return parse_json(text, config.filename().string());
}

std::vector<TokenId> stated_tokens(const fs::path& folder, const char* name, size_t tokens) {
    std::vector<TokenId> ids;
    for (const char* file : {"generation_config.json", "config.json"}) {
        std::error_code ignored;
        if (!fs::is_regular_file(folder / file, ignored)) continue;
        const nlohmann::json config = read_config(folder / file);
        if (!config.is_object()) fail(Status::bad_file, file, "expected an object");
        nlohmann::json stated = config.value(name, nlohmann::json());
        if (stated.is_null()) stated = text_section(config).value(name, nlohmann::json());
        if (stated.is_null()) continue;
        if (!stated.is_array()) stated = nlohmann::json::array({stated});
        for (const nlohmann::json& id : stated) {
            if (!id.is_number_integer())
                fail(Status::bad_file, file, name, ": expected an id or a list of ids, got ", id.dump());
            const int64_t token = id.get<int64_t>();
            if (token >= 0 && token < int64_t(tokens)) ids.push_back(TokenId(token));
        }
        break;
    }
    return ids;
}

Model open_hugging_face_model(const fs::path& path, Reads reads, Floats8 floats8, ModelPart part) {
    const auto [folder, config_path] = hugging_face_paths(path);
    const std::string config_name = config_path.filename().string();
    nlohmann::json json = read_config(config_path);
    add_modelopt(json, folder);
    nlohmann::json fields = text_part(json);
    const auto settings = [&] { return Settings(Settings::Format::hugging_face, config_name, "", fields); };

    Shards shards = open_tensors(folder);
    const EmbeddingModules modules = read_embedding_modules(folder);
    std::vector<Dense> dense = open_dense(folder, modules, shards.files);
    if (reads == Reads::mapped)
        for (File& file : shards.files) file.map();
    const auto tensors = std::make_shared<GatheredTensors>(std::move(shards.files));
    tensors->set_scales(join_scales(settings(), shards.tensors, *tensors));
    if (fields.is_object()) fields.erase("quantization_config");  // which knows tensors by the file's names
    if (part == ModelPart::ahead) take_folder_layer_ahead(fields, shards.tensors);
    const Settings config = settings();
    const bool features = config.text("model_type") == "eagle3";
    if (features) name_feature_draft(Settings::Format::hugging_face, shards.tensors);
    if (floats8 == Floats8::bf16)
        for (StoredTensor& tensor : shards.tensors) tensor.blocks = false;
    Catalog catalog("safetensors", std::move(shards.tensors));
    ConfiguredModel read = read_model(config, catalog, *tensors, part);
    tensors->set_recipes(std::move(read.bound.recipes));

    Model model;
    model.path = path;
    const fs::path named = fs::absolute(folder).lexically_normal();
    model.name = named.has_filename() ? named.filename().string() : named.parent_path().filename().string();
    model.architecture = std::move(read.architecture);
    model.weights = std::move(read.bound.weights);
    if (features)
        model.output_ids =
            output_ids(Settings::Format::hugging_face, catalog, *tensors, model.architecture.outputs);
    model.unused = catalog.rest();
    model.has_other_parts = has_other_parts(json);
    model.layers_ahead = config.size("num_nextn_predict_layers", most_layers, 0, 0);
    model.tensors = tensors;
    read_tokenizer(model, folder);
    model.suppressed = stated_tokens(folder, suppressed_key, model.architecture.logits());
    if (!model.architecture.encoder.empty())
        model.begins = stated_tokens(folder, "forced_bos_token_id", model.architecture.logits());
    model.chat_template = read_chat_template(folder, model.tokenizer.get());
    model.pooling =
        modules.pooling.value_or(model.architecture.bidirectional() ? Pooling::mean : Pooling::last);
    check_dense(modules, model.architecture.output_width());
    model.dense = std::move(dense);
    model.ranking = std::move(read.ranking);
    rank_by_answers(modules.answers, model);
    if (model.ranking) model.ranking->logistic = ranks_by_logistic(json, folder);
    model.metadata_json = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    return model;
}

}  // namespace scoria
