#!/usr/bin/env python3
"""Writes made_ahead.jsonl (OUT), tiny models with a layer that guesses the token behind the next one: config, the shapes
of tensors, whose values are made of their names (made_models.h), token ids, and that layer's logits. Hidden states
are transformers' (5.24, float64, eager attention); a token comes with that of the one before, the first with zeros.
FEATURES gets made_features.jsonl: layers of EAGLE-3 for
another model, and that model. pip install torch transformers; made_ahead.py OUT FEATURES"""
import json, sys, tempfile
import torch
from made_models import BASE, CONFIGS, DELTA, EXPERTS, LATENT, SAME
from made_values import IDS, logits_of, values
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

ALONE = dict(num_hidden_layers=1, first_k_dense_replace=0, layer_types=["full_attention"], full_attention_interval=1,
             mlp_layer_types=["sparse"])


def deepseek(n):
    return {"model.layers.0.": f"model.layers.{n}.", "model.norm.": f"model.layers.{n}.shared_head.norm.",
            "lm_head.": f"model.layers.{n}.shared_head.head.", "model.embed_tokens.": f"model.layers.{n}.embed_tokens.",
            "embedding": f"model.layers.{n}.enorm.weight", "hidden": f"model.layers.{n}.hnorm.weight",
            "join": f"model.layers.{n}.eh_proj.weight"}


QWEN = {"model.layers.0.": "mtp.layers.0.", "model.norm.": "mtp.norm.", "embedding": "mtp.pre_fc_norm_embedding.weight",
        "hidden": "mtp.pre_fc_norm_hidden.weight", "join": "mtp.fc.weight", "plus": 1}
MIMO = {"model.layers.0.": "model.mtp_layers.0.", "model.norm.": "model.mtp_layers.0.final_layernorm.",
        "embedding": "model.mtp_layers.0.token_layernorm.weight", "hidden": "model.mtp_layers.0.hidden_layernorm.weight",
        "join": "model.mtp_layers.0.input_proj.weight", "hidden_first": True}
# The class that computes it, its config, and what the names of its layer's model of one layer are in the file.
MODELS = {
    "glm4_moe": ("glm4_moe", CONFIGS["glm4_moe"] | dict(num_nextn_predict_layers=1), deepseek(3)),
    "deepseek_v3": ("deepseek_v3", BASE | EXPERTS | LATENT | dict(
        n_shared_experts=1, rms_norm_eps=1e-6, num_nextn_predict_layers=1), deepseek(3)),
    "qwen3_5_text": ("qwen3_5_text", CONFIGS["qwen3_5_text"] | dict(tie_word_embeddings=True), QWEN),
    "qwen3_next": ("qwen3_next", BASE | DELTA | dict(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40), QWEN),
    "mimo": ("qwen2", SAME | dict(num_nextn_predict_layers=1), MIMO),
}


def norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def model_of(kind, fields, named):
    """With values of tensors' names in the file, which `named` makes of the model's own; and those names' shapes."""
    config = AutoConfig.for_model(kind, **fields)
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        path = folder + "/model.safetensors"
        tensors = {key: values(named(key), array.shape) for key, array in load_file(path).items()}
        save_file(tensors, path, {"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
        model.config._experts_implementation = "eager"
        saved = json.load(open(folder + "/config.json"))
    return model, {named(key): list(array.shape) for key, array in tensors.items()}, saved


def made(name, kind, fields, form):
    def in_file(key):
        for prefix, other in form.items():
            if prefix.endswith(".") and key.startswith(prefix):
                return other + key[len(prefix):]
        return key

    model, tensors, saved = model_of(kind, fields, lambda key: key)
    alone = {key: value for key, value in ALONE.items() if key in saved}
    ahead, of_layer, _ = model_of(kind, fields | alone, in_file)
    hidden = saved["hidden_size"]
    own = {form["embedding"]: [hidden], form["hidden"]: [hidden], form["join"]: [hidden, 2 * hidden]}
    weight = {key: torch.tensor(values(key, shape)).double() for key, shape in own.items()}
    ids = torch.tensor([IDS])
    torch.set_default_dtype(torch.float64)
    with torch.no_grad():
        shown = model.model(ids, use_cache=False).last_hidden_state[0]
        given = torch.cat([torch.zeros_like(shown[:1]), shown[:-1]])
        plus, epsilon = form.get("plus", 0), saved["rms_norm_eps"]
        parts = [norm(ahead.get_input_embeddings()(ids)[0], plus + weight[form["embedding"]], epsilon),
                 norm(given, plus + weight[form["hidden"]], epsilon)]
        x = torch.cat(parts[::-1] if form.get("hidden_first") else parts, -1) @ weight[form["join"]].T
        logits = ahead(inputs_embeds=x[None], use_cache=False).logits[0].numpy()
    torch.set_default_dtype(torch.float32)
    for other in ("transformers_version", "dtype", "architectures"):
        saved.pop(other, None)
    return {"name": name, "config": saved | {"model_type": name}, "ids": IDS, "tensors": tensors | of_layer | own,
            "logits": logits_of(logits)}


# EAGLE-3: a folder of its own beside the target's.
TARGET = BASE | dict(num_hidden_layers=5)
DRAFT = dict(model_type="llama", hidden_size=48, intermediate_size=56, num_hidden_layers=1, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=160, rms_norm_eps=0.02, vocab_size=64,
             tie_word_embeddings=False, hidden_act="silu")
FEATURES = {
    "eagle3": (DRAFT | dict(draft_vocab_size=40), "midlayer.", None),
    "eagle3-own-embedding": (dict(draft_vocab_size=64, norm_before_fc=True, target_hidden_size=48,
                                  eagle_aux_hidden_state_layer_ids=[1, 2, 4], transformer_layer_config=DRAFT),
                             "layers.0.", "embed_tokens.weight"),
}


def rotated(x, base=10000.0):
    tokens, heads, dim = x.shape
    angles = torch.outer(torch.arange(tokens).double(), base ** (-torch.arange(0, dim, 2).double() / dim))
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = x[..., :dim // 2], x[..., dim // 2:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def made_features(name, config, layer, table):
    of = config.get("transformer_layer_config", config)
    target, tensors, saved = model_of("llama", TARGET, lambda key: "target." + key)
    takes = config.get("eagle_aux_hidden_state_layer_ids", [2, 2, 2])
    hidden, heads, kv, dim, inner = 48, 4, 2, 16, 56
    shapes = {layer + "self_attn.q_proj.weight": [heads * dim, 2 * hidden], layer + "self_attn.k_proj.weight": [kv * dim, 2 * hidden],
              layer + "self_attn.v_proj.weight": [kv * dim, 2 * hidden], layer + "self_attn.o_proj.weight": [hidden, heads * dim],
              layer + "mlp.gate_proj.weight": [inner, hidden], layer + "mlp.up_proj.weight": [inner, hidden],
              layer + "mlp.down_proj.weight": [hidden, inner], "norm.weight": [hidden], "fc.weight": [hidden, 3 * hidden],
              "lm_head.weight": [config["draft_vocab_size"], hidden]}
    for norm_name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        shapes[layer + norm_name + ".weight"] = [hidden]
    if table:
        shapes |= {table: [64, hidden], "input_norm.weight": [3 * hidden]}
    w = {key: torch.tensor(values(key, shape)).double() for key, shape in shapes.items()}
    ids = torch.tensor([IDS])
    torch.set_default_dtype(torch.float64)
    with torch.no_grad():
        streams = target.model(ids, use_cache=False, output_hidden_states=True).hidden_states
        f = torch.cat([streams[k][0] for k in takes], -1)
        f = torch.cat([torch.zeros_like(f[:1]), f[:-1]])
        e = (w[table] if table else target.get_input_embeddings().weight)[ids[0]]
        if table:
            f = norm(f, w["input_norm.weight"], 0.02)
        g = f @ w["fc.weight"].T
        normed = norm(g, w[layer + "hidden_norm.weight"], 0.02)
        x = torch.cat([norm(e, w[layer + "input_layernorm.weight"], 0.02), normed], -1)
        tokens = len(IDS)
        q, k, v = ((x @ w[f"{layer}self_attn.{p}_proj.weight"].T).view(tokens, -1, dim) for p in "qkv")
        q, k = rotated(q), rotated(k)
        k, v = (each.repeat_interleave(heads // kv, 1) for each in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / dim ** 0.5
        scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), float("-inf"))
        a = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(tokens, -1)
        x = (normed if table else g) + a @ w[layer + "self_attn.o_proj.weight"].T
        y = norm(x, w[layer + "post_attention_layernorm.weight"], 0.02)
        gate = torch.nn.functional.silu(y @ w[layer + "mlp.gate_proj.weight"].T)
        x = x + (gate * (y @ w[layer + "mlp.up_proj.weight"].T)) @ w[layer + "mlp.down_proj.weight"].T
        logits = norm(x, w["norm.weight"], 0.02) @ w["lm_head.weight"].T
    torch.set_default_dtype(torch.float32)
    for other in ("transformers_version", "dtype", "architectures"):
        saved.pop(other, None)
    return {"name": name, "config": config, "ids": IDS, "tensors": shapes, "logits": logits_of(logits.numpy()),
            "target": {"config": saved, "tensors": {key[7:]: shape for key, shape in tensors.items()}}}


with open(sys.argv[1], "w") as out:
    for name, of in MODELS.items():
        out.write(json.dumps(made(name, *of), separators=(",", ":")) + "\n")
if len(sys.argv) > 2:
    with open(sys.argv[2], "w") as out:
        for name, of in FEATURES.items():
            out.write(json.dumps(made_features(name, *of), separators=(",", ":")) + "\n")
