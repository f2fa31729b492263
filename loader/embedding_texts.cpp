// See embedding_texts.h.
#include "embedding_texts.h"

#include "fail.h"
#include "file.h"
#include "hf_folder.h"
#include "tokenizer/json.h"
#include "tokenizer/normalizer.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

namespace fs = std::filesystem;

/// null where there is no such file.
nlohmann::json read_small(const fs::path& folder, const char* name) {
    constexpr uint64_t most_bytes = 64 << 20;  // tokenizer_config.json lists every added token
    if (!fs::exists(folder / path_of(name))) return nullptr;
    return parse_json(read_file((folder / path_of(name)).string(), most_bytes), name);
}

/// None if it is absent, or so large a number that it stands for none: 10^30, as transformers writes it.
std::optional<uint32_t> read_most_tokens(const nlohmann::json& config, const char* key, const char* where) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) return {};
    const double value = found->is_number() ? found->get<double>() : 0;
    if (value < 1 || value != std::floor(value))
        fail(Status::bad_file, where, key, ": expected a whole number from 1 on, got ",
             found->dump().substr(0, 80));
    if (value > UINT32_MAX) return {};
    return uint32_t(value);
}

void read_prompts(const nlohmann::json& config, const char* where, EmbeddingTexts& texts) {
    if (!config.is_object()) fail(Status::bad_file, where, "expected an object");
    const auto found = config.find("prompts");
    const nlohmann::json prompts =
        found == config.end() || found->is_null() ? nlohmann::json::object() : *found;
    if (!prompts.is_object()) fail(Status::bad_file, where, "prompts: expected an object");
    for (const auto& [name, prompt] : prompts.items()) {
        if (!prompt.is_string()) fail(Status::bad_file, where, "prompts: ", name, ": expected a text");
        texts.prompts[name] = prompt.get<std::string>();
    }
    texts.usual = json_field(config, "default_prompt_name", std::string(), where);
    if (!texts.usual.empty() && !texts.prompts.contains(texts.usual))
        fail(Status::bad_file, where, "default_prompt_name: expected the name of one of prompts, got ",
             texts.usual);
}

/// Of sentence_bert_config.json, from its releases with rerankers of decoders on.
void read_message_form(const nlohmann::json& config, EmbeddingTexts& texts) {
    const auto at = [&](const char* pointer) {
        const nlohmann::json::json_pointer place(pointer);
        return config.contains(place) ? config.at(place) : nlohmann::json();
    };
    texts.pairs_as_messages = at("/modality_config/message").is_object();
    texts.in_parts = at("/modality_config/message/format") == "structured";
    texts.add_generation_prompt = at("/processing_kwargs/chat_template/add_generation_prompt") == true;
}

}  // namespace

std::string EmbeddingTexts::prompt_text(const std::optional<std::string>& name) const {
    const std::string& asked = name ? *name : usual;
    if (asked.empty()) return {};
    const auto found = prompts.find(asked);
    if (found != prompts.end()) return found->second;
    std::string known;
    for (const auto& [each, ignored] : prompts) known += cat(known.empty() ? "" : ", ", each);
    fail(Status::bad_argument, "prompt", "expected ",
         known.empty() ? "none, as the model has no prompts" : "one of " + known, ", got ", asked);
}

std::string EmbeddingTexts::prepared(const std::string& text,
                                     const std::optional<std::string>& prompt) const {
    const std::string before = prompt_text(prompt);
    if (!pools_prompt && !before.empty())
        fail(Status::unsupported, "1_Pooling/config.json",
             "include_prompt: expected true, as prompts are pooled with their texts");
    const std::string whole = before + text;
    if (!lowercase) return whole;
    std::vector<NormalizerStep> steps;
    steps.emplace_back(Lowercase{});
    return normalize(steps, whole);
}

EmbeddingTexts::Encoded EmbeddingTexts::encoded(const Tokenizer& tokenizer, const std::string& text,
                                                const std::optional<std::string>& prompt) const {
    Encoded all{tokenizer.encode(prepared(text, prompt), {.add_special = true, .parse_special = false}),
                false};
    all.was_cut = most_tokens && all.ids.size() > *most_tokens;
    if (all.was_cut) cut(all.ids, frame_of(tokenizer), *most_tokens, cuts_front);
    return all;
}

std::vector<TokenId> frame_of(const Tokenizer& tokenizer) {
    return tokenizer.encode("", {.add_special = true, .parse_special = false});
}

EmbeddingTexts embedding_texts_of(const Model& model) {
    return is_hugging_face_model(model.path) ? read_embedding_texts(hugging_face_paths(model.path).folder)
                                             : EmbeddingTexts();
}

EmbeddingTexts read_embedding_texts(const fs::path& folder) {
    EmbeddingTexts texts;
    const char *prompts = "config_sentence_transformers.json", *pooling = "1_Pooling/config.json";
    if (const nlohmann::json config = read_small(folder, prompts); !config.is_null())
        read_prompts(config, prompts, texts);
    if (const nlohmann::json config = read_small(folder, pooling); !config.is_null())
        texts.pools_prompt = json_field(config, "include_prompt", true, pooling);
    // Named by the kind of model once.
    for (const char* name :
         {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
          "sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
          "sentence_xlnet_config.json"})
        if (const nlohmann::json config = read_small(folder, name); !config.is_null()) {
            texts.lowercase = json_field(config, "do_lower_case", false, name);
            texts.most_tokens = read_most_tokens(config, "max_seq_length", name);
            read_message_form(config, texts);
            break;
        }
    const char* tokens = "tokenizer_config.json";
    if (const nlohmann::json config = read_small(folder, tokens); !config.is_null()) {
        if (!texts.most_tokens) texts.most_tokens = read_most_tokens(config, "model_max_length", tokens);
        texts.cuts_front = json_field(config, "truncation_side", std::string("right"), tokens) == "left";
    }
    return texts;
}

void cut(std::vector<TokenId>& ids, std::span<const TokenId> frame, size_t most, bool front) {
    if (ids.size() <= most) return;
    const auto before = std::ranges::mismatch(ids, frame).in2 - frame.begin();
    const auto after = std::ptrdiff_t(frame.size()) - before;
    const auto surplus = std::ptrdiff_t(std::min(ids.size() - most, ids.size() - frame.size()));
    const auto first = front ? ids.begin() + before : ids.end() - after - surplus;
    ids.erase(first, first + surplus);
}

}  // namespace scoria
