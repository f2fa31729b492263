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

    const fs::path model = path.parent_path() / "config.json";
    if (extension == ".model" && fs::exists(model, ignored) &&
        json_field(read_config(model), "model_type", std::string(), model.string()) == "pegasus")
        fail(Status::unsupported, path.string(),
             "expected tokenizer.json: Pegasus' ids are not those of its SentencePiece model");
    const std::string bytes = read_file(path.string(), most_bytes);
    const fs::path beside = path.parent_path() / "tokenizer_config.json";
    const std::string config =
        fs::exists(beside, ignored) ? read_file(beside.string(), most_bytes) : std::string();
    Pipeline pipeline = extension == ".json"    ? read_tokenizer_json(bytes)
                        : extension == ".model" ? read_sentencepiece(bytes)
                                                : read_vocab_txt(bytes, is_lowercase(config));
    if (!config.empty()) apply_tokenizer_config(pipeline, config);
    for (const TokenId end : stated_tokens(path.parent_path(), "eos_token_id", pipeline.tokens.size()))
        pipeline.ends.push_back(end);
    return make_tokenizer(std::move(pipeline), path.filename().string());
}

}  // namespace scoria
