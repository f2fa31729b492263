#!/usr/bin/env python3
"""Writes made_rwkv.jsonl, as made_ggufs.py writes made_ggufs.jsonl: a tiny RWKV-7 (Peng et al. 2025) and a tiny ARWKV-7
as GGUF files hold them, with logits by NumPy in float64, one token after the other. pip install numpy; made_rwkv.py OUT"""
import json, sys
import numpy as np
from made_values import IDS, logits_of, values

HIDDEN, HEAD, COLUMNS, VOCAB, LAYERS, EPSILON = 48, 16, 72, 64, 3, 0.02
RANKS = {"w": 8, "a": 12, "v": 5, "g": 10}
KEYS = {
    "context_length": 160, "embedding_length": HIDDEN, "block_count": LAYERS, "feed_forward_length": COLUMNS,
    "attention.head_count": 0, "wkv.head_size": HEAD, "attention.decay_lora_rank": RANKS["w"],
    "attention.iclr_lora_rank": RANKS["a"], "attention.value_residual_mix_lora_rank": RANKS["v"]}


def block(layer, mixes):
    """The time mix's tensors."""
    shapes = {"time_mix_lerp_fused.weight": [len(mixes), 1, 1, HIDDEN]}
    for name in mixes[3:] if layer else mixes[4:]:
        shapes |= {f"time_mix_{name}1.weight": [RANKS[name], HIDDEN], f"time_mix_{name}2.weight": [HIDDEN, RANKS[name]]}
    shapes |= {"time_mix_w1.weight": [RANKS["w"], HIDDEN], "time_mix_w2.weight": [HIDDEN, RANKS["w"]]}
    for name in ["w0", "a0", "k_k", "k_a", "r_k"] + ["v0"] * (layer > 0):
        shapes[f"time_mix_{name}.weight"] = [HIDDEN]
    for name in ("receptance", "key", "value", "output"):
        shapes[f"time_mix_{name}.weight"] = [HIDDEN, HIDDEN]
    return shapes


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layer_norm(x, w, name):
    x = x - x.mean()
    return x / np.sqrt(np.mean(x * x) + EPSILON) * w[name + ".weight"] + w[name + ".bias"]


def rms_norm(x, w, name):
    return x / np.sqrt(np.mean(x * x) + EPSILON) * w[name + ".weight"]


def time_mix(w, x, kept, first):
    """Equations 3 to 22; `first`: v of the first layer, or nothing yet."""
    def low(name, mixed, activation=lambda y: y):
        return w[f"time_mix_{name}2.weight"] @ activation(w[f"time_mix_{name}1.weight"] @ mixed)

    lerp = w["time_mix_lerp_fused.weight"].reshape(-1, HIDDEN)
    mixes = x + lerp * (kept["time"] - x)
    kept["time"] = x
    r, k, v = (w[f"time_mix_{name}.weight"] @ mixes[i] for name, i in (("receptance", 0), ("key", 2), ("value", 3)))
    decay = np.exp(-np.exp(-0.5) * sigmoid(w["time_mix_w0.weight"] + low("w", mixes[1], np.tanh)))
    rate = sigmoid(w["time_mix_a0.weight"] + low("a", mixes[4]))
    if first is None:
        first = v
    else:
        v = v + (first - v) * sigmoid(w["time_mix_v0.weight"] + low("v", mixes[3]))
    erase = (k * w["time_mix_k_k.weight"]).reshape(-1, HEAD)
    erase /= np.maximum(np.linalg.norm(erase, axis=1, keepdims=True), 1e-12)
    k = k * (1 + (rate - 1) * w["time_mix_k_a.weight"])
    r, k, v, decay, rate = (each.reshape(-1, HEAD) for each in (r, k, v, decay, rate))
    out = np.empty_like(v)
    for h in range(HIDDEN // HEAD):  # the paper's states, of values by keys
        state = kept["state"][h]
        state = state @ (np.diag(decay[h]) - np.outer(erase[h], rate[h] * erase[h])) + np.outer(v[h], k[h])
        kept["state"][h] = state
        out[h] = state @ r[h]
    if "time_mix_ln.weight" in w:
        out = out - out.mean(1, keepdims=True)
        out = out / np.sqrt(np.mean(out * out, 1, keepdims=True) + 64e-5)
        out = out * w["time_mix_ln.weight"].reshape(-1, HEAD) + w["time_mix_ln.bias"].reshape(-1, HEAD)
    out = out + (r * k * w["time_mix_r_k.weight"].reshape(-1, HEAD)).sum(1, keepdims=True) * v
    out = out.reshape(HIDDEN)
    if "time_mix_g1.weight" in w:
        out = out * low("g", mixes[5], sigmoid)
    return w["time_mix_output.weight"] @ out, first


def channel_mix(w, x, kept):
    mixed = x + w["channel_mix_lerp_k.weight"] * (kept["channel"] - x)
    kept["channel"] = x
    return w["channel_mix_value.weight"] @ np.maximum(w["channel_mix_key.weight"] @ mixed, 0) ** 2


def gated(w, x, kept):
    gate = w["ffn_gate.weight"] @ x
    return w["ffn_down.weight"] @ (gate * sigmoid(gate) * (w["ffn_up.weight"] @ x))


def forward(tensors, norm, feed_forward, second):
    blocks = [{name.split(".", 2)[2]: value for name, value in tensors.items() if name.startswith(f"blk.{i}.")}
              for i in range(LAYERS)]
    kept = [{"time": np.zeros(HIDDEN), "channel": np.zeros(HIDDEN), "state": np.zeros((HIDDEN // HEAD, HEAD, HEAD))}
            for _ in blocks]
    logits = []
    for token in IDS:
        x, first = tensors["token_embd.weight"][token], None
        if "token_embd_norm.weight" in tensors:
            x = norm(x, tensors, "token_embd_norm")
        for w, remembered in zip(blocks, kept):
            y, first = time_mix(w, norm(x, w, "attn_norm"), remembered, first)
            x = x + y
            x = x + feed_forward(w, norm(x, w, second), remembered)
        logits.append(tensors["output.weight"] @ norm(x, tensors, "output_norm"))
    return np.array(logits)


def made(name, keys, mixes, norms, feed, normed, *functions):
    shapes = {"token_embd.weight": [VOCAB, HIDDEN], "output.weight": [VOCAB, HIDDEN]}
    for i in range(LAYERS):
        shapes |= {f"blk.{i}.{each}": shape for each, shape in (block(i, mixes) | feed).items()}
    for each in norms:
        for layer in range(LAYERS) if "#" in each else [0]:
            shapes[each.replace("#", str(layer)) + ".weight"] = [HIDDEN]
            if normed or each.endswith("time_mix_ln"):
                shapes[each.replace("#", str(layer)) + ".bias"] = [HIDDEN]
    logits = forward({each: values(each, shape).astype(np.float64) for each, shape in shapes.items()}, *functions)
    return {"name": name, "architecture": name, "keys": KEYS | keys, "ids": IDS, "tensors": shapes,
            "logits": logits_of(logits)}


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        for each in (
            made("rwkv7", {"attention.layer_norm_epsilon": EPSILON, "attention.gate_lora_rank": RANKS["g"]}, "rwkvag",
                 ["token_embd_norm", "output_norm", "blk.#.attn_norm", "blk.#.attn_norm_2", "blk.#.time_mix_ln"],
                 {"channel_mix_lerp_k.weight": [HIDDEN], "channel_mix_key.weight": [COLUMNS, HIDDEN],
                  "channel_mix_value.weight": [HIDDEN, COLUMNS]}, True, layer_norm, channel_mix, "attn_norm_2"),
            made("arwkv7", {"attention.layer_norm_rms_epsilon": EPSILON, "token_shift_count": 1}, "rwkva",
                 ["output_norm", "blk.#.attn_norm", "blk.#.ffn_norm"],
                 {"ffn_gate.weight": [COLUMNS, HIDDEN], "ffn_up.weight": [COLUMNS, HIDDEN],
                  "ffn_down.weight": [HIDDEN, COLUMNS]}, False, rms_norm, gated, "ffn_norm"),
        ):
            out.write(json.dumps(each, separators=(",", ":")) + "\n")
