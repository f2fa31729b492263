#!/usr/bin/env python3
"""Writes made_ggufs.jsonl, a tiny GGUF file of each architecture that no folder of the tests becomes: its keys, the
shapes of its tensors, whose values are made of their names, token ids, and logits by llama.cpp on the CPU in float32.
pip install gguf llama-cpp-python (0.3.36); made_ggufs.py OUT"""
import json, sys, tempfile
import gguf
from llama_cpp import Llama
from made_values import IDS, logits_of, values

VOCAB = 64
ROTATED = {"rope.dimension_count": 16}


def base(norm="rms", hidden=64, heads=4, kv=2, columns=96, layers=2, **keys):
    return {"context_length": 160, "embedding_length": hidden, "block_count": layers, "attention.head_count": heads,
            "attention.head_count_kv": kv, "feed_forward_length": columns,
            "attention.layer_norm_rms_epsilon" if norm == "rms" else "attention.layer_norm_epsilon": 0.02} | keys


def dense(keys, gated=True, norm_bias=False, fused=False, qkv_bias=False, o_bias=False, biases=False, qk_norm=False,
          output=True, positions=False, columns=None, experts=0, dense_layers=0, latent=False, gate_up=False,
          names={}, more={}, once={}):
    """The tensors of a decoder, but for `names` of other ones, or of none, `more` of each layer, which may be a
    function of its number, and `once` beside layers. What the keys say of each layer may be a list."""
    hidden, shapes = keys["embedding_length"], dict(once)

    def add(name, shape, bias=False):
        shapes[name + ".weight"] = shape
        if bias:
            shapes[name + ".bias"] = shape[:1]

    add("token_embd", [VOCAB, hidden])
    add("output_norm", [hidden], norm_bias)
    if output:
        add("output", [VOCAB, hidden])
    if positions:
        add("position_embd", [keys["context_length"], hidden])
    for i in range(keys["block_count"] - keys.get("nextn_predict_layers", 0)):
        heads, kv, size = (each[i] if isinstance(each, list) else each for each in (
            keys["attention.head_count"], keys["attention.head_count_kv"], keys["feed_forward_length"]))
        size, head = columns or size, keys.get("attention.key_length", hidden // 4)
        if kv:
            add(f"blk.{i}.attn_norm", [hidden], norm_bias)
            for name, rows in [("qkv", heads + 2 * kv)] if fused else [("q", heads), ("k", kv), ("v", kv)]:
                add(f"blk.{i}.attn_{name}", [rows * head, hidden], qkv_bias)
            for name in "qk" if qk_norm else "":
                add(f"blk.{i}.attn_{name}_norm", [head])
            add(f"blk.{i}.attn_output", [hidden, heads * head], o_bias)
        if size:
            add(f"blk.{i}.ffn_norm", [hidden], norm_bias)
            count, suffix = ([experts], "_exps") if experts and i >= dense_layers else ([], "")
            if count:
                add(f"blk.{i}.ffn_gate_inp", count + [hidden])
                size = keys.get("expert_feed_forward_length", size)
            for name in ["gate", "up"] if gated and not gate_up else ["up"]:
                add(f"blk.{i}.ffn_{name}{suffix}", count + [2 * size if gate_up else size, hidden], biases)
            add(f"blk.{i}.ffn_down{suffix}", count + [hidden, size], biases)
        if latent:
            rank, rope = keys["attention.kv_lora_rank"], keys["rope.dimension_count"]
            fixed, value = head - rope, keys.get("attention.value_length", hidden // heads)
            for name in "qkv":
                del shapes[f"blk.{i}.attn_{name}.weight"]
            q_rank = keys.get("attention.q_lora_rank")
            if q_rank:
                add(f"blk.{i}.attn_q_a", [q_rank, hidden])
                add(f"blk.{i}.attn_q_a_norm", [q_rank])
            add(f"blk.{i}.attn_q_b" if q_rank else f"blk.{i}.attn_q", [heads * head, q_rank or hidden])
            add(f"blk.{i}.attn_kv_a_mqa", [rank + rope, hidden])
            add(f"blk.{i}.attn_kv_a_norm", [rank])
            add(f"blk.{i}.attn_kv_b", [heads * (fixed + value), rank])
            add(f"blk.{i}.attn_output", [hidden, heads * value])
        for other, name in names.items():
            shape = shapes.pop(f"blk.{i}.{other}", None) or [hidden]
            if name:
                shapes[f"blk.{i}.{name}"] = shape
        for name, shape in (more(i) if callable(more) else more).items():
            shapes[f"blk.{i}.{name}"] = shape
    return shapes


LAYER = dict(norm_bias=True, qkv_bias=True, o_bias=True, biases=True)
EXPERTS = {"expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 40}
SHARED = {"exp_probs_b.bias": [6], "ffn_gate_shexp.weight": [24, 64], "ffn_up_shexp.weight": [24, 64],
          "ffn_down_shexp.weight": [64, 24]}
BAICHUAN = base(hidden=16, columns=24, kv=4, **{"rope.dimension_count": 4})
CASES = {  # keys, and how its tensors differ
    "xverse": (base(**ROTATED), {}),
    "baichuan": (BAICHUAN | {"block_count": 32}, {}),  # known by their layers
    "baichuan-13b": (BAICHUAN | {"block_count": 40}, {}),
    "deci": (base(layers=5, kv=[2, 0, 0, 1, 4], heads=[4, 0, 0, 4, 4], columns=[96, 64, 0, 48, 128],
                  **ROTATED, **{"attention.key_length": 16, "attention.value_length": 16}), {}),
    "maincoder": (base(**ROTATED), dict(qk_norm=True)),
    "qwen": (base(kv=4, columns=192, **ROTATED), dict(fused=True, qkv_bias=True, columns=96)),
    "pangu-embedded": (base(), dict(qkv_bias=True, o_bias=True)),
    "openelm": (base(layers=3, kv=[2, 3, 2], heads=[4, 6, 8], columns=[96, 64, 128], **ROTATED,
                     **{"attention.key_length": 16, "attention.value_length": 16}),
                dict(fused=True, qk_norm=True, output=False)),
    "refact": (base(kv=1), {}),
    "paddleocr": (base(**{"rope.dimension_sections": [2, 3, 3, 0], "rope.freq_base": 500000.0}), {}),
    # llama.cpp knows no other window of it
    "smallthinker": (base(layers=5, columns=40, **EXPERTS, **{
        "expert_gating_func": 2, "attention.sliding_window": 4096, "rope.freq_base": 10000.0}), dict(experts=6)),
    "smallthinker-softmax": (base(columns=40, **EXPERTS, **{"expert_gating_func": 1, "rope.freq_base": 10000.0}),
                             dict(experts=6)),
    "minicpm3": (base(kv=4, **ROTATED, **{"attention.kv_lora_rank": 24, "attention.q_lora_rank": 20,
                                          "attention.key_length": 28}), dict(latent=True)),
    "plm": (base(kv=4, **ROTATED, **{"attention.kv_lora_rank": 24, "attention.key_length": 28,
                                     "attention.value_length": 20}), dict(latent=True, gated=False, output=False)),
    "plamo": (base(), dict(names={"ffn_norm.weight": None})),
    "plamo3": (base(layers=3, **ROTATED, **{
        "attention.sliding_window": 8, "attention.sliding_window_pattern": 2, "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e3, "attention.key_length": 16, "attention.value_length": 16}),
               dict(fused=True, qk_norm=True, output=False, gate_up=True, names={
                   "first": "post_attention_norm", "second": "post_ffw_norm"})),
    "dbrx": (base("layer", columns=40, **{"expert_count": 6, "expert_used_count": 2, "attention.clamp_kqv": 0.5}),
             dict(experts=6, fused=True, names={"ffn_norm.weight": "attn_output_norm.weight"})),
    "laguna": (base(layers=5, columns=40, **EXPERTS, **ROTATED, **{
        "leading_dense_block_count": 0, "expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 1.5,
        "expert_shared_feed_forward_length": 24, "attention.sliding_window": 8, "rope.freq_base": 5e5,
        "rope.freq_base_swa": 1e4, "rope.dimension_count_swa": 8}), dict(experts=6, qk_norm=True, more={
            "attn_gate.weight": [4, 64]} | SHARED)),
    # limits that many of the values reach; the last layer of step35 guesses tokens ahead, and is not run
    "step35": (base(layers=5, kv=[2, 4, 1, 2, 2], heads=[4, 8, 4, 4, 4], **EXPERTS, **{
        "leading_dense_block_count": 1, "moe_every_n_layers": 1, "nextn_predict_layers": 1, "expert_weights_norm": True,
        "expert_weights_scale": 1.5, "expert_shared_feed_forward_length": 24, "attention.sliding_window": 8,
        "attention.sliding_window_pattern": [False, True, False, True, True], "rope.freq_base": 5e5,
        "rope.freq_base_swa": 1e4, "attention.key_length": 16, "attention.value_length": 16,
        "swiglu_clamp_exp": [0.0, 0.2, 0.0, 0.3, 0.0], "swiglu_clamp_shexp": [0.25, 0.0, 0.15, 0.3, 0.0]}), dict(
            experts=6, dense_layers=1, qk_norm=True, once={"rope_freqs.weight": [8]}, more=lambda i: {
                "attn_gate.weight": [8 if i == 1 else 4, 64]} | (SHARED if i else {}))),
    "maple": (base(layers=3, columns=40, **EXPERTS, **{
        "attention.sliding_window": 8, "attention.sliding_window_pattern": [True, False, True], "rope.freq_base": 1e5,
        "rope.dimension_count": 8, "attention.key_length": 16, "attention.value_length": 16,
        "swiglu_clamp_exp": [0.2, 0.3, 0.25]}), dict(experts=6, qk_norm=True)),
    "hunyuan_vl": (base(**ROTATED, **{"rope.dimension_sections": [3, 3, 2, 0], "rope.scaling.alpha": 3.0,
                             "rope.scaling.type": "none", "rope.scaling.factor": 1.0}),
                   dict(qk_norm=True, output=False)),
    "starcoder": (base("layer", kv=1), LAYER | dict(fused=True, gated=False, positions=True)),
    "codeshell": (base("layer", **{"rope.scaling.type": "linear", "rope.scaling.factor": 1.0}),
                  LAYER | dict(fused=True, gated=False)),
    "orion": (base("layer"), dict(norm_bias=True)),
    "jais": (base("layer", kv=4, **{"attention.max_alibi_bias": 8.0}), LAYER | dict(fused=True)),
}


def made(name, keys, shapes):
    architecture = name if name in gguf.MODEL_ARCH_NAMES.values() else name.rsplit("-", 1)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/made.gguf"
        writer = gguf.GGUFWriter(path, architecture)
        for key, value in keys.items():
            add = {int: writer.add_uint32, bool: writer.add_bool, float: writer.add_float32, str: writer.add_string, list: writer.add_array}
            add[type(value)](f"{architecture}.{key}", value)
        writer.add_tokenizer_model("llama")  # which llama.cpp wants
        writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"▁t{i}" for i in range(VOCAB - 3)])
        writer.add_token_scores([-float(i) for i in range(VOCAB)])
        writer.add_token_types([2, 3, 3] + [1] * (VOCAB - 3))
        for tensor, shape in shapes.items():
            writer.add_tensor(tensor, values(tensor, shape))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        model = Llama(path, n_ctx=64, logits_all=True, type_k=0, type_v=0, n_gpu_layers=0, verbose=False)
        model.eval(IDS)
        logits = model.scores[:len(IDS)].copy()
        model.close()
    return {"name": name, "architecture": architecture, "keys": keys, "ids": IDS, "tensors": shapes,
            "logits": logits_of(logits)}


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        for name, (keys, how) in CASES.items():
            out.write(json.dumps(made(name, keys, dense(keys, **how)), separators=(",", ":")) + "\n")
