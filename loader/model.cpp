// Puts the parts of an opened GGUF file together.
#include "model.h"

#include "fail.h"
#include "families.h"
#include "gguf.h"
#include "tokenizer/vocabulary.h"

#include <utility>

namespace scoria {
namespace {

class FileTensors final : public TensorSource {
  public:
    explicit FileTensors(File file) : file_(std::move(file)) {}
    const File& file() const { return file_; }

    void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const override {
        const uint64_t bytes = tensor.bytes();
        if (tensor.file != 0 || first > bytes || out.size() > bytes - first) {
            fail(Status::bad_argument, "tensor", tensor.name, ": expected a range inside ", bytes,
                 " bytes, got ", out.size(), " at ", first);
        }
        file_.read(tensor.offset + first, out);
    }

  private:
    File file_;
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
    const auto tensors = std::make_shared<const FileTensors>(File(path.string()));
    const Gguf gguf = read_gguf(tensors->file());
    if (gguf.metadata.integer("split.count").value_or(1) > 1) {
        fail(Status::unsupported, "gguf", "split.count: expected a model in one file, got ",
             *gguf.metadata.integer("split.count"));
    }
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
