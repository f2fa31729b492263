#!/usr/bin/env python3
"""Writes made_embedders.jsonl, tiny models that make embeddings and are not in made_models.jsonl: folders with the
modules of sentence-transformers, and families that transformers has no class of, computed here in float64 as the code
published with them does. Tensors are those of made_models.py. pip install torch transformers; made_embedders.py OUT"""
import json, math, sys
import numpy as np, torch, transformers
from made_models import values

HIDDEN, HEADS, LAYERS, INNER, VOCAB, EPSILON = 48, 3, 3, 40, 64, 0.02
IDS = [(7 * i * i + 3 * i + 5) % 59 + 5 for i in range(14)]
BERT = dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
            max_position_embeddings=64, type_vocab_size=2, layer_norm_eps=EPSILON, hidden_act="gelu", pad_token_id=0)


class Tensors(dict):
    """Made when asked for, under names in which parts are replaced."""
    def __init__(self, replaced={}):
        self.replaced = replaced
    def __call__(self, name, *shape):
        name = renamed(name, self.replaced)
        self[name] = list(shape)
        return values(name, shape).astype(np.float64)
    def linear(self, name, x, rows, bias=True):
        return x @ self(name + ".weight", rows, x.shape[-1]).T + (self(name + ".bias", rows) if bias else 0)
    def norm(self, name, x):
        size = x.shape[-1]
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt(x.var(-1, keepdims=True) + EPSILON) * self(name + ".weight", size) + self(name + ".bias", size)
    def rms(self, name, x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * self(name + ".weight", x.shape[-1])


def renamed(name, replaced):
    for a, b in replaced.items():
        name = name.replace(a, b)
    return name


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
def gelu(x): return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
def silu(x): return x / (1 + np.exp(-x))
def heads(x): return x.reshape(len(x), HEADS, -1)
def turned(x, base, neighbours, slower=1):
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None, None] * base ** (-np.arange(half) / half) / slower
    a, b = (x[..., ::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
    pair = a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)
    return np.stack(pair, -1).reshape(x.shape) if neighbours else np.concatenate(pair, -1)
def attend(q, k, v, bias=0):
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1]) + bias
    return np.einsum("hij,jhd->ihd", softmax(scores), v).reshape(len(q), -1)


def jina_bert_v2(code):
    """modeling_bert.py beside jina-embeddings-v2-base-en and, with norms of its own, -code: ALiBi of both sides."""
    t, n = Tensors(), len(IDS)
    slopes = np.array([2.0 ** -4, 2.0 ** -8, 2.0 ** -2])  # of 3 heads
    alibi = -slopes[:, None, None] * abs(np.arange(n)[:, None] - np.arange(n))
    x = t("embeddings.word_embeddings.weight", VOCAB, HIDDEN)[IDS] + t("embeddings.token_type_embeddings.weight", 2, HIDDEN)[0]
    x = t.norm("embeddings.LayerNorm", x)
    for i in range(LAYERS):
        p = f"encoder.layer.{i}."
        q, k, v = (t.linear(p + f"attention.self.{name}", x, HIDDEN) for name in ("query", "key", "value"))
        if code:
            q, k = t.norm(p + "attention.self.layer_norm_q", q), t.norm(p + "attention.self.layer_norm_k", k)
        y = t.linear(p + "attention.output.dense", attend(heads(q), heads(k), heads(v), alibi), HIDDEN)
        y = t.norm(p + "attention.output.LayerNorm", x + y)
        if code:
            y = t.norm(p + "layer_norm_1", x + y)
            up, gate = np.split(t.linear(p + "mlp.up_gated_layer", y, 2 * INNER, False), 2, -1)
            x = t.norm(p + "layer_norm_2", y + t.linear(p + "mlp.down_layer", up * gelu(gate), HIDDEN))
        else:
            gate, up = np.split(t.linear(p + "mlp.gated_layers", y, 2 * INNER, False), 2, -1)
            x = t.norm(p + "mlp.layernorm", y + t.linear(p + "mlp.wo", gelu(gate) * up, HIDDEN))
    return BERT | dict(model_type="bert", position_embedding_type="alibi", feed_forward_type="geglu", emb_pooler="mean"), t, x


def gte():
    """modeling.py beside Alibaba-NLP/gte-multilingual-base: a scaling of RoPE of its own, up before gate."""
    t, base, factor = Tensors(), 100.0, 8.0
    x = t("new.embeddings.word_embeddings.weight", VOCAB, HIDDEN)[IDS] + t("new.embeddings.token_type_embeddings.weight", 1, HIDDEN)[0]
    x = t.norm("new.embeddings.LayerNorm", x)
    def rotated(x):
        return turned(x, base * factor, False, factor ** (2 / x.shape[-1]))
    for i in range(LAYERS):
        p = f"new.encoder.layer.{i}."
        q, k, v = (heads(y) for y in np.split(t.linear(p + "attention.qkv_proj", x, 3 * HIDDEN), 3, -1))
        x = t.norm(p + "attn_ln", x + t.linear(p + "attention.o_proj", attend(rotated(q), rotated(k), v), HIDDEN))
        up, gate = np.split(t.linear(p + "mlp.up_gate_proj", x, 2 * INNER, False), 2, -1)
        x = t.norm(p + "mlp_ln", x + t.linear(p + "mlp.down_proj", gelu(gate) * up, HIDDEN))
    config = dict(model_type="new", type_vocab_size=1, rope_theta=base, rope_scaling=dict(type="ntk", factor=factor), pack_qkv=True,
                  position_embedding_type="rope", layer_norm_type="layer_norm", logn_attention_scale=False, logn_attention_clip1=False,
                  unpad_inputs=False, use_memory_efficient_attention=False)
    return BERT | config, t, x


def neobert(replaced={}):
    """model.py beside chandar-lab/NeoBERT: the projection is of q, k and v per head."""
    t = Tensors(replaced)
    x = t("model.encoder.weight", VOCAB, HIDDEN)[IDS]
    for i in range(LAYERS):
        p = f"model.transformer_encoder.{i}."
        q, k, v = np.split(heads(t.linear(p + "qkv", t.rms(p + "attention_norm", x), 3 * HIDDEN, False)), 3, -1)
        x = x + t.linear(p + "wo", attend(turned(q, 1e4, True), turned(k, 1e4, True), v), HIDDEN, False)
        gate, up = np.split(t.linear(p + "ffn.w12", t.rms(p + "ffn_norm", x), 2 * INNER, False), 2, -1)
        x = x + t.linear(p + "ffn.w3", silu(gate) * up, HIDDEN, False)
    config = dict(model_type="neobert", vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, norm_eps=EPSILON,
                  num_attention_heads=HEADS, intermediate_size=INNER * 3 // 2, max_length=64)
    return config, t, t.rms("model.layer_norm", x)


def neo_bert():
    _, t, x = neobert({"model.transformer_encoder": "blk", "model.encoder": "token_embd", "model.layer_norm": "enc.output_norm",
                       "attention_norm": "attn_norm", "qkv": "attn_qkv", "wo": "attn_output", "ffn.w12": "ffn_up",
                       "ffn.w3": "ffn_down"})
    return gguf("neo-bert") | {"neo-bert.attention.layer_norm_rms_epsilon": EPSILON, "neo-bert.pooling_type": 2}, t, x


def nomic_bert_moe():
    """modeling_hf_nomic_bert.py beside nomic-embed-text-v2-moe, under GGUF's names."""
    t, experts, used = Tensors(), 5, 2
    x = t.norm("token_embd_norm", t("token_embd.weight", VOCAB, HIDDEN)[IDS] + t("token_types.weight", 1, HIDDEN)[0])
    for i in range(LAYERS):
        p = f"blk.{i}."
        q, k, v = (heads(y) for y in np.split(t.linear(p + "attn_qkv", x, 3 * HIDDEN), 3, -1))
        y = t.linear(p + "attn_output", attend(turned(q, 1e4, False), turned(k, 1e4, False), v), HIDDEN)
        x = t.norm(p + "attn_output_norm", x + y)
        if i % 2 == 1:
            routes = softmax(t.linear(p + "ffn_gate_inp", x, experts, False))
            up, down = t(p + "ffn_up_exps.weight", experts, INNER, HIDDEN), t(p + "ffn_down_exps.weight", experts, HIDDEN, INNER)
            y = np.array([sum(w[e] * (down[e] @ gelu(up[e] @ row)) for e in np.argsort(-w)[:used]) for row, w in zip(x, routes)])
        else:
            y = t.linear(p + "ffn_down", gelu(t.linear(p + "ffn_up", x, INNER)), HIDDEN)
        x = t.norm(p + "layer_output_norm", x + y)
    keys = gguf("nomic-bert-moe", moe_every_n_layers=2, expert_count=experts, expert_used_count=used)
    return keys | {"nomic-bert-moe.attention.layer_norm_epsilon": EPSILON, "nomic-bert-moe.rope.freq_base": 1e4}, t, x


def gguf(name, **keys):
    shared = dict(context_length=64, embedding_length=HIDDEN, block_count=LAYERS, feed_forward_length=INNER)
    return {"general.architecture": name, name + ".attention.head_count": HEADS} | {
        f"{name}.{key}": value for key, value in (shared | keys).items()}


def by_class(model, fields, replaced={}):
    """Of transformers' class."""
    t = Tensors(replaced)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("pooler."):
                parameter.copy_(torch.from_numpy(t(name, *parameter.shape)))
        x = model.double().eval()(input_ids=torch.tensor([IDS]), **fields).last_hidden_state[0].numpy()
    config = {k: v for k, v in model.config.to_dict().items() if k not in ("architectures", "dtype", "transformers_version")}
    return config, t, x


def gemma():
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    rope = {"full_attention": dict(rope_type="default", rope_theta=1e4), "sliding_attention": dict(rope_type="default", rope_theta=1e3)}
    return by_class(transformers.Gemma3TextModel(transformers.Gemma3TextConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16, max_position_embeddings=64, rms_norm_eps=EPSILON,
        use_bidirectional_attention=True, sliding_window=6, layer_types=types, rope_parameters=rope, pad_token_id=0,
        attn_implementation="eager")), {})
def bert():
    return by_class(transformers.BertModel(transformers.BertConfig(**BERT, attn_implementation="eager")), {})
def t5(distance=20, replaced={}):
    config, t, x = by_class(transformers.T5EncoderModel(transformers.T5Config(
        vocab_size=VOCAB, d_model=HIDDEN, d_ff=INNER, d_kv=16, num_layers=LAYERS, num_heads=HEADS, pad_token_id=0,
        relative_attention_num_buckets=8, relative_attention_max_distance=distance, layer_norm_epsilon=EPSILON)), {}, replaced)
    return config | dict(architectures=["T5EncoderModel"]), t, x
def t5encoder():
    _, t, x = t5(128, {"shared": "token_embd", "encoder.block": "enc.blk", "layer.0.SelfAttention.": "attn_",
                       "layer.1.DenseReluDense.wi": "ffn_up", "layer.1.DenseReluDense.wo": "ffn_down",
                       "layer.0.layer_norm": "attn_norm", "layer.1.layer_norm": "ffn_norm",
                       "relative_attention_bias": "rel_b", "encoder.final_layer_norm": "enc.output_norm"})
    keys = {"attention.layer_norm_epsilon": EPSILON, "attention.key_length": 16, "attention.value_length": 16,
            "attention.relative_buckets_count": 8}
    return gguf("t5encoder", **keys), t, x
def llama():
    sees_all = torch.zeros(1, 1, len(IDS), len(IDS), dtype=torch.float64)
    config, t, x = by_class(transformers.LlamaModel(transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        max_position_embeddings=64, rms_norm_eps=EPSILON, attn_implementation="eager")), dict(attention_mask=sees_all))
    return config | dict(model_type="llama_bidirec", pooling="avg"), t, x
def qwen3():
    return by_class(transformers.Qwen3Model(transformers.Qwen3Config(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=3, head_dim=16, max_position_embeddings=64, rms_norm_eps=EPSILON, tie_word_embeddings=False,
        attn_implementation="eager")), {})


# Beside each, its pooling and the Dense modules behind it: outputs, whether there is a bias, class of the activation.
MODELS = {
    "gemma": (gemma, "mean", [(56, False, "linear.Identity"), (HIDDEN, False, "linear.Identity")]),
    "bert": (bert, "cls", [(20, True, "activation.Tanh")]),
    "t5-encoder": (t5, "mean", [(HIDDEN, False, "linear.Identity")]),
    "llama-bidirec": (llama, "mean", []),
    "qwen3-bare": (qwen3, "lasttoken", []),
    "jina-bert-v2": (lambda: jina_bert_v2(False), "mean", []),
    "jina-bert-v2-code": (lambda: jina_bert_v2(True), "mean", []),
    "gte": (gte, "cls", []),
    "neobert": (neobert, "cls", []),
    "nomic-bert-moe": (nomic_bert_moe, "mean", []),
    "neo-bert": (neo_bert, "cls", []),
    "t5encoder": (t5encoder, "mean", []),
}


def made(name):
    make, pooling, dense = MODELS[name]
    config, tensors, x = make()
    x = {"mean": x.mean(0), "cls": x[0], "lasttoken": x[-1]}[pooling]
    for i, (rows, bias, activation) in enumerate(dense):
        x = x @ values(f"{2 + i}_Dense.linear.weight", (rows, len(x))).T.astype(np.float64)
        if bias:
            x = x + values(f"{2 + i}_Dense.linear.bias", (rows,))
        x = np.tanh(x) if activation.endswith("Tanh") else x
    return {"name": name, "config": config, "ids": IDS, "tensors": tensors, "pooling": pooling, "dense": dense,
            "embedding": [float(f"{v:.7g}") for v in x / np.linalg.norm(x)]}


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        for each in MODELS:
            out.write(json.dumps(made(each), separators=(",", ":")) + "\n")
