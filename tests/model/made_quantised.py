#!/usr/bin/env python3
"""Writes made_quantised.jsonl, a tiny llama quantised in each way that folders have: quantization_config, its
tensors, token ids, and logits by transformers in float64 of the weights as compressed-tensors and bitsandbytes
restore them (GPTQ, ModelOpt and Quark: as their formats say). Bytes of what is packed are made of names, as
quantised_folders_test.cpp makes them. pip install torch transformers compressed-tensors bitsandbytes;
made_quantised.py OUT"""
import base64, json, sys, zlib
import numpy as np
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from made_values import IDS, logits_of, values
from transformers import LlamaConfig, LlamaForCausalLM
import bitsandbytes.functional as bnb

CONFIG = LlamaConfig(vocab_size=16, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=1, head_dim=32, max_position_embeddings=160, rms_norm_eps=0.02, bos_token_id=1,
                     eos_token_id=2, tie_word_embeddings=False)
TYPES = {torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8", torch.int8: "I8", torch.float16: "F16",
         torch.bfloat16: "BF16", torch.float32: "F32", torch.float8_e4m3fn: "F8_E4M3"}
E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])


def packed(name, dtype, *shape):
    """Any bytes, of the name."""
    size = int(np.prod(shape)) * dtype.itemsize
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(size, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    made = torch.tensor(((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.uint8)).view(dtype).reshape(shape)
    made.of_name = True
    return made


def scales(name, dtype, bits, *shape):
    u = np.random.default_rng(zlib.crc32(name.encode())).uniform(0.5, 1, shape)
    return torch.tensor(u * 0.7 / 2**bits).to(dtype)


def integers(words, bits, dim):
    """Of a stream of bits, from the lowest on, along `dim`."""
    words = words.transpose(0, dim).contiguous().numpy().view(np.uint32)
    stream = (words[:, None] >> np.arange(32, dtype=np.uint32)[None, :, None] & 1).reshape(-1, words.shape[1])
    numbers = (stream.reshape(-1, bits, words.shape[1]).astype(np.int64) << np.arange(bits)[None, :, None]).sum(1)
    return torch.tensor(numbers).transpose(0, dim)


def gptq(name, rows, cols, bits, group=32, second=False, symmetric=False, order=False):
    groups = cols // group
    weight = packed(name + ".qweight", torch.int32, cols * bits // 32, rows)
    zeros = packed(name + ".qzeros", torch.int32, groups, rows * bits // 32)
    if symmetric:
        zeros = torch.full_like(zeros, {4: 0x77777777, 8: 0x7F7F7F7F}[bits])
    scale = scales(name, torch.float16, bits, groups, rows)
    index = torch.arange(cols) // group
    if order:
        index = index[torch.tensor(np.random.default_rng(cols).permutation(cols))]
    zero = zeros.clone()
    if not second and bits != 3:
        zero += {2: 0x55555555, 4: 0x11111111, 8: 0x01010101}[bits]
    zero = integers(zero, bits, 1)
    if not second and bits == 3:
        zero = (zero + 1) % 8
    numbers = (integers(weight, bits, 0) - zero[index]).T
    block = not order and numbers.min() >= -128 and numbers.max() <= 127
    made = numbers.double() * scale[index].T.double() if block else numbers.half() * scale[index].T
    return {"qweight": weight, "qzeros": zeros, "scales": scale, "g_idx": index.int()}, made


def compressed(name, rows, cols, form, order=False, **weights):
    args = QuantizationArgs(**weights)
    bits, groups = args.num_bits, cols // args.group_size if args.group_size else 1
    made = {}
    if form == "int-quantized":
        made["weight"] = packed(name + ".weight", torch.int8, rows, cols)
        made["weight_scale"] = scales(name, torch.bfloat16, bits, rows, 1)
        if not args.symmetric:
            made["weight_zero_point"] = packed(name + ".weight_zero_point", torch.int8, rows, 1)
    elif form == "pack-quantized":
        made["weight_packed"] = packed(name + ".weight_packed", torch.int32, rows, cols * bits // 32)
        made["weight_scale"] = scales(name, torch.bfloat16, bits, rows, groups)
        made["weight_shape"] = torch.tensor([rows, cols])
        if not args.symmetric:
            made["weight_zero_point"] = packed(name + ".weight_zero_point", torch.int32, rows * bits // 32, groups)
    else:
        made["weight_packed"] = packed(name + ".weight_packed", torch.uint8, rows, cols // 2)
        if form.startswith("nv"):
            made["weight_scale"] = (scales(name, torch.float32, 0, rows, groups) * 90).to(torch.float8_e4m3fn)
            made["weight_global_scale"] = torch.tensor([1234.5])
        else:
            made["weight_scale"] = (torch.arange(rows * groups).reshape(rows, groups) % 3 + 121).to(torch.uint8)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    whole = dict(made)
    if form.endswith("pack-quantized") and form[0] in "pi" or form == "int-quantized":
        whole["weight_scale"] = made["weight_scale"].double()  # blocks keep the product as it is
        if bits == 8 and not args.symmetric:
            whole["weight_scale"] = made["weight_scale"]
    restored = BaseCompressor.get_value_from_registry(form).decompress(whole, scheme)["weight"]
    if form.startswith("nv"):
        exact = e2m1_by_16(made["weight_packed"], made["weight_scale"].float() / made["weight_global_scale"])
        assert torch.equal(exact.to(restored.dtype), restored)
        restored = exact
    if order:  # columns of groups that lie as an index says
        index = torch.arange(cols) // args.group_size
        index = index[torch.tensor(np.random.default_rng(cols).permutation(cols))]
        numbers = integers(made["weight_packed"], bits, 1) - 2 ** (bits - 1)
        restored = numbers.bfloat16() * made["weight_scale"][:, index]
        made["weight_g_idx"] = index.int()
    return made, restored


def table(name, rows, cols, kind, nested, dtype):
    state = bnb.quantize_4bit(torch.tensor(values(name, (rows, cols))).to(dtype), quant_type=kind, compress_statistics=nested)[1]
    weight = packed(name + ".weight", torch.uint8, rows * cols // 2, 1)
    made = {"weight": weight} | {"weight." + k: v for k, v in state.as_dict(packed=True).items()}
    return made, bnb.dequantize_4bit(weight, state)


def vectorwise(name, rows, cols):
    weight, scale = packed(name + ".weight", torch.int8, rows, cols), 127 * scales(name, torch.float16, 8, rows).float()
    return {"weight": weight, "SCB": scale, "weight_format": torch.tensor(0, dtype=torch.uint8)}, weight.double() * (scale / 127).double()[:, None]


def fp4(weight):
    return E2M1[torch.stack([weight & 15, weight >> 4], -1).flatten(1).long()]


def e2m1_by_16(weight, scale):
    return fp4(weight) * scale.repeat_interleave(16, 1)


def modelopt(name, rows, cols):
    weight, second = packed(name + ".weight", torch.uint8, rows, cols // 2), torch.tensor(0.00081)
    scale = (scales(name, torch.float32, 0, rows, cols // 16) * 90).to(torch.float8_e4m3fn)
    made = {"weight": weight, "weight_scale": scale, "weight_scale_2": second, "input_scale": torch.tensor(1.0)}
    return made, e2m1_by_16(weight, scale.float() * second)


def quark(name, rows, cols):
    weight = packed(name + ".weight", torch.uint8, rows, cols // 2)
    scale = (torch.arange(rows * cols // 32).reshape(rows, -1) % 3 + 121).to(torch.uint8)
    return {"weight": weight, "weight_scale": scale}, fp4(weight) * (2.0 ** (scale.float() - 127)).repeat_interleave(32, 1)


def gptq_config(bits, form="gptq", **more):
    return dict(quant_method="gptq", bits=bits, group_size=32, checkpoint_format=form) | more


def compressed_config(form):
    return dict(quant_method="compressed-tensors", format=form)


GROUPS = dict(type="int", strategy="group", group_size=32)
BNB = dict(quant_method="bitsandbytes")
WAYS = {
    "gptq 2": (gptq_config(2), lambda *a: gptq(*a, 2), "Q4_0"),
    "gptq 3": (gptq_config(3), lambda *a: gptq(*a, 3), "Q4_0"),
    "gptq 3 act-order, version 2": (gptq_config(3, "gptq_v2", desc_act=True), lambda *a: gptq(*a, 3, second=True, order=True), "F16"),
    "gptq 4": (gptq_config(4), lambda *a: gptq(*a, 4), "Q5_0"),
    "gptq 4 version 2": (gptq_config(4, "gptq_v2"), lambda *a: gptq(*a, 4, second=True), "Q5_0"),
    "gptq 4 act-order": (gptq_config(4, desc_act=True), lambda *a: gptq(*a, 4, symmetric=True, order=True), "F16"),
    "gptq 8": (gptq_config(8), lambda *a: gptq(*a, 8, symmetric=True), "Q8_0"),
    "gptq 8 asymmetric": (gptq_config(8), lambda *a: gptq(*a, 8), "F16"),
    "pack 3": (compressed_config("pack-quantized"), lambda *a: compressed(*a, "pack-quantized", num_bits=3, **GROUPS), "Q4_0"),
    "pack 4 asymmetric": (compressed_config("pack-quantized"), lambda *a: compressed(*a, "pack-quantized", num_bits=4, symmetric=False, **GROUPS), "Q5_0"),
    "pack 4 act-order": (compressed_config("pack-quantized"), lambda *a: compressed(*a, "pack-quantized", order=True, num_bits=4, **GROUPS), "BF16"),
    "pack 8 asymmetric": (compressed_config("pack-quantized"), lambda *a: compressed(*a, "pack-quantized", num_bits=8, symmetric=False, **GROUPS), "BF16"),
    "int 8": (compressed_config("int-quantized"), lambda *a: compressed(*a, "int-quantized", num_bits=8, type="int", strategy="channel"), "Q8_0"),
    "int 8 asymmetric": (compressed_config("int-quantized"), lambda *a: compressed(*a, "int-quantized", num_bits=8, type="int", strategy="channel", symmetric=False), "BF16"),
    "nvfp4": (compressed_config("nvfp4-pack-quantized"), lambda *a: compressed(*a, "nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16), "NVFP4_S"),
    "mxfp4": (compressed_config("mxfp4-pack-quantized"), lambda *a: compressed(*a, "mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32), "MXFP4"),
    "modelopt": (dict(quant_algo="NVFP4", group_size=16), modelopt, "NVFP4_S"),
    "quark": (dict(quant_method="quark", global_quant_config=dict(weight=dict(dtype="fp4", scale_format="e8m0"))), quark, "MXFP4"),
    "nf4": (BNB, lambda *a: table(*a, "nf4", False, torch.bfloat16), "BF16"),
    "nf4 double": (BNB, lambda *a: table(*a, "nf4", True, torch.float16), "F16"),
    "fp4": (BNB, lambda *a: table(*a, "fp4", True, torch.float32), "F32"),
    "bnb 8": (BNB, vectorwise, "Q8_0"),
}


def made(way):
    config, quantise, kept = WAYS[way]
    model = LlamaForCausalLM(CONFIG).eval().double()
    weights, tensors = {}, {}
    for name, weight in model.state_dict().items():
        if "_proj" in name:
            stem = name.removesuffix(".weight")
            parts, restored = quantise(stem, *weight.shape)
            weights[name] = restored.double()
            for part, t in parts.items():
                entry = [TYPES[t.dtype], list(t.shape)]
                if not hasattr(t, "of_name"):
                    entry.append(base64.b64encode(t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).decode())
                tensors[f"{stem}.{part}"] = entry
        else:
            weights[name] = torch.tensor(values(name, tuple(weight.shape))).double()
            tensors[name] = ["F32", list(weight.shape), None]
    model.load_state_dict(weights)
    ids = [i % 16 for i in IDS]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    keys = ("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings")
    whole = {k: v for k, v in CONFIG.to_dict().items() if k in keys} | {"rope_theta": 10000.0}
    return dict(name=way, config=whole, quantization=config, kept=kept, ids=ids, tensors=tensors, logits=logits_of(logits.numpy()))


if __name__ == "__main__":
    torch.manual_seed(1)
    with open(sys.argv[1], "w") as out:
        for way in WAYS:
            out.write(json.dumps(made(way), separators=(",", ":")) + "\n")
