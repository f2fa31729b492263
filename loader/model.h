// A model on disk, opened: its architecture, where its weights lie, its tokenizer and chat template.
// Weights are read later, by positioned reads unless a memory map is asked for; opening reads headers only.
#pragma once

#include "architecture.h"
#include "chat_template.h"
#include "file.h"
#include "ranking.h"
#include "tokenizer/tokenizer.h"

#include <filesystem>
#include <memory>
#include <span>

namespace scoria {

class TensorSource {
  public:
    virtual ~TensorSource() = default;
    /// Reads `out.size()` bytes of `tensor` from byte `first` of its data. Thread-safe. Errors: bad_file.
    virtual void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const = 0;
};

/// What 8-bit floats and NVFP4 of a folder are read as, where sizes and scales allow both:
/// TensorType::f8_e4m3 and nvfp4_s, or BF16, which GGUF has.
enum class Floats8 : uint8_t { blocks, bf16 };

/// What of the files is read: the model, or the layer that guesses the token behind the next one.
enum class ModelPart : uint8_t { whole, ahead };

struct Model {
    std::filesystem::path path;
    std::string name;  // for people: general.name, else the file's stem or the folder's name
    Architecture architecture;
    Weights weights;
    std::vector<TensorView> unused;  // tensors of the file that no role claims
    std::vector<TokenId>
        output_ids;                // of logits that are not of the ids from 0 on (Ahead::features); or empty
    bool has_other_parts = false;  // for images or sounds, which nothing computes
    uint32_t layers_ahead = 0;     // behind the last, that guess further tokens (ModelPart::ahead)
    std::shared_ptr<const TensorSource> tensors;
    std::shared_ptr<const Tokenizer> tokenizer;  // null: no vocabulary, or one of a kind not supported yet
    std::vector<TokenId> suppressed;             // below logits(); never sampled
    std::vector<TokenId>
        begins;  // below logits(); behind decoder_start, before an answer: a translator's language
    std::string tokenizer_problem;    // why tokenizer is null, for people
    Pooling pooling = Pooling::mean;  // of embeddings
    std::vector<Dense> dense;         // behind it
    std::optional<Ranking> ranking;   // of models made for it
    ChatTemplate chat_template;       // empty() if the file has none
    std::string metadata_json;  // the file's own metadata as a JSON object (long arrays cut), for `inspect`
};

/// Opens a GGUF file, or all files of a split model given any of them; or a Hugging Face folder, also by the
/// path of its config.json (or another .json of that form beside the weights). Errors: bad_file (missing,
/// truncated, lying: the message names the field), unsupported (tensor type or architecture, named).
/// With Reads::mapped a file that shrinks while the model is in use ends the process (File::map).
/// ModelPart::ahead: the layer behind the model's last that guesses the token behind the next one (enum
/// Ahead), as a model with the same vocabulary; of several the first; unsupported, where there is none.
Model open_model(const std::filesystem::path& path, Reads reads = Reads::positioned,
                 Floats8 floats8 = Floats8::blocks, ModelPart part = ModelPart::whole);

/// What the decoder of an encoder-decoder has before its answer.
std::vector<TokenId> decoder_begin(const Model& model);

/// Whether a model, opened as a whole, has a ModelPart::ahead.
bool has_layer_ahead(const Model& model);

/// A model of Ahead::features with its target's vocabulary, and its embedding where it has none; any other as
/// it is. Errors: bad_argument, where one does not fit the other.
std::shared_ptr<const Model> with_target(std::shared_ptr<const Model> draft,
                                         const std::shared_ptr<const Model>& target);

/// Only the tokenizer, from a GGUF file, tokenizer.json, SentencePiece's tokenizer.model, BERT's vocab.txt
/// (by their extensions; tokenizer_config.json beside them counts) or a folder with one. Errors as above.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace scoria
