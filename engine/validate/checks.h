// One function per op; each runs its cases on every variant the device supports and appends results.
#pragma once

#include "check.h"
#include "graph.h"
#include "ops/attention.h"
#include "ops/linear.h"

namespace scoria::validate {

void check_linear(CheckContext& context);
void check_linear_heads(CheckContext& context);  // of them, those whose rows are heads of q | k | v
void check_embed(CheckContext& context);
void check_norm(CheckContext& context);
void check_rope_cache(CheckContext& context);
void check_attention(CheckContext& context);
void check_attention_map(CheckContext& context);
void check_compress(CheckContext& context);
void check_chunk_attention(CheckContext& context);
void check_choose(CheckContext& context);
void check_convolve(CheckContext& context);
void check_shift(CheckContext& context);
void check_scan(CheckContext& context);
void check_wkv(CheckContext& context);
void check_glu(CheckContext& context);
void check_add(CheckContext& context);
void check_gate(CheckContext& context);
void check_pack(CheckContext& context);
void check_mix(CheckContext& context);
void check_map(CheckContext& context);
void check_experts(CheckContext& context);
void check_select(CheckContext& context);
void check_sample(CheckContext& context);

// One case each, of a model's shape: for self-tests (self_test.h). Of large outputs some are compared, and
// every one must have been written.

struct ModelLinear {
    uint32_t tokens, rows, cols;
    TensorType type;
    bool bias, residual, glu, activate;
    Activation activation;
    bool norm = false;
};
void check_linear(CheckContext& context, const ModelLinear& shape, const LinearVariant& variant);
struct ModelRope {
    uint32_t tokens, heads, kv_heads, head_dim, width;  // width 0: no rotation
    RopePairs pairs;
    KvType type;
    bool normed, norm_after;
    bool wraps, latent, grows;
};
/// Of a linear that makes heads of q | k | v from `first_head` on.
void check_linear_heads(CheckContext& context, const ModelLinear& shape, const ModelRope& rope,
                        uint32_t first_head, const LinearVariant& variant);
struct ModelExperts {
    ExpertShape shape;
    bool bias, glu;
    Activation activation;
};
void check_experts(CheckContext& context, const ModelExperts& shape, const LinearVariant& variant);
struct ModelAttention {
    const scoria::Attention& shape;
    KvType type;
    uint32_t tokens, first;  // first: the position of the first token
    bool wraps;              // its cache is a ring, which the first token is past the end of then
};
void check_attention(CheckContext& context, const ModelAttention& shape, const AttentionVariant& variant);
void check_embed(CheckContext& context, TensorType type, uint32_t vocab, uint32_t cols);
struct ModelNorm {
    NormKind kind;
    uint32_t rows, cols, group;
    bool own_weights, weight, bias;
};
void check_norm(CheckContext& context, const ModelNorm& shape);
void check_rope_cache(CheckContext& context, const ModelRope& shape);
void check_glu(CheckContext& context, uint32_t rows, uint32_t cols, Activation activation);
void check_add(CheckContext& context, uint32_t rows, uint32_t cols, float scale);

}  // namespace scoria::validate
