"""Weights that are made of their tensors' names, as made_models.h makes them."""
import math
import numpy as np

IDS = [(7 * i * i + 3 * i + 5) % 61 + 3 for i in range(24)]
SOURCE = [(5 * i * i + 11 * i + 4) % 61 + 3 for i in range(17)]  # of an encoder
ROWS = (0, 11, 23)


def values(name, shape):
    """Of a tensor's name: splitmix64 of its FNV-1a hash, scaled to keep the stream's size."""
    mask = 2**64 - 1
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 & mask
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    u = ((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    if len(shape) > 1 and shape[0] > 1:
        u = u * 2.5 / math.sqrt(shape[-1])
    elif ("norm" in name and name.endswith("weight")) or name.endswith(("scale", "scalar", "freqs.weight")):
        u = 1 + 0.3 * u
    elif name.endswith("ssm_a"):  # decays, below 0
        u = 0.3 * u - 1
    else:
        u = 0.3 * u
    return u.astype(np.float32).reshape(shape)


def logits_of(rows):
    return {str(row): [float(f"{x:.7g}") for x in rows[row]] for row in ROWS}
