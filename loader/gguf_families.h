// GGUF files: the families by general.architecture, and how metadata becomes an Architecture.
#pragma once

#include "families.h"
#include "gguf.h"
#include "ranking.h"

namespace scoria {

struct ReadModel {
    Architecture architecture;
    Pooling pooling = Pooling::mean;
    std::vector<Dense> dense;
    std::optional<Ranking> ranking;
    BoundWeights bound;
    std::vector<Scales> scales;  // of the recipes
    std::vector<TensorView> unused;
    uint32_t layers_ahead = 0;  // Model, as the next
    std::vector<TokenId> output_ids;
};

std::span<const Family> gguf_families();
// Its parts.
std::span<const Family> gguf_decoder_families();
std::span<const Family> gguf_gpt_families();
std::span<const Family> gguf_expert_families();
std::span<const Family> gguf_latent_families();
std::span<const Family> gguf_encoder_families();
std::span<const Family> gguf_recurrent_families();

namespace gguf {
// Tensor names that families share.
extern const std::span<const TensorRow> common, experts, fused_gate_up, post_attention_norm, latent;

/// DeepSeek's keys of experts, which others took over; scores by sigmoid where the file does not say.
void read_routing(Reading& reading, bool by_sigmoid);
/// Latent attention; the keys of a head's sizes. Errors: bad_file, where there is no `value` key and no
/// size otherwise.
struct LatentKeys {
    const char *key, *value;
};
void read_latent(Reading& reading, const LatentKeys& names, std::optional<uint32_t> value_dim);
/// ALiBi in place of rotations.
void adjust_alibi(Reading& reading);
/// Granite's multipliers.
void adjust_granite(Reading& reading);
/// Keys of images' positions: in a text all axes have the same one, so that rotations are the usual.
void read_past_axes(Reading& reading);
/// Limits of activated gates and of ups, of experts and of what all tokens pass, where the file has any.
void read_clamps(Reading& reading);
}  // namespace gguf

/// The file's tensors. Errors: unsupported, for a type that this build cannot read.
std::vector<StoredTensor> stored_tensors(const Gguf& gguf);

/// `tensors` is asked only for small tensors that hold hyperparameters (frequencies). Errors: unsupported,
/// naming the architecture, the key or the tensor type; bad_file, naming the key or the tensor, when a size
/// is missing, out of range or contradicts a shape.
/// Of the part of the model that is asked for.
ReadModel read_architecture(const Gguf& gguf, const GatheredTensors& tensors,
                            ModelPart part = ModelPart::whole);

}  // namespace scoria
