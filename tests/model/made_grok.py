#!/usr/bin/env python3
"""Writes made_grok.jsonl, as made_ggufs.py writes made_ggufs.jsonl: a tiny Grok-1 (xAI 2024) as GGUF files hold it, with
logits by NumPy in float64, one token after the other. pip install numpy; made_grok.py OUT"""
import json, sys
import numpy as np
from made_plamo2 import HEAD, HEADS, HIDDEN, KV, norm, rotated
from made_values import IDS, logits_of, values

COLUMNS, VOCAB, LAYERS, EXPERTS, USED = 40, 64, 2, 6, 2
SCORES, CAP, EMBEDDING, LOGITS = 0.7, 2.0, 3.0, 0.4
KEYS = {
    "context_length": 160, "embedding_length": HIDDEN, "block_count": LAYERS, "feed_forward_length": COLUMNS,
    "attention.head_count": HEADS, "attention.head_count_kv": KV, "attention.layer_norm_rms_epsilon": 0.02,
    "expert_count": EXPERTS, "expert_used_count": USED, "rope.dimension_count": HEAD, "attention.output_scale": SCORES,
    "attn_logit_softcapping": CAP, "router_logit_softcapping": 30.0, "embedding_scale": EMBEDDING, "logit_scale": LOGITS}
BLOCK = {
    "attn_norm.weight": [HIDDEN], "attn_q.weight": [HEADS * HEAD, HIDDEN], "attn_k.weight": [KV * HEAD, HIDDEN],
    "attn_v.weight": [KV * HEAD, HIDDEN], "attn_output.weight": [HIDDEN, HEADS * HEAD], "attn_output_norm.weight": [HIDDEN],
    "ffn_norm.weight": [HIDDEN], "ffn_gate_inp.weight": [EXPERTS, HIDDEN], "ffn_gate_exps.weight": [EXPERTS, COLUMNS, HIDDEN],
    "ffn_up_exps.weight": [EXPERTS, COLUMNS, HIDDEN], "ffn_down_exps.weight": [EXPERTS, HIDDEN, COLUMNS],
    "layer_output_norm.weight": [HIDDEN]}


def attention(w, x, position, seen):
    q, k, v = ((w[f"attn_{name}.weight"] @ x).reshape(-1, HEAD) for name in "qkv")
    q = rotated(q, position)
    seen.append((rotated(k, position), v))
    found = []
    for head in range(HEADS):
        keys, heads_values = (np.stack([each[i][head // (HEADS // KV)] for each in seen]) for i in (0, 1))
        scores = np.exp(CAP * np.tanh(keys @ q[head] * SCORES / CAP))
        found.append(scores / scores.sum() @ heads_values)
    return w["attn_output.weight"] @ np.concatenate(found)


def gelu(x):
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3)))


def experts(w, x):
    shares = np.exp(w["ffn_gate_inp.weight"] @ x)
    chosen = np.argsort(-shares)[:USED]
    return sum(share * w["ffn_down_exps.weight"][i] @ (gelu(w["ffn_gate_exps.weight"][i] @ x) * (w["ffn_up_exps.weight"][i] @ x))
               for i, share in zip(chosen, shares[chosen] / shares[chosen].sum()))


def forward(tensors):
    blocks = [{name.split(".", 2)[2]: value for name, value in tensors.items() if name.startswith(f"blk.{i}.")}
              for i in range(LAYERS)]
    kept, logits = [[] for _ in blocks], []
    for position, token in enumerate(IDS):
        x = EMBEDDING * tensors["token_embd.weight"][token]
        for w, seen in zip(blocks, kept):
            y = attention(w, norm(x, w["attn_norm.weight"]), position, seen)
            x = x + norm(y, w["attn_output_norm.weight"])
            x = x + norm(experts(w, norm(x, w["ffn_norm.weight"])), w["layer_output_norm.weight"])
        logits.append(LOGITS * (tensors["output.weight"] @ norm(x, tensors["output_norm.weight"])))
    return np.array(logits)


if __name__ == "__main__":
    shapes = {"token_embd.weight": [VOCAB, HIDDEN], "output_norm.weight": [HIDDEN], "output.weight": [VOCAB, HIDDEN]}
    for i in range(LAYERS):
        shapes |= {f"blk.{i}.{name}": shape for name, shape in BLOCK.items()}
    logits = forward({name: values(name, shape).astype(np.float64) for name, shape in shapes.items()})
    with open(sys.argv[1], "w") as out:
        made = {"name": "grok", "architecture": "grok", "keys": KEYS, "ids": IDS, "tensors": shapes, "logits": logits_of(logits)}
        out.write(json.dumps(made, separators=(",", ":")) + "\n")
