#!/usr/bin/env python3
"""Writes made_plamo2.jsonl, as made_ggufs.py writes made_ggufs.jsonl: a tiny PLaMo 2 (Preferred Networks 2025) as GGUF
files hold it, with logits by NumPy in float64, one token after the other. pip install numpy; made_plamo2.py OUT"""
import json, sys
import numpy as np
from made_values import IDS, logits_of, values

HIDDEN, HEADS, KV, HEAD, COLUMNS, VOCAB = 64, 4, 2, 16, 56, 64
MIXERS, VALUE, STATE, TAPS, LOW, LAYERS, EPSILON, BASE = 6, 16, 12, 4, 64, 3, 0.02, 10000.0
WIDTH = MIXERS * VALUE
KEYS = {
    "context_length": 160, "embedding_length": HIDDEN, "block_count": LAYERS, "feed_forward_length": COLUMNS,
    "attention.head_count": [0, HEADS, 0], "attention.head_count_kv": [0, KV, 0], "attention.key_length": HEAD,
    "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": EPSILON, "rope.freq_base": BASE,
    "ssm.conv_kernel": TAPS, "ssm.inner_size": WIDTH, "ssm.state_size": STATE, "ssm.time_step_rank": MIXERS,
    "ssm.group_count": 0}
MIXER = {
    "ssm_in.weight": [2 * WIDTH, HIDDEN], "ssm_conv1d.weight": [WIDTH, TAPS], "ssm_x.weight": [2 * STATE + LOW, WIDTH],
    "ssm_dt.weight": [MIXERS, LOW], "ssm_dt.bias": [MIXERS], "ssm_a": [MIXERS], "ssm_d": [MIXERS], "ssm_dt_norm": [LOW],
    "ssm_b_norm": [STATE], "ssm_c_norm": [STATE], "ssm_out.weight": [HIDDEN, WIDTH]}
ATTENTION = {
    "attn_qkv.weight": [(HEADS + 2 * KV) * HEAD, HIDDEN], "attn_q_norm.weight": [HEADS, HEAD],
    "attn_k_norm.weight": [KV, HEAD], "attn_output.weight": [HIDDEN, HEADS * HEAD]}
BLOCK = {
    "attn_norm.weight": [HIDDEN], "post_attention_norm": [HIDDEN], "ffn_norm.weight": [HIDDEN], "post_ffw_norm": [HIDDEN],
    "ffn_up.weight": [2 * COLUMNS, HIDDEN], "ffn_down.weight": [HIDDEN, COLUMNS]}


def norm(x, weight):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + EPSILON) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def rotated(x, position):
    """[heads, HEAD], element i with element i + HEAD / 2."""
    angles = position * BASE ** (-np.arange(HEAD // 2) * 2 / HEAD)
    first, second = x[:, :HEAD // 2], x[:, HEAD // 2:]
    return np.concatenate([first * np.cos(angles) - second * np.sin(angles),
                           second * np.cos(angles) + first * np.sin(angles)], 1)


def attention(w, x, position, seen):
    q, k, v = np.split((w["attn_qkv.weight"] @ x).reshape(-1, HEAD), [HEADS, HEADS + KV])
    seen.append((rotated(norm(k, w["attn_k_norm.weight"]), position), v))
    q = rotated(norm(q, w["attn_q_norm.weight"]), position)
    found = []
    for head in range(HEADS):
        keys, heads_values = (np.stack([each[i][head // (HEADS // KV)] for each in seen]) for i in (0, 1))
        scores = np.exp(keys @ q[head] / HEAD ** 0.5)
        found.append(scores / scores.sum() @ heads_values)
    return w["attn_output.weight"] @ np.concatenate(found)


def mixer(w, x, kept):
    gate, v = (w["ssm_in.weight"] @ x).reshape(MIXERS, 2, VALUE).transpose(1, 0, 2)
    rows = kept["rows"] = np.vstack([kept["rows"][1:], v.reshape(1, WIDTH)])
    v = silu((rows * w["ssm_conv1d.weight"].T).sum(0))
    b, c, low = np.split(w["ssm_x.weight"] @ v, [STATE, 2 * STATE])
    b, c, low = norm(b, w["ssm_b_norm"]), norm(c, w["ssm_c_norm"]), norm(low, w["ssm_dt_norm"])
    v = v.reshape(MIXERS, VALUE)
    step = np.log1p(np.exp(w["ssm_dt.weight"] @ low + w["ssm_dt.bias"]))[:, None]
    decay = np.exp(w["ssm_a"][:, None] * step)
    kept["state"] = decay[:, None] * kept["state"] + b[None, :, None] * (step * v)[:, None]  # [MIXERS, STATE, VALUE]
    y = np.einsum("n,hnv->hv", c, kept["state"]) + w["ssm_d"][:, None] * v
    return w["ssm_out.weight"] @ (silu(gate) * y).reshape(WIDTH)


def forward(tensors):
    blocks = [{name.split(".", 2)[2]: value for name, value in tensors.items() if name.startswith(f"blk.{i}.")}
              for i in range(LAYERS)]
    kept = [{"rows": np.zeros((TAPS, WIDTH)), "state": np.zeros((MIXERS, STATE, VALUE))} if "ssm_in.weight" in w else []
            for w in blocks]
    logits = []
    for position, token in enumerate(IDS):
        x = tensors["token_embd.weight"][token]
        for w, remembered in zip(blocks, kept):
            y = norm(x, w["attn_norm.weight"])
            y = mixer(w, y, remembered) if "ssm_in.weight" in w else attention(w, y, position, remembered)
            x = x + norm(y, w["post_attention_norm"])
            gate, up = np.split(w["ffn_up.weight"] @ norm(x, w["ffn_norm.weight"]), 2)
            x = x + norm(w["ffn_down.weight"] @ (silu(gate) * up), w["post_ffw_norm"])
        logits.append(tensors["token_embd.weight"] @ norm(x, tensors["output_norm.weight"]))
    return np.array(logits)


if __name__ == "__main__":
    shapes = {"token_embd.weight": [VOCAB, HIDDEN], "output_norm.weight": [HIDDEN]}
    for i in range(LAYERS):
        for name, shape in (BLOCK | (ATTENTION if KEYS["attention.head_count"][i] else MIXER)).items():
            shapes[f"blk.{i}.{name}"] = shape
    logits = forward({name: values(name, shape).astype(np.float64) for name, shape in shapes.items()})
    with open(sys.argv[1], "w") as out:
        made = {"name": "plamo2", "architecture": "plamo2", "keys": KEYS, "ids": IDS, "tensors": shapes, "logits": logits_of(logits)}
        out.write(json.dumps(made, separators=(",", ":")) + "\n")
