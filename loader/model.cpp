// Puts the parts of an opened model together.
#include "model.h"

#include "fail.h"
#include "families.h"
#include "gguf_split.h"
#include "tokenizer/vocabulary.h"

#include <utility>

namespace scoria {
namespace {

class FileTensors final : public TensorSource {
  public:
    explicit FileTensors(std::vector<File> files) : files_(std::move(files)) {}

    void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const override {
        const uint64_t bytes = tensor.bytes();
        if (tensor.file >= files_.size() || first > bytes || out.size() > bytes - first) {
            fail(Status::bad_argument, "tensor", tensor.name, ": expected a range inside ", bytes,
                 " bytes, got ", out.size(), " at ", first);
        }
        files_[tensor.file].read(tensor.offset + first, out);
    }

  private:
    std::vector<File> files_;
};

ChatTemplate read_chat_template(const GgufMetadata& metadata, const Tokenizer* tokenizer) {
    const std::string* source = metadata.text("tokenizer.chat_template");
    if (source == nullptr) return {};
    const auto text = [&](TokenId id) {
        return tokenizer == nullptr || id < 0 ? std::string() : tokenizer->piece(id, true);
    };
    return ChatTemplate(*source, tokenizer ? text(tokenizer->bos()) : "",
                        tokenizer ? text(tokenizer->eos()) : "");
}

}  // namespace

Model open_model(const std::filesystem::path& path) {
    GgufFiles opened = open_gguf_files(path);
    const Gguf gguf = std::move(opened.gguf);
    const auto tensors = std::make_shared<const FileTensors>(std::move(opened.files));
    ReadModel read = read_architecture(gguf, *tensors);

    Model model;
    model.path = path;
    const std::string* name = gguf.metadata.text("general.name");
    model.name = name != nullptr ? *name : path.stem().string();
    model.architecture = std::move(read.architecture);
    model.weights = std::move(read.weights);
    model.unused = std::move(read.unused);
    model.tensors = tensors;
    try {
        model.tokenizer = make_tokenizer(read_vocabulary(gguf.metadata));
    } catch (const Error& error) {
        // A model without a usable vocabulary still runs on token ids; a lying one is refused.
        if (error.status() != Status::unsupported) throw;
        model.tokenizer_problem = error.what();
    }
    model.chat_template = read_chat_template(gguf.metadata, model.tokenizer.get());
    model.metadata_json = gguf.metadata.json();
    return model;
}

}  // namespace scoria
