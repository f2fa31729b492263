// A tokenizer from whatever holds one: a GGUF file, the files of a Hugging Face folder, or the folder.
#include "model.h"

#include "fail.h"
#include "file.h"
#include "gguf_split.h"
#include "hf_folder.h"
#include "tokenizer/json.h"
#include "tokenizer/sources.h"
#include "tokenizer/vocabulary.h"

namespace scoria {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t most_bytes = 256 << 20;  // several times the largest tokenizer.json published

bool is_lowercase(const std::string& config) {
    return config.empty() || json_field(parse_json(config, "tokenizer_config.json"), "do_lower_case", true,
                                        "tokenizer_config.json");
}

/// The tokens that end an answer as the model beside a tokenizer says: an id or several, of
/// generation_config.json, or where that says nothing of config.json.
void add_stated_ends(Pipeline& pipeline, const fs::path& folder) {
    for (const char* name : {"generation_config.json", "config.json"}) {
        std::error_code ignored;
        if (!fs::is_regular_file(folder / name, ignored)) continue;
        const nlohmann::json config = read_config(folder / name);
        nlohmann::json stated = config.value("eos_token_id", nlohmann::json());
        const auto text = config.find("text_config");
        if (stated.is_null() && text != config.end() && text->is_object())
            stated = text->value("eos_token_id", nlohmann::json());
        if (stated.is_null()) continue;
        if (!stated.is_array()) stated = nlohmann::json::array({stated});
        for (const nlohmann::json& id : stated) {
            if (!id.is_number_integer())
                fail(Status::bad_file, name, "eos_token_id: expected an id or a list of ids, got ",
                     id.dump());
            const int64_t end = id.get<int64_t>();
            if (end >= 0 && end < int64_t(pipeline.tokens.size())) pipeline.ends.push_back(TokenId(end));
        }
        return;
    }
}

bool is_gguf(const fs::path& path) {
    const File file(path.string());
    char magic[4] = {};
    if (file.size() >= sizeof magic) file.read(0, std::as_writable_bytes(std::span(magic)));
    return std::string_view(magic, 4) == "GGUF";
}

}  // namespace

std::shared_ptr<const Tokenizer> open_tokenizer(const fs::path& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
        for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt"})
            if (fs::exists(path / name, ignored)) return open_tokenizer(path / name);
        fail(Status::bad_file, path.string(),
             "expected tokenizer.json, tokenizer.model or vocab.txt, got none");
    }
    const std::string extension = path.extension().string();
    const bool known = extension == ".json" || extension == ".model" || extension == ".txt";
    if (!known || is_gguf(path))
        return naming_file(path.string(), [&] {
            return make_tokenizer(read_vocabulary(open_gguf_files(path).gguf.metadata));
        });

    const std::string bytes = read_file(path.string(), most_bytes);
    const fs::path beside = path.parent_path() / "tokenizer_config.json";
    const std::string config =
        fs::exists(beside, ignored) ? read_file(beside.string(), most_bytes) : std::string();
    Pipeline pipeline = extension == ".json"    ? read_tokenizer_json(bytes)
                        : extension == ".model" ? read_sentencepiece(bytes)
                                                : read_vocab_txt(bytes, is_lowercase(config));
    if (!config.empty()) apply_tokenizer_config(pipeline, config);
    add_stated_ends(pipeline, path.parent_path());
    return make_tokenizer(std::move(pipeline), path.filename().string());
}

}  // namespace scoria
