// What `adjust` of a family's row puts into an Architecture.
#pragma once

#include "families.h"

namespace scoria {

/// Every token sees all others.
void see_both_sides(Architecture& architecture);
/// What was read as one stack becomes the encoder, which sees all of its sequence, and a decoder of
/// `decoder_layers` such layers with cross-attention.
void add_encoder(Architecture& architecture, uint32_t decoder_layers);
/// T5's buckets (Raffel et al. 2020) in every layer, one table for all; of both directions in encoders.
void use_buckets(Architecture& architecture, uint32_t most_distance, bool both);

/// The last layers, as many as `name` says, read the keys and values of the last one before them that has a
/// window as they have, or has none. Errors: bad_file.
void share_keys(const Settings& settings, const char* name, Architecture& architecture);

/// Layers that `chunked` names see `length` positions, from the last multiple of it on.
void see_chunks(const std::vector<bool>& chunked, uint32_t length, Architecture& architecture);
/// Heads of q and k of the layers that `normed` names become of length sqrt(head_dim), after they rotated.
void norm_lengths(const std::vector<bool>& normed, Reading& reading);
/// Queries of layers that do not rotate grow with their position (struct Rope).
void grow_unrotated(double growth, uint32_t length, Architecture& architecture);

void set_scale(Architecture& architecture, double scale);
/// Makes latent attention sparse (struct Indexer): a layer chooses keys itself where `full` says so, else it
/// sees those that the layer before it saw. Index heads rotate as much of themselves as latent ones do, in
/// these pairs. Errors: those of a setting, which `names` name (heads, head_dim, top).
struct IndexerKeys {
    const char *heads, *head_dim, *top, *full;
};
void use_indexer(Reading& reading, const IndexerKeys& names, RopePairs pairs, const std::vector<bool>& full);
/// Which layers choose keys: those before `offset` and every freq-th from there on (GLM-5.2).
std::vector<bool> full_indexers(size_t layers, uint32_t freq, uint32_t offset);
/// Makes every layer's attention latent, with heads of `head_dim` elements.
void use_latent(Architecture& architecture, const Latent& latent, uint32_t head_dim);
/// Factors of embeddings, of what layers add, of logits (their divisor) and of scores, by the file's names;
/// 1, and `scale` for scores, where it has none.
struct Multipliers {
    const char *embedding, *residual, *logits, *scores;
};
void read_multipliers(Reading& reading, const Multipliers& names, double scale);

/// Columns of so many experts that all tokens pass. Errors: bad_file, naming `name`, where there are too
/// many.
uint32_t columns_of(const Settings& settings, const char* name, uint32_t experts, uint32_t size);
/// The layer gets a feed-forward of `size` columns instead of experts.
void make_dense(Layer& layer, uint32_t size);
/// So do the first `count` layers.
void make_first_dense(Architecture& architecture, uint32_t count, uint32_t size);

/// Press et al. 2022, section 3: 2^(-8 h / n), h from 1; between powers of two every second one of the next.
std::vector<float> alibi_slopes(uint32_t heads);
/// Gives every layer ALiBi instead of rotation; slopes times `scale`.
void use_alibi(Reading& reading, double scale = 1);

/// The layers run so often, as `loops` says (Nanbeige 4.2); nothing is normed between where `unnormed` is
/// true. Errors: bad_file.
void repeat_layers(const Settings& settings, const char* loops, const char* unnormed,
                   Architecture& architecture);

/// Values have a norm, queries and keys no other scale than theirs (Gemma 3n and 4).
void norm_values(Architecture& architecture);
/// What the heads found, and what down sees, is normed (BitNet b1.58, Ma et al. 2024).
void norm_inside(Architecture& architecture);
/// Sets FeedForward::gate_cut of the first layers, one number each. Errors: bad_file, naming `name`, where
/// they are more than layers, or no numbers of deviations.
void cut_gates(const Settings& settings, const char* name, std::span<const double> deviations,
               Architecture& architecture);

/// Errors: bad_file, for a made table that the field `name` makes larger than most_table.
void check_table(const Settings& settings, const char* name, uint64_t rows, uint64_t cols);

}  // namespace scoria
