// What a model is: enums and sizes, one Layer per layer. Everything the graph builder reads is on this page;
// it holds no file names and no family names. A value exists only once a fixture fails without it.
#pragma once

#include "tensors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace scoria {

enum class NormKind : uint8_t {
    rms,    // x / sqrt(mean(x^2) + eps) * w  (Zhang & Sennrich 2019)
    layer,  // (x - mean) / sqrt(variance + eps) * w + b  (Ba et al. 2016)
    // What else is made of a row by its moments, of no block:
    scale,  // x * w
    match,  // x sqrt(mean(y^2) / max(mean(x^2), eps)), y being another row
    cut,    // max(x - mean - eps sqrt(variance), 0)
};

inline constexpr const char* norm_kind_names[] = {"rms", "layer", "scale", "match", "cut"};

struct Norm {
    NormKind kind = NormKind::rms;
    float epsilon = 0;
    bool weight = true, bias = false;  // has w, has b
    bool operator==(const Norm&) const = default;
};

/// Where the norms of a block stand, f being attention or feed-forward.
enum class NormPlacement : uint8_t {
    pre,         // x + f(norm(x))
    normed,      // norm(x) + f(norm(x))
    post,        // post_norm(x + f(x))
    post_2,      // the same, but of attention post_norm_2(x + post_norm(x + f(x)))
    sandwich,    // x + post_norm(f(norm(x)))
    output,      // x + post_norm(f(x))
    parallel,    // x + attention(norm(x)) + feed_forward(norm(x)), one norm
    parallel_2,  // likewise, feed_forward with a norm of its own
};

enum class Activation : uint8_t {
    identity,      // gated: bilinear
    silu,          // x sigmoid(x)
    gelu,          // x Phi(x), by erf (Hendrycks & Gimpel 2016)
    gelu_tanh,     // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
    gelu_quick,    // x sigmoid(1.702 x)
    relu,          // max(x, 0)
    relu_squared,  // max(x, 0)^2
    sigmoid,
    elu,       // x, or e^x - 1 below 0
    selu,      // 1.0507 (x, or 1.67326 (e^x - 1) below 0)
    softplus,  // ln(1 + e^x)
    tanh,
    xielu,  // struct Xielu
};

/// How a gated product keeps gate g and up u to a limit c: min(act(g), c) u' where it is `activated`, else
/// (u' + offset) g' sigmoid(slope g') with g' = min(g, c); u' = u within [-c, c].
struct GluClamp {
    float limit = 0;  // c; 0: act(g) u
    bool activated = false;
    float slope = 1, offset = 0;
    bool operator==(const GluClamp&) const = default;
};

/// Which two elements of a head one rotation turns (Su et al. 2021).
enum class RopePairs : uint8_t {
    interleaved,  // (2i, 2i+1): GGUF files of the llama family, whose q/k rows were permuted by the converter
    halves,       // (i, i + width/2)
};
/// Where row `row` of a head of interleaved pairs, of which `width` rows rotate, stands in one of halves.
constexpr uint64_t row_of_halves(uint64_t row, uint64_t width) {
    return row < width ? row % 2 * (width / 2) + row / 2 : row;
}

/// Rotary positions. Every published scaling (linear, Llama-3, YaRN) is a choice of frequencies and a
/// magnitude, so the loader computes both and nothing later knows which it was. Two depend on the length T
/// of the sequence, for all of its positions: they hold the rule.
struct Rope {
    RopePairs pairs = RopePairs::halves;
    uint32_t width = 0;                       // leading elements of each head that rotate; even
    std::vector<double> inverse_frequencies;  // [width/2], radians per position
    double magnitude = 1;                     // multiplies cos and sin
    uint32_t short_length = 0;                // 0: one regime; else a rule applies where T > short_length
    std::vector<double> long_inverse_frequencies;  // LongRoPE (Ding et al. 2024): these instead
    double ntk_base = 0, ntk_factor = 1;  // dynamic NTK, if long_inverse_frequencies is empty: frequencies of
                                          // ntk_base (ntk_factor T / short_length - ntk_factor + 1)^(w/(w-2))
    double query_growth = 0;              // queries grow with their position, see query_length()
    uint32_t growth_length = 1;           // positions, at least 1
    uint32_t growth_offset = 0;           // added to a position
    bool operator==(const Rope&) const = default;
};

/// By what a query at `position` is multiplied: 1 + query_growth
/// ln(1 + floor((position + growth_offset) / growth_length)), the temperature of Llama 4's and Ministral 3's
/// attention. Exactly 1 without growth.
double query_length(const Rope& rope, uint64_t position);

/// The frequencies of a sequence of `length` positions.
std::vector<double> rope_frequencies(const Rope& rope, uint64_t length);

/// What is added to the score of query i and key j; weights in Role::position_bias.
enum class PositionBias : uint8_t {
    none,
    linear,  // -slope[head] |i - j|, slopes [heads] (ALiBi, Press et al. 2022)
    table,   // table[head][min(i - j, span - 1)], [heads, span] (T5 and LaMDA buckets, expanded by distance)
    table_both,  // table[head][span - 1 + clamp(j - i, 1 - span, span - 1)], [heads, 2 span - 1]: T5's
                 // encoder
    by_query,    // (W q + c) . d[min(i - j, span - 1)], before the scale, d per head: Role::distance_k, c:
                 // distance_q_bias (Transformer-XL, Dai et al. 2019, section 3.3; Shaw et al. 2018, eq. 4)
    by_pair,     // q . d[c] + k . e[c], before the scale, c the column of table_both, d and e per head: first
                 // all of d, then of e, in Role::distance_k (DeBERTa, He et al. 2021, eq. 4)
};

/// Keys j that query i sees, beside j <= i (and the window).
enum class Mask : uint8_t {
    causal,
    strided,        // (i - j) mod stride == 0 (Child et al. 2019)
    fixed_block,    // j / stride == i / stride
    fixed_summary,  // j mod stride >= stride - summary, or j == i
    strided_union,  // i - j <= stride or strided
    fixed_union,    // fixed_block or fixed_summary
    local_block,    // j >= i / stride * stride - summary (Image Transformer, Parmar et al. 2018)
    bidirectional,  // all keys; with a window, those with |i - j| < window
    prefix,         // also keys inside the prefix that comes with the sequence (Raffel et al. 2020)
    source,         // all keys of the encoder's sequence: cross-attention
    global_keys,    // |i - j| < window, and global tokens (Longformer, Beltagy et al. 2020)
    global_rows,    // all keys; only the rows of global tokens are computed
    compressed,     // j >= compressed_window(..).low (struct CompressedMemory)
    chosen,         // those that an indexer chose for i (struct Indexer)
};

/// Norm of q and k heads.
struct QkNorm {
    enum class Group : uint8_t { none, head, projection } group = Group::none;  // what one norm spans
    Norm norm;
    bool own_weights = false;  // per head: each head has weights of its own, [heads * head_dim]
    bool after_rope = false;
    bool operator==(const QkNorm&) const = default;
};

/// Multi-head latent attention (DeepSeek-V2, 2024, section 2.1) in its absorbed form. A position keeps c and
/// r: c = RMS norm of the first kv_rank rows of latent_kv x, r = the other rope_dim rows rotated, for all
/// heads. Of a q head the first rope_dim elements rotate; with t the others and A, B the head's latent_k,
/// latent_v: score = scale (A t . c + rotated . r), the head's result is B (sum of c by softmax).
struct Latent {
    uint32_t kv_rank = 0;                  // 0: ordinary attention
    uint32_t q_rank = 0;                   // q is made of the RMS norm of latent_q x; 0: of x
    uint32_t rope_dim = 0, value_dim = 0;  // per head
    float epsilon = 0;                     // of both norms
    bool bias = false;                     // latent_q and latent_kv have one
    bool operator==(const Latent&) const = default;
};

/// Which keys a query sees in sparse latent attention (DeepSeek-V3.2, 2025, section 2.1): of all before it
/// the `top` of greatest score, lower positions first among equals. A position keeps one index key k = layer
/// norm of index_k x; a query has heads q_h, index_q of the normed latent_q x, and weights w = index_weights
/// x, all q_h and k rotated: score = sum over h of w_h max(q_h . k, 0). Factors above 0 change no choice, nor
/// do orthogonal matrices of both (the published code's Hadamard matrix): they are left out.
struct Indexer {
    uint32_t heads = 0, head_dim = 0;  // 0 heads: all keys, or, `shared`, those of the layer before
    uint32_t top = 0;
    int32_t rope = 0;  // as Attention's
    bool shared = false;
    bool chooses() const { return heads != 0; }
    bool operator==(const Indexer&) const = default;
};
/// What tells the keys chosen: bit j % chosen_bits of whole number j / chosen_bits says whether key j is.
inline constexpr uint32_t chosen_bits = 16;

/// Reformer's attention (Kitaev et al. 2020): a list of positions is cut into chunks, and a query sees those
/// of its own chunk and of the chunks around it, the list being a ring. What stands there twice counts twice.
/// A sequence that no more than fills a chunk is one, and has none around it.
struct Chunks {
    uint32_t length = 0;             // positions of a chunk; 0: ordinary attention
    uint32_t before = 0, after = 0;  // chunks
    // A sequence of more than `above` positions is padded to a multiple of `multiple`; nobody sees the
    // padding.
    uint32_t multiple = 1, above = 0;
    // By hash: the list holds the sequence once per round, sorted by bucket (op::Hash). Keys are the queries,
    // normed, and the score of a position with itself is -1e5, so that it counts only where there is nothing
    // else.
    uint32_t rounds = 0;            // 0: the list is the sequence
    std::vector<uint32_t> buckets;  // factors of the number of buckets, all even
    uint32_t unfactored =
        0;  // > 0: a sequence has for_length's, `buckets` have as many columns as any of them
    bool operator==(const Chunks&) const = default;
    uint64_t padded(uint64_t tokens) const {
        return tokens > above ? (tokens + multiple - 1) / multiple * multiple : tokens;
    }
    /// With the buckets of one sequence: the largest power of two in twice as many as its chunks, as two
    /// factors where that is above `unfactored` (the published code, following Kitaev et al. 2020).
    Chunks for_length(uint64_t tokens) const;
    uint32_t bucket_count() const {
        uint32_t count = 1;
        for (const uint32_t factor : buckets) count *= factor;
        return count;
    }
    /// Columns of Role::hash_rotations per round.
    uint32_t rotated() const {
        uint32_t columns = 0;
        for (const uint32_t factor : buckets) columns += factor / 2;
        return columns;
    }
};

struct Attention {
    uint32_t heads = 0, kv_heads = 0, head_dim = 0;
    uint32_t value_dim = 0;  // of v heads that are narrower than those of q and k; 0: head_dim
    uint32_t v_head_dim() const { return value_dim ? value_dim : head_dim; }
    float scale = 1;      // multiplies q.k
    float soft_cap = 0;   // c of score = c tanh(score / c); 0: none
    float clip = 0;       // q, k and v are clamped to [-clip, clip] before they rotate; 0: not
    uint32_t window = 0;  // 0: all earlier keys; else query i sees keys > i - window
    Mask mask = Mask::causal;
    uint32_t stride = 0, summary = 0;  // of the mask
    bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
    QkNorm qk_norm;
    bool v_norm = false;  // RMS norm of each v head, without weights, of qk_norm's epsilon
    bool v_is_k = false;  // v is k as it was projected; it has a norm then
    int32_t rope = 0;     // index into Architecture::ropes; -1: no rotation
    PositionBias bias = PositionBias::none;
    uint32_t bias_span = 0;        // distances that a table, by_query or by_pair tells apart
    bool distance_q_bias = false;  // by_query's c
    bool distance_values =
        false;  // values get Role::distance_v[min(i - j, span - 1)] (Shaw et al. 2018, eq. 3)
    uint32_t bias_cols() const {  // of a head
        return bias == PositionBias::none || bias == PositionBias::linear          ? 1
               : bias == PositionBias::table_both || bias == PositionBias::by_pair ? 2 * bias_span - 1
                                                                                   : bias_span;
    }
    /// Columns of what by_query or by_pair adds: products of each token's q, and of its k; 0: neither.
    uint32_t distance_cols() const {
        return bias < PositionBias::by_query ? 0
                                             : heads * bias_cols() * (bias == PositionBias::by_pair ? 2 : 1);
    }
    enum class OutputGate : uint8_t { none, elements, heads } output_gate = OutputGate::none;
    Activation gate_activation = Activation::sigmoid;
    /// The heads' results times gate_activation(attention_gate x), of so many columns: one for each of
    /// theirs, or for each head; 0: no gate.
    uint32_t gate_columns() const {
        return output_gate == OutputGate::none
                   ? 0
                   : heads * (output_gate == OutputGate::heads ? 1 : v_head_dim());
    }
    bool sinks = false;          // one more score per head in the softmax's sum, Role::sinks
    bool heads_norm = false;     // what the heads found is normed before it is projected (Role::heads_norm)
    bool global_tokens = false;  // their rows have projections of their own, Role::global_q ... (global_keys)
    Latent latent;
    Indexer indexer = {};
    Chunks chunks = {};
    int32_t kv_layer = -1;  // the layer (cache slot) whose keys and values it reads (Brandon et al. 2024);
                            // -1: its own
    /// How many positions back a query may see, its own among them; 0: all of them, or ones ahead too.
    uint32_t reach() const;
    bool operator==(const Attention&) const = default;
};

/// A linear recurrence in place of attention: a layer remembers as much of a long sequence as of a short one.
/// x is projected to `channels()`, each of which is convolved with its own last `taps` values; what becomes
/// of these is told by the kind. Heads keep a state S [key_dim, value_dim], which the q, k, v of a token
/// change, with d = softplus(step) and a = exp(decay d), decay < 0:
enum class RecurrenceKind : uint8_t {
    none,
    convolution,  // gate * convolved(input gate * x): all a layer remembers (LFM2, Liquid AI 2025)
    delta,  // S = a S, S += beta_scale sigmoid(beta) k (v - S^T k)^T; norm(S^T q) silu(gate), q and k being
            // of length 1, q then divided by sqrt(key_dim) (Yang et al. 2024, Gated DeltaNet, eq. 10);
            // by_key: row i of S decays by an a of its own (Kimi Team 2025, Kimi Linear, eq. 1)
    state_space,  // S = a S + d k v^T; norm((S^T q + skip v) silu(gate)) (Dao & Gu 2024, Mamba-2, section 2)
    // One head, whose columns have a step each and whose cells a decay each: S = a * S + k (d v)^T;
    // (S^T q + skip v) silu(gate). v alone is convolved: k and q are W v, and the step U (W v), W of
    // step_rank rows more (Gu & Dao 2023, Mamba, algorithm 2).
    selective,
    // S = e^decay S + k v^T; norm(S^T q) sigmoid(gate), the norm over all heads; q, k and v are silu(W x),
    // and nothing is convolved (Qin et al. 2024, Lightning Attention-2, eq. 5).
    lightning,
    // RWKV-7 (Peng et al. 2025, eq. 3-22). Each of r, w, k, v, rate and gate reads a mix of x of its own,
    // x + shift (x before - x). With a = sigmoid(rate), e = erase k of length 1, d = e^(bound sigmoid(w)),
    //   S = (d S) - a e (S^T e)^T + k (1 + (a - 1) rate_scale) v^T, S^T e being of S before it decays,
    // and (norm(S^T r) + (sum of bonus r k') v) gate, k' being what stands before v. w, rate and gate are
    // U f(W x), f being tanh, nothing and sigmoid. A layer of value_rank takes v + sigmoid(U (W x)) (v of the
    // first layer - v) for v.
    wkv,
};
struct Recurrence {
    RecurrenceKind kind = RecurrenceKind::none;
    uint32_t taps = 0;
    uint32_t heads = 0, groups = 0;  // a group of heads / groups heads has its q and k in common
    uint32_t key_dim = 0, value_dim = 0;
    bool tiled = false;  // group_of()
    bool taps_bias = false;
    uint32_t step_rank = 0;                  // of selective, and of a delta rule whose steps are U (W x)
    uint32_t gate_rank = 0;                  // likewise of the gate; 0: W x, or of wkv no gate
    uint32_t rate_rank = 0, value_rank = 0;  // of wkv
    bool feed_forward_shift = false;         // what the feed-forward reads is such a mix, too (wkv)
    uint32_t shifts() const { return gate_rank ? 6 : 5; }  // mixes that wkv reads, in the order above
    Activation gate_activation = Activation::silu;         // of a delta rule, and lightning
    float beta_scale = 1;    // 2: what is left of S has negative eigenvalues, too (Grazzi et al. 2024)
    bool by_key = false;     // a head has a step for each of its keys
    float bound = 0;         // by key, below 0: a = exp(bound sigmoid(-decay step)), without softplus
    bool separate = false;   // q, k and v have matrices and taps of their own, for channels() together
    bool projected = false;  // of a state space: k, q and steps are made of v as those of selective
    enum class PartNorms : uint8_t { none, plain, weighted } part_norms = PartNorms::none;  // of its W v
    float epsilon = 0;        // of the norm: of a head, of a group's heads (state_space), of all, or of parts
    bool normed = true;       // else a state space, or wkv, leaves the norm out
    bool norm_first = false;  // it norms before it gates
    float gate_scale = 1, step_scale = 1;  // multiply what becomes the gate, and the step (state_space)
    float q_scale = 1, k_scale = 1,
          v_scale = 1;  // multiply channels that are convolved, through a folder's taps
    bool scales_channels() const { return q_scale != 1 || k_scale != 1 || v_scale != 1; }
    uint32_t width = 0;  // columns of what is projected back
    size_t group_of(size_t head) const { return tiled ? head % groups : head / (heads / groups); }
    uint32_t keys() const { return groups * key_dim; }
    bool by_column() const { return kind == RecurrenceKind::selective; }
    /// Steps pass softplus once a bias is added, and there is a skip: of state spaces and delta rules.
    bool activates_steps() const { return !by_key && kind != RecurrenceKind::lightning; }
    bool shifts_x() const { return kind == RecurrenceKind::wkv; }
    bool convolves_v_alone() const { return by_column() || projected; }
    uint32_t steps() const {
        return kind == RecurrenceKind::lightning ? 0 : by_column() ? width : by_key ? heads * key_dim : heads;
    }
    uint32_t decays() const {
        return shifts_x() ? 0 : by_column() ? width * key_dim : heads;
    }  // [width, key_dim]
    uint32_t channels() const {
        const bool all = kind != RecurrenceKind::convolution && !shifts_x() && !convolves_v_alone();
        return all ? 2 * keys() + width : width;
    }
    /// Where q, k and v begin among the channels: q, k, v or, of Mamba's, v, k, q (x, B, C).
    bool values_first() const { return kind == RecurrenceKind::state_space || by_column(); }
    uint32_t q_channel() const { return values_first() ? width + keys() : 0; }
    uint32_t k_channel() const { return values_first() ? width : keys(); }
    uint32_t v_channel() const { return values_first() ? 0 : 2 * keys(); }
    /// What is kept of a sequence: [taps - 1, channels], then S of every head, then (from fed_first on) what
    /// the feed-forward read.
    uint64_t convolved_floats() const { return taps ? uint64_t{taps - 1} * channels() : 0; }
    uint64_t scanned_floats() const { return uint64_t{heads} * key_dim * value_dim; }
    uint64_t fed_first() const { return convolved_floats() + scanned_floats(); }
    uint64_t state_floats() const { return fed_first() + (feed_forward_shift ? width : 0); }
    bool operator==(const Recurrence&) const = default;
};

/// Which experts a token goes to, and how much of each (Role::router makes a score per expert).
struct Routing {
    uint32_t experts = 0, used = 0;  // 0 experts: none
    uint32_t size = 0;               // columns of an expert
    enum class Score : uint8_t {
        softmax,         // over all experts, before the choice
        softmax_chosen,  // over the chosen
        sigmoid,
        // Of each chosen one, over itself and those not chosen before it whose score s is near its own m:
        // m - s <= margin max(|s|, m) (SparseMixer, Liu et al. 2023, as it infers)
        softmax_near,
    } score = Score::softmax;
    bool renormalise = false;   // weights divided by their sum
    float scale = 1;            // multiplies weights
    float margin = 0;           // of softmax_near
    bool scales_input = false;  // an expert sees its weight times x; what it finds is added as it is
    bool router_bias = false;   // added to the router's output
    bool choice_bias = false;   // Role::router_choice_bias counts in the choice, not in the weight
    bool weight_scale = false;  // Role::router_weight_scale multiplies weights, last
    uint32_t groups = 1, groups_used = 1;  // experts are chosen inside the best groups
    bool group_by_top2 = false;            // a group counts as the sum of its two best, else as its best
    bool bias = false;                     // expert linears have biases
    GluClamp clamp = {};
    uint32_t shared_size = 0;  // columns of the expert that all tokens pass; 0: none
    bool shared_bias = false;  // its linears have biases
    bool shared_gate = false;  // times sigmoid(shared_expert_gate x)
    // Experts and their router read the stream through norms of their own (expert_norm, and router_norm over
    // sqrt(hidden)), and what comes of them, and of the shared one, is normed before it is added.
    bool apart = false;
    bool early = false;  // the router reads the stream as it is before the layer
    bool operator==(const Routing&) const = default;
};

/// An activation that is learned (Huang & Schlag 2024): rise x^2 + x / 2, or fall (e^x - 1 - x) + x / 2 below
/// 0.
struct Xielu {
    float p = 0, n = 0;  // as files have them
    float rise() const { return float(std::log1p(std::exp(double(p)))); }
    float fall() const { return float(0.5 + std::log1p(std::exp(double(n)))); }
    bool operator==(const Xielu&) const = default;
};

struct FeedForward {
    uint32_t size = 0;  // columns between up and down; 0: experts only
    Activation activation = Activation::silu;
    Xielu xielu;        // of that activation, where there is no gate
    bool gated = true;  // down(act(gate x) * up x), else down(act(up x))
    /// n: of gate x only what is more than n deviations above its mean counts, and as by how much it is
    /// (NormKind::cut; statistical top-k, You et al. 2025). -infinity: all of it.
    float gate_cut = -std::numeric_limits<float>::infinity();
    GluClamp clamp = {};  // also of the expert that all tokens pass
    bool cuts_gate() const { return gate_cut > -std::numeric_limits<float>::infinity(); }
    bool up_first = false;  // in a tensor of both (Layout::gate_up)
    bool gate_bias = false, up_bias = false, down_bias = false;
    float gate_scale = 1;     // down(act(gate_scale gate x) * up x)
    bool inner_norm = false;  // what down sees is normed (Role::inner_norm)
    Routing routing;
    bool operator==(const FeedForward&) const = default;
};

/// What attention kernels see, and what is cached of a position: of latent attention one head of r and c, as
/// key and as value.
inline Attention kernel_attention(Attention attention) {
    if (attention.latent.kv_rank == 0) return attention;
    attention.kv_heads = 1;
    attention.head_dim = attention.latent.rope_dim + attention.latent.kv_rank;
    return attention;
}

/// Likewise what the index keys of a layer are cached as: one head of keys alone, as if of latents; 0 heads
/// where it has none.
inline Attention index_attention(const Attention& attention) {
    const Indexer& indexer = attention.indexer;
    Attention index;
    index.heads = indexer.heads;
    index.kv_heads = 1;
    index.head_dim = index.latent.kv_rank = indexer.head_dim;
    index.rope = indexer.rope;
    index.indexer = indexer;
    return index;
}

struct Layer {
    bool attention_norm = true;  // false: without the norm before attention (ModernBERT's first layer)
    Attention attention;         // 0 heads: a recurrence instead, or nothing
    Recurrence recurrence =
        {};           // beside attention, if there are both: of the same, and added likewise (Falcon-H1)
    Attention cross;  // to the encoder's output, between the two others; 0 heads: none
    FeedForward feed_forward;  // neither columns nor experts: nothing
    float attention_out = 1, recurrence_out = 1, feed_forward_out = 1;  // multiply what each adds
    float attention_residual = 1, feed_forward_residual = 1;            // multiply what those are added to
    float scale = 1;                              // multiplies the stream behind the layer
    std::optional<NormPlacement> placement = {};  // where not Architecture::placement
    bool recurs() const { return recurrence.kind != RecurrenceKind::none; }
    bool mixes() const { return attention.heads != 0 || recurs(); }
    bool feeds() const { return feed_forward.size != 0 || feed_forward.routing.experts != 0; }
    bool operator==(const Layer&) const = default;
};

/// Alternating updates (AltUp, Baykal et al. 2023): the residual stream is `count` streams side by side. A
/// layer predicts all of them from all, computes from the first one as predicted, and corrects each by what
/// that changed, by factors of a router: with m(x) = tanh(altup_router norm(x) / hidden), streams s and
/// y = block(p_0),
///   p_i = s_i + sum over j of (altup_predict m(s_0))[count i + j] s_j
///   s_i = p_i + (1 + (altup_correct m(y))[i]) (y - p_0)
/// The block adds, to its attention's residual, that of a learned low rank (Laurel, Menghani et al. 2024):
/// (attention residual + x + norm(laurel_right laurel_left x)) / sqrt(2), x being what attention sees. What
/// per-layer embeddings make of altup_scale * s_0 is added to all streams but the first. The streams begin as
/// the embedding e and altup_in e, and end as the mean of s_0 and of altup_out of the others, each as long as
/// the first (NormKind::match).
struct Alternating {
    uint32_t count = 0;   // 0: one stream, of itself
    uint32_t laurel = 0;  // rank
    bool scaled = true;   // there is altup_scale
    bool operator==(const Alternating&) const = default;
};

/// The Compressive Transformer's memory (Rae et al. 2020) by mean pooling. A segment sees itself and `memory`
/// positions before it; when it ends, those that leave are averaged by `rate` of them (a rest is dropped),
/// and the last `slots` averages are seen as if they stood right before the memory. Keys and values are
/// linear in what was averaged, so they can be averaged themselves, in the cache.
struct CompressedMemory {
    uint32_t segment = 0, memory = 0, slots = 0, rate = 1;  // 0 segment: none
    bool operator==(const CompressedMemory&) const = default;
};
/// What segment `index` sees before itself, all segments before it being whole: positions from `memory` on,
/// and `low` .. `memory` - 1, which hold averages.
struct CompressedWindow {
    uint32_t low = 0, memory = 0;
};
CompressedWindow compressed_window(const CompressedMemory& memory, uint32_t index);

/// Models that guess for another, of whose tokens each comes with what the other, the target, made of the
/// token before it (Architecture::takes).
enum class Ahead : uint8_t {
    none,
    // Multi-token prediction (DeepSeek-AI 2024, section 2.2): h being what the head read, the stream begins
    // as ahead_in of ahead_embedding_norm(embedding) and ahead_hidden_norm(h), in this order or the other.
    embedding_first,
    hidden_first,
    // EAGLE-3 (Li et al. 2025): the streams before some layers, side by side, are f; the stream begins as
    // g = ahead_in f, and attention reads [attention_norm(embedding) | ahead_hidden_norm(g)].
    features,
};
/// Of the residual streams before the layers and behind the last: instead of one, what the head reads.
inline constexpr uint32_t read_by_head = std::numeric_limits<uint32_t>::max();

struct Architecture {
    std::string family;                           // for people: "llama", "qwen3"
    uint32_t vocab = 0, hidden = 0, context = 0;  // context: the positions it was trained for
    Norm norm;                                    // of the blocks, the embedding and the output
    NormPlacement placement = NormPlacement::pre;
    float post_epsilon = 0;  // of norms behind attention and feed-forward; 0: norm's
    NormPlacement placement_of(const Layer& layer) const { return layer.placement.value_or(placement); }
    uint32_t positions = 0;  // rows of Role::position_embedding, which is added; 0: none
    /// Rows of a folder's table before those, where its family has some (Layout::positions).
    uint32_t rows_before_positions = 2;
    /// Position t adds row t / cols of Role::axial_rows, which is `width` wide, and beside it row t mod cols
    /// of Role::axial_cols.
    struct Axial {
        uint32_t rows = 0, cols = 0, width = 0;  // 0 rows: none
        bool operator==(const Axial&) const = default;
    } axial = {};
    uint32_t embedding = 0;  // columns of the token table where not `hidden` (embedding_in, embedding_out)
    /// Positions, types and the embedding's norm come before embedding_in, which has a bias, and the head's
    /// transform makes `embedding` columns, in place of embedding_out (ELECTRA, ALBERT).
    bool projects_last = false;
    uint32_t embedded() const { return projects_last ? embedding : hidden; }
    float embedding_scale = 1;  // multiplies token embeddings
    /// Columns that a table of tokens has for each layer; 0: none. With n of them, e those of layer i in
    /// (sqrt(n) table[token] + norm(projection x)) / sqrt(2), x the embedding, and the norm over each layer's
    /// columns of the projection over sqrt(hidden), layer i ends with s += post_norm(out(act(gate s) * e)).
    uint32_t per_layer = 0;
    Alternating alternating;
    /// Columns of the residual stream.
    uint32_t stream_width() const { return hidden * std::max(alternating.count, 1u); }
    uint32_t token_types = 0;     // rows of Role::token_type_embedding, which is added too; 0: none
    bool embedding_norm = false;  // after positions and types are added
    float residual_scale = 1;     // multiplies what a block adds to the stream
    bool guesses_ahead() const { return ahead != Ahead::none; }
    bool two_streams = false;  // a += attention(norm(b)), b += feed_forward(norm(a)), the output being of [a
                               // | b] (reversible layers, Gomez et al. 2017)
    uint32_t output_width() const { return two_streams ? 2 * hidden : hidden; }
    bool output_norm = true;
    uint32_t outputs = 0;  // rows of Role::output, so logits, where not `vocab` (ImageGPT); 0: vocab
    uint32_t logits() const { return !has_head ? output_width() : outputs ? outputs : vocab; }
    /// A sequence, its source, or its prefix, is computed at once.
    bool sees_ahead() const {
        return bidirectional() || !encoder.empty() || recomputes() ||
               (!layers.empty() && layers[0].attention.mask == Mask::prefix);
    }
    /// A sequence is computed anew as a whole whenever it grows: nothing is cached, since what earlier
    /// positions see may change.
    bool recomputes() const { return !layers.empty() && layers[0].attention.chunks.length != 0; }
    /// Of the first layer that has any, else of none; all that have any have the same.
    const Recurrence& recurrence() const {
        for (const Layer& layer : layers)
            if (layer.recurs()) return layer.recurrence;
        return layers.front().recurrence;
    }
    /// Layers choose the keys that are seen (struct Indexer).
    bool indexed() const {
        return std::ranges::any_of(layers, [](const Layer& l) { return l.attention.indexer.chooses(); });
    }
    /// What layers remember cannot be cut back to an earlier position.
    bool recurrent() const { return !layers.empty() && recurrence().kind != RecurrenceKind::none; }
    /// Of the first layer that has any.
    const Attention& attention() const {
        for (const Layer& layer : layers)
            if (layer.attention.heads != 0) return layer.attention;
        return layers.front().attention;
    }
    /// Of the first layer that has experts, else of none.
    const Routing& routing() const {
        for (const Layer& layer : layers)
            if (layer.feed_forward.routing.experts != 0) return layer.feed_forward.routing;
        return layers.back().feed_forward.routing;
    }
    /// Positions that tables hold; 0: any number.
    uint64_t most_positions() const { return axial.rows ? uint64_t{axial.rows} * axial.cols : positions; }
    /// An encoder: nothing is generated.
    bool bidirectional() const {
        return !layers.empty() && (layers[0].attention.mask == Mask::bidirectional ||
                                   layers[0].attention.mask == Mask::global_keys);
    }
    bool has_head = true;         // false: no logits, the result is the last hidden state
    bool head_transform = false;  // logits of norm(activation(W x + b)), Role::head (masked language models)
    bool head_bias = false;
    Activation head_activation = Activation::gelu;
    bool output_bias = false;
    bool tied_embeddings = false;  // logits = token_embedding . x
    float logit_scale = 1;         // multiplies logits
    float logit_soft_cap = 0;      // c of logits = c tanh(logits / c), after the scale; 0: none
    std::vector<Rope> ropes;
    std::vector<Layer> layers;
    /// How often the layers that have weights run, one run after the other: `layers` holds those of all runs,
    /// each of which caches its own keys. Where `norms_loops`, a run but the last ends with the output's
    /// norm.
    uint32_t loops = 1;
    bool norms_loops = false;
    size_t own_layers() const { return layers.size() / loops; }
    CompressedMemory memory;
    Ahead ahead = Ahead::none;
    /// What a model ahead takes of its target's tokens, and what the target shows of all tokens: streams by
    /// their layer, or read_by_head.
    std::vector<uint32_t> takes, shows;
    uint32_t features = 0;         // columns of what is taken, of Ahead::features
    bool features_normed = false;  // by ahead_features_norm
    bool normed_residual = false;  // what the layer's attention is added to is ahead_hidden_norm(g)
    bool shows_head() const { return std::ranges::find(shows, read_by_head) != shows.end(); }
    /// Columns that attention's projections read.
    uint32_t attended() const { return ahead == Ahead::features ? 2 * hidden : hidden; }
    // Encoder-decoders: one more stack, whose output the layers' `cross` sees. It has no head, and where its
    // vocab is 0 the decoder's token embedding.
    std::vector<Architecture> encoder;
    uint32_t source_vocab() const {
        return encoder.empty() || encoder[0].vocab == 0 ? vocab : encoder[0].vocab;
    }
    uint32_t decoder_start = 0;              // the token that the decoder's sequence begins with
    std::map<WeightRef, uint32_t> adapters;  // rank of what is added to a linear, by its weight (lora.h)
    bool operator==(const Architecture&) const = default;
};

/// What is cached, by slot: the layers' keys and values, then those of their cross-attention; at last the
/// encoder's, whose layers take turns in one slot. An encoder alone has that one only, Reformer none. Where
/// layers have indexers, their keys stand in the place of cross-attention's.
std::vector<Attention> cache_slots(const Architecture& architecture);
inline uint32_t cross_slot(const Architecture& architecture, uint32_t layer) {
    return uint32_t(architecture.layers.size()) + layer;
}
inline uint32_t index_slot(const Architecture& architecture, uint32_t layer) {
    return uint32_t(architecture.layers.size()) + layer;
}
/// The layer of a slot, where there is no encoder beside layers.
inline size_t layer_of_slot(const Architecture& architecture, size_t slot) {
    return architecture.encoder.empty() ? slot % architecture.layers.size() : slot;
}
inline uint32_t encoder_slot(const Architecture& architecture) {
    return architecture.bidirectional() ? 0 : 2 * uint32_t(architecture.layers.size());
}

}  // namespace scoria
