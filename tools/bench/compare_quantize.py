#!/usr/bin/env python3
"""Compares `scoria quantize` with llama.cpp's quantize: the same source, each type, one engine for both results.

    tools/bench/compare_quantize.py --model F32.gguf --text TEXT --peer-quantize llama-quantize
        [--peer-perplexity llama-perplexity] [--peer-run llama-simple] [--scoria build/release/scoria]
        [--tokens 2048] [--types Q8_0 Q4_K_M ...]

Prints a markdown block for RESULTS.md: perplexity of the first tokens of TEXT, of the source and of both files of
each type, under `scoria perplexity` or, with --peer-perplexity, under the peer's on its CPU back end (windows of
512, of which the second halves count). --peer-run makes the peer generate four tokens from each of our files, which
must succeed. The source should be F32 or BF16; files are made in a temporary folder, two at a time.
VK_DRIVER_FILES selects Scoria's driver, as usual. Exit code 1 if a type is worse than the peer's by more than 1 %.
"""

import argparse
import datetime
import json
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TYPES = ["Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_NL", "Q3_K_L",
         "Q3_K_M", "Q3_K_S", "Q2_K", "BF16", "F16", "INT8"]
NOT_OF_THE_PEER = {"INT8"}


def say(*words):
    print("[compare_quantize]", *words, file=sys.stderr, flush=True)


def run(*command, stderr=False):
    command = [str(part) for part in command]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"[compare_quantize] expected success of {shlex.join(command)}, got exit code {done.returncode}:\n"
                 + (done.stdout + done.stderr)[-2000:])
    return done.stdout + done.stderr if stderr else done.stdout


def tensor_types(path):
    """Name -> number of the type, from the header of a GGUF file."""
    widths = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    with open(path, "rb") as file:
        def number(code):
            return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]

        def text():
            return file.read(number("Q"))

        def skip(kind):
            if kind == 8:
                text()
            elif kind == 9:
                of, count = number("I"), number("Q")
                for _ in range(count):
                    skip(of)
            else:
                file.read(widths[kind])

        file.read(8)
        tensors, pairs = number("Q"), number("Q")
        for _ in range(pairs):
            text()
            skip(number("I"))
        types = {}
        for _ in range(tensors):
            name = text()
            file.read(8 * number("I"))
            types[name] = number("I")
            file.read(8)
        return types


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="source, F32 or BF16")
    parser.add_argument("--text", required=True)
    parser.add_argument("--peer-quantize", required=True)
    parser.add_argument("--peer-perplexity")
    parser.add_argument("--peer-run")
    parser.add_argument("--scoria", default=REPOSITORY / "build/release/scoria")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--types", nargs="+", default=TYPES)
    options = parser.parse_args()

    def perplexity(model):
        if options.peer_perplexity:
            out = run(options.peer_perplexity, "-m", model, "-f", options.text, "-c", 512, "--chunks",
                      max(options.tokens // 512, 1), "-ngl", 0, stderr=True)
            found = re.search(r"Final estimate: PPL = ([0-9.]+) \+/- ([0-9.]+)", out)
            return float(found[1]), float(found[2])
        out = json.loads(run(options.scoria, "perplexity", "-m", model, "-f", options.text, "-n", options.tokens,
                             "--json", "--precision", "strict"))
        return out["perplexity"], out["perplexity_error"]

    source, error = perplexity(options.model)
    print(f"{datetime.date.today()}, first {options.tokens} tokens of {pathlib.Path(options.text).name}, source "
          f"{pathlib.Path(options.model).name}: perplexity {source:.3f} ± {error:.3f}\n")
    print("| type | bytes | perplexity, peer's file | Scoria's file | ratio | types of tensors |\n|---|---|---|---|---|---|")
    worse = []
    for kind in options.types:
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = pathlib.Path(folder) / "ours.gguf", pathlib.Path(folder) / "theirs.gguf"
            run(options.scoria, "quantize", options.model, ours, "--type", kind)
            mine, _ = perplexity(ours)
            if options.peer_run:
                run(options.peer_run, "-m", ours, "-ngl", 0, "-n", 4, "Alice was")
            if kind in NOT_OF_THE_PEER:
                print(f"| {kind} | {ours.stat().st_size} | | {mine:.3f} | | |", flush=True)
                continue
            run(options.peer_quantize, options.model, theirs, kind)
            peer, _ = perplexity(theirs)
            same = tensor_types(ours) == tensor_types(theirs)
            print(f"| {kind} | {ours.stat().st_size} | {peer:.3f} | {mine:.3f} | {mine / peer:.4f} | "
                  f"{'equal' if same else 'DIFFERENT'} |", flush=True)
            if mine > 1.01 * peer or not same:
                worse.append(kind)
    if worse:
        say("worse than the peer's by more than 1 %, or of other types:", *worse)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
