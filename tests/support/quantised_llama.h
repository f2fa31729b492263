// A llama of quantised weights, random blocks of any types.
#pragma once

#include "fail.h"
#include "loader/gguf_builder.h"
#include "validate/weight_check.h"

#include <span>

namespace scoria::test {

/// Types of a layer's matrices.
struct Mix {
    TensorType q, k, v, o, gate, up, down;
};
inline Mix all_of(TensorType type) { return {type, type, type, type, type, type, type}; }

inline void add_random(GgufFile& file, const std::string& name, TensorType type, uint32_t rows,
                       uint32_t cols) {
    const std::vector<std::byte> blocks = validate::random_blocks(type, rows, cols, file.tensors.size());
    file.tensors[name] = {{cols, rows},
                          static_cast<uint32_t>(type),
                          std::string(reinterpret_cast<const char*>(blocks.data()), blocks.size())};
}

/// A llama with a layer per mix.
inline GgufFile quantised_llama(std::span<const Mix> mixes, TensorType embedding, TensorType output,
                                uint32_t hidden = 256, uint32_t vocab = 100) {
    const uint32_t kv = hidden / 2, size = 512;
    GgufFile file;
    file.metadata = {
        {"general.architecture", "llama"},     {"llama.block_count", static_cast<uint32_t>(mixes.size())},
        {"llama.context_length", 64u},         {"llama.embedding_length", hidden},
        {"llama.feed_forward_length", size},   {"llama.attention.head_count", 4u},
        {"llama.attention.head_count_kv", 2u}, {"llama.attention.layer_norm_rms_epsilon", 1e-5f},
        {"llama.rope.freq_base", 10000.0f},
    };
    add_random(file, "token_embd.weight", embedding, vocab, hidden);
    add_random(file, "output.weight", output, vocab, hidden);
    file.add("output_norm.weight", {hidden}, 1.0f);
    for (size_t i = 0; i < mixes.size(); ++i) {
        const Mix& mix = mixes[i];
        const std::string layer = cat("blk.", i, ".");
        for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"})
            file.add(layer + norm, {hidden}, 1.0f);
        add_random(file, layer + "attn_q.weight", mix.q, hidden, hidden);
        add_random(file, layer + "attn_k.weight", mix.k, kv, hidden);
        add_random(file, layer + "attn_v.weight", mix.v, kv, hidden);
        add_random(file, layer + "attn_output.weight", mix.o, hidden, hidden);
        add_random(file, layer + "ffn_gate.weight", mix.gate, size, hidden);
        add_random(file, layer + "ffn_up.weight", mix.up, size, hidden);
        add_random(file, layer + "ffn_down.weight", mix.down, hidden, size);
    }
    return file;
}

/// With mixes as files have them.
inline GgufFile mixed_llama() {
    using enum TensorType;
    constexpr Mix mixes[] = {{q4_k, q4_k, q6_k, q4_k, q4_k, q4_k, q6_k},
                             {iq2_xxs, iq2_xxs, q4_k, iq2_s, iq2_xxs, iq2_xxs, q2_k}};
    return quantised_llama(mixes, q6_k, q4_k);
}

}  // namespace scoria::test
