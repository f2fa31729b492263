// Model families as data. A row says what a family computes where its file does not, which tensors hold its
// weights, and leaves to `adjust` what no other family has. A new family of a known shape is one row of the
// tables in hf_families.cpp (Hugging Face folders) or gguf_families.cpp.
#pragma once

#include "binding.h"
#include "position_tables.h"
#include "settings.h"

#include <array>
#include <span>

namespace scoria {

/// Whether a linear has a bias.
struct Bias {
    enum class When : uint8_t { never, always, flag, present } when = When::never;
    const char* key = nullptr;  // of the flag
    bool otherwise = false;     // where the file has no such flag
};
inline constexpr Bias biased{Bias::When::always};
inline constexpr Bias if_present{Bias::When::present};  // if the tensor is there
constexpr Bias by_flag(const char* key, bool otherwise) { return {Bias::When::flag, key, otherwise}; }

/// Which layers have the window, if the file names no types of layers.
struct WindowRule {
    enum class Layers : uint8_t {
        none,
        all,
        not_every,   // every `every`-th layer sees all
        from,        // max_window_layers on
        odd_before,  // the first, third, ... of those before max_window_layers
        unrotated,
        chunked,  // none: those that rotate see their own chunk of the sequence (see_chunks)
        indexed,  // none: all see what an indexer chooses (use_indexer)
    } layers = Layers::none;
    uint32_t every = 0;
    const char* flag = nullptr;  // the window counts only if this is true
    uint32_t first = 28;         // max_window_layers, where the file has none: as Qwen's classes
    uint32_t otherwise = 0;      // its positions, where the file says nothing (null: there is none)
};

/// A model while it is read; a family's row may change what is described, beyond the fields of Family.
struct Reading {
    const Settings& settings;
    Catalog& catalog;
    Architecture& architecture;  // ropes and layers are there; which rope a layer has, biases, ties are not
    Synthesised& synthesised;
    const GatheredTensors& source;  // of the catalog's tensors
};
using Adjust = void (*)(Reading& reading);
/// Whether the layer has the tensor, or any does, '#' standing for its number.
bool layer_has(const Reading& reading, std::string_view tensor, size_t layer);
bool any_layer_has(const Reading& reading, std::string_view tensor);

/// A tensor of one number that layers may have, '#' standing for the layer.
struct LayerNumber {
    const char* tensor;
    float& (*place)(Layer& layer);
    bool (*needed)(const Layer& layer) = nullptr;  // null: the layer's own otherwise
};
inline float& scale_of(Layer& layer) { return layer.scale; }

struct ClassifierForm;

struct Family {
    const char* name;                                   // model_type or general.architecture
    std::array<std::span<const TensorRow>, 7> tensors;  // of a role in several, the first that the file has
    std::array<std::span<const TensorRow>, 1> encoder_tensors = {};  // of an encoder-decoder's encoder
    const char* prefix = "";                                         // some files leave it out of all names
    uint32_t context = 0;                                            // where the file names none; 0: it must

    NormKind norm = NormKind::rms;
    bool norm_weight = true, norm_bias = false;
    double epsilon = 0;  // 0: the file's
    NormPlacement placement = NormPlacement::pre;
    bool output_norm = true;

    Bias qkv_bias = {}, o_bias = {};
    QkNorm::Group qk_norm = QkNorm::Group::none;
    bool qk_norm_after_rope = false;
    bool clips = false;        // has Field::clip
    bool split_heads = false;  // heads of layers with a window and of those without may differ

    bool rope = true;
    RopePairs pairs = RopePairs::halves;
    double rope_base = 10000,
           local_rope_base = 0;          // where the file names none; local > 0: windowed layers differ
    const char* rope_parameters = "{}";  // JSON, where the file has none
    double rotary = 1;                   // share of a head that rotates, where the file names none
    bool rotates_part = false;           // if the file says so; so do those of another share than 1
    bool rotates_whole = false;          // whatever rope.dimension_count says (GGUF)
    double full_rotary = 1;              // share of it that does in layers without a window (GGUF)
    enum class FullLayers : uint8_t {
        rotate,
        rest,
        rest_beside_windows,  // but rotate where the file names no window
    } full_layers = FullLayers::rotate;
    bool dense_rotate = false;   // layers without experts rotate, whatever full_layers says
    uint32_t no_rope_every = 0;  // every n-th layer does not rotate, where the file does not say
    bool rope_by_layer = false;  // layers may have bases of their own: layer_rope_theta

    WindowRule window = {};

    Activation activation = Activation::silu;  // where the file names none
    bool gated = true;
    bool gelu_is_tanh = false;         // "gelu" means the tanh form
    uint32_t feed_forward_factor = 0;  // size = hidden times this, where the file has none
    Bias feed_forward_bias = {};
    const Routing* routing = nullptr;  // may have experts, of this kind

    bool positions = false;  // learned
    bool embedding_norm = false, root_embedding_scale = false;
    std::span<const LayerNumber> layer_numbers = {};
    Bias output_bias = {};
    bool output_decides = false;  // tied if there is no output tensor, whatever tie_word_embeddings says

    RecurrenceKind recurrence = RecurrenceKind::none;  // of some layers, which `adjust` makes
    bool recurs_beside = false;                        // attention, in every layer
    bool recurs_alone = false;                         // no attention in any layer

    bool feeds = false;  // recurs_alone: there is a feed-forward all the same

    const ClassifierForm* classifier = nullptr;  // null: as the others of its kind

    Adjust adjust = nullptr;
};

/// The tensor of Layer::scale; null: the family has none.
inline const char* scale_tensor(const Family& family) {
    for (const LayerNumber& number : family.layer_numbers)
        if (number.place == scale_of) return number.tensor;
    return nullptr;
}

constexpr uint64_t most_layers = 4096;  // caps that keep every later product far below 2^64
constexpr uint64_t most_size = 1 << 28;
constexpr uint64_t most_streams = 16;   // a lane of mix.comp holds one number of each
constexpr uint32_t no_limit = 1 << 20;  // as a context: positions go on

/// The row of that name. Errors: unsupported, naming all families and the nearest.
const Family& find_family(std::span<const Family> families, const std::string& name, const std::string& where,
                          std::string_view key);

/// All that the settings say, but positions (ropes), biases and ties.
Architecture describe(const Family& family, const Settings& settings);

/// The activation of that name. Errors: unsupported, naming all.
Activation activation_named(const Settings& settings, const char* field, const std::string& name);

/// Sets what the family's layer_numbers say, where the file has them. Errors: bad_file.
void read_layer_numbers(const Family& family, Catalog& catalog, const GatheredTensors& tensors,
                        Architecture& architecture);

/// Sets the bias fields by the family's rules.
void set_biases(const Family& family, const Settings& settings, const Catalog& catalog,
                Architecture& architecture);

}  // namespace scoria
