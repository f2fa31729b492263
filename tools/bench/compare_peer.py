#!/usr/bin/env python3
"""Compares Scoria with llama.cpp's Vulkan and CPU backends: same model, same threads, alternating in one run.

    tools/bench/compare_peer.py --model M.gguf [--peer-bin FOLDER] [--rounds 3] [--check]

Prints a markdown block for RESULTS.md. Machines are shared and clocks drift, so what counts is the ratio
inside one round; all programs run in every round and the one that goes first changes. The peer's start with
empty shader caches takes minutes, so only the first round measures it. VK_DRIVER_FILES selects the driver, as
usual.

The peer is the llama.cpp inside the PyPI source package llama-cpp-python, pinned by checksum, built by its
own CMake with GGML_VULKAN=ON and fully optimised; --peer-bin takes a folder with a llama-bench and a
llama-simple built elsewhere. Building needs pip, cmake, ninja, glslc and a C++ compiler. The peer's shaders use
what its glslc knows (integer dot products, matrices): the report names it, and --glslc takes a newer one.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# Ratios asked for on a CPU driver: (row, unit, what it says, times better than each backend of the peer).
ROWS = [
    ("decode", "tok/s", "decode, {n} tokens from an empty cache", {"Vulkan": 6, "CPU": 0.3}),
    ("prompt", "tok/s", "prompt, {p} tokens", {"Vulkan": 2, "CPU": 0.3}),
    ("cold", "s", "first token, every shader cache empty", {"Vulkan": 20}),
    ("warm", "s", "first token, shader caches filled by one run", {"Vulkan": 3}),
]


def stop(text):
    sys.exit(f"[compare_peer] {text}")


def say(*words):
    print("[compare_peer]", *words, file=sys.stderr, flush=True)


def run(command, **options):
    """Runs a command; its standard output as text, or a stop that shows the end of what it said."""
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, **options)
    if done.returncode != 0:
        stop(f"expected success of {shlex.join(map(str, command))}, got exit code {done.returncode}:\n"
             + (done.stdout + done.stderr)[-2000:])
    return done.stdout


# --- the peer, from PyPI ---------------------------------------------------------------------------------

def vulkan_headers(work):
    """CMake options for headers new enough for the peer; Debian 12's are not, trixie's are unpacked aside."""
    system = pathlib.Path("/usr/include/vulkan/vulkan_core.h")
    if system.exists() and "VK_VERSION_1_4" in system.read_text():
        return []
    root = work / "headers"
    if not root.exists():
        root.mkdir()
        run(["apt-get", "download", "libvulkan-dev/trixie", "spirv-headers/trixie"], cwd=root)
        for package in root.glob("*.deb"):
            run(["dpkg", "-x", package, root])
    return [f"-DVulkan_INCLUDE_DIR={root}/usr/include",
            f"-DSPIRV-Headers_DIR={root}/usr/share/cmake/SPIRV-Headers"]


def cpu_options():
    """The instruction sets of this CPU by hand: the peer's native build stops with an illegal instruction
    on some virtual machines. AVX2, FMA and F16C are its default."""
    flags = set(re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[1].split())
    options = {"AVX512": {"avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"},
               "AVX512_VBMI": {"avx512vbmi"}, "AVX512_VNNI": {"avx512_vnni"}, "AVX512_BF16": {"avx512_bf16"}}
    return ["-DGGML_NATIVE=OFF"] + [f"-DGGML_{option}=ON" for option, needs in options.items() if needs <= flags]


def shader_compiler(peer_bin):
    """What compiled the shaders of a peer, by the build folder around its programs."""
    cache = pathlib.Path(peer_bin).parent / "CMakeCache.txt"
    found = re.search(r"^Vulkan_GLSLC_EXECUTABLE:FILEPATH=(.+)$", cache.read_text(), re.M) if cache.exists() else None
    return "a glslc unknown here" if found is None else run([found[1], "--version"]).splitlines()[0]


def build_peer(work, jobs, glslc):
    for tool in ("cmake", "ninja", glslc, "c++"):
        if not shutil.which(tool):
            stop(f"expected {tool} on the path to build the peer, got none")
    work.mkdir(parents=True, exist_ok=True)
    archives = list(work.glob("*.tar.gz"))
    if not archives:
        say("downloading", PACKAGE, VERSION)
        run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", PACKAGE,
             f"{PACKAGE}=={VERSION}", "-d", work])
        archives = list(work.glob("*.tar.gz"))
    found = hashlib.sha256(archives[0].read_bytes()).hexdigest()
    if found != SHA256:
        stop(f"expected {archives[0].name} with SHA-256 {SHA256}, got {found}")
    with tarfile.open(archives[0]) as archive:
        folder = work / archive.getnames()[0].split("/")[0]
        if not folder.exists():
            archive.extractall(work)
    say("building the peer, several minutes:", work / "build")
    run(["cmake", "-S", folder / "vendor/llama.cpp", "-B", work / "build", "-GNinja",
         "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DGGML_VULKAN=ON", "-DLLAMA_CURL=OFF",
         "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_SERVER=OFF", f"-DVulkan_GLSLC_EXECUTABLE={shutil.which(glslc)}",
         *cpu_options(), *vulkan_headers(work)])
    run(["cmake", "--build", work / "build", "-j", str(jobs), "--target", "llama-bench", "llama-simple"])
    return work / "build/bin"


# --- the programs ----------------------------------------------------------------------------------------

class Program:
    """One of the three, with shader caches of its own, which begin empty. `first` is the command of a first token, for
    those whose start is compared."""

    def __init__(self, name, bench, rates, first=None, environment=None):
        self.name, self.bench_command, self.rates, self.first_command = name, bench, rates, first
        self.environment = environment or {}
        self.caches = tempfile.TemporaryDirectory(prefix="scoria-bench-")

    def env(self):
        folder = self.caches.name
        return os.environ | self.environment | {
            "XDG_CACHE_HOME": folder, "MESA_SHADER_CACHE_DIR": folder, "__GL_SHADER_DISK_CACHE_PATH": folder}

    def first_token(self):
        """Seconds from the start of the process to the first byte that it streams, and all of its text."""
        with tempfile.TemporaryFile() as errors:
            start = time.monotonic()
            process = subprocess.Popen(self.first_command, env=self.env(), stdout=subprocess.PIPE,
                                       stderr=errors)
            text = os.read(process.stdout.fileno(), 1)
            seconds = time.monotonic() - start
            text += process.stdout.read()
            if process.wait() != 0 or not text:
                errors.seek(0)
                stop(f"expected a first token from {shlex.join(self.first_command)}, got exit code "
                     f"{process.returncode}:\n" + errors.read().decode(errors="replace")[-2000:])
        return seconds, text.decode(errors="replace")

    def measure(self, cold):
        """One round: cold where asked, then warm, then the rates, with the caches that the cold run filled."""
        figures = {}
        if self.first_command:
            if cold:
                figures["cold"], self.text = self.first_token()
            figures["warm"], _ = self.first_token()
        self.report = json.loads(run(self.bench_command, env=self.env()))
        figures |= self.rates(self.report)
        say(self.name, {key: round(value, 3) for key, value in figures.items()})
        return figures


def programs(args, peer_bin):
    p, n = args.prompt_tokens, args.decode_tokens

    def scoria_rates(report):
        rows = {row["test"]: row["tokens_per_second"] for row in report["rows"]}
        return {"prompt": rows[f"pp{p}"], "decode": rows[f"tg{n}"]}

    def peer_rates(report):
        rows = {(row["n_prompt"], row["n_gen"]): row["avg_ts"] for row in report}
        return {"prompt": rows[p, 0], "decode": rows[0, n]}

    sizes = ["-m", args.model, "-p", str(p), "-n", str(n), "-r", "1"]
    peer_bench = [f"{peer_bin}/llama-bench", *sizes, "-t", str(args.threads), "-o", "json"]
    # llama-simple streams its first bytes, prompt included, when the first token is there. The peer skips CPU
    # drivers unless a device is named.
    return [
        Program("Scoria", [args.scoria, "bench", *sizes, "--json", *args.scoria_args], scoria_rates,
                [args.scoria, "run", "-m", args.model, "--raw", "-p", args.text, "-n", "1", "--temp", "0",
                 *args.scoria_args]),
        Program("Vulkan", [*peer_bench, "-ngl", "99"], peer_rates,
                [f"{peer_bin}/llama-simple", "-m", args.model, "-ngl", "99", "-n", "1", args.text],
                {"GGML_VK_VISIBLE_DEVICES": str(args.peer_device)}),
        Program("CPU", [*peer_bench, "-ngl", "0", "-dev", "none"], peer_rates),
    ]


# --- the report ------------------------------------------------------------------------------------------

def machine():
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores"


def ratios(rounds, row, unit, peer):
    """Times better than that backend of the peer, in each round that measured both."""
    both = [(figures["Scoria"][row], figures[peer][row]) for figures in rounds if row in figures[peer]]
    return [ours / its if unit == "tok/s" else its / ours for ours, its in both]


def table(rounds, args):
    """Markdown lines, and whether every ratio reached what is asked for."""
    peers = ("Vulkan", "CPU")
    lines = ["| | Scoria | " + " | ".join(f"llama.cpp, {peer} | times better (asked for)" for peer in peers) + " |",
             "|---|---|---|---|---|---|"]
    reached = True
    for row, unit, text, asked in ROWS:
        def median(program):
            middle = statistics.median(figures[program][row] for figures in rounds if row in figures[program])
            return f"{middle:.2f} {unit}"
        cells = [text.format(n=args.decode_tokens, p=args.prompt_tokens), median("Scoria")]
        for peer in peers:
            if peer not in asked:
                cells += ["", ""]
                continue
            better = ratios(rounds, row, unit, peer)
            middle = statistics.median(better)
            reached = reached and middle >= asked[peer]
            span = f"; {min(better):.2f} to {max(better):.2f}" if len(better) > 1 else ""
            cells += [median(peer), f"{middle:.2f}{span} ({asked[peer]})"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines, reached


def report(rounds, load, ours, peer, compiler, args):
    """Prints the block for RESULTS.md; true if every ratio reached what is asked for."""
    lines, reached = table(rounds, args)
    said = ours.report
    peer_text = peer.text.replace(args.text, "", 1).strip()
    print(f"### {datetime.date.today()}, {said['device']}, {said['driver']}\n")
    print(f"{machine()}, {args.threads} threads each; {len(rounds)} rounds, load before each "
          f"{', '.join(f'{x:.1f}' for x in load)}; model "
          f"{os.path.basename(args.model)}; Scoria --precision {said['precision']}; peer {PACKAGE} {VERSION}, "
          f"shaders by {compiler}. "
          f"First token of {args.text!r}: Scoria {ours.text.strip()!r}, llama.cpp {peer_text!r}.\n")
    print("\n".join(lines))
    step = said["step"]
    print(f"\nScoria's decode step: {step['dispatches']} dispatches ({step['dispatches_per_layer']:.2f} per "
          f"layer), {step['barriers']} barriers, {step['submit_cpu_us']:.0f} us of CPU to submit; "
          f"{said['pipelines']} pipelines.")
    shown = [os.path.basename(word) if word.startswith("/") else word for word in sys.argv[1:]]
    print(f"Command: `tools/bench/compare_peer.py {shlex.join(shown)}`")
    return reached


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", required=True, help="a GGUF file")
    add("--scoria", default=str(REPOSITORY / "build/release/scoria"), help="the program")
    add("--scoria-args", type=shlex.split, default=[], help="more flags for it: --scoria-args='--precision fast'")
    add("--peer-bin", help="folder of a peer already built; default: built from PyPI")
    add("--peer-work", type=pathlib.Path, default=REPOSITORY / ".cache/peer", help="where it is built")
    add("--glslc", default="glslc", help="which compiles its shaders, where it is built")
    add("--peer-device", type=int, default=0, help="the peer's number of the device")
    add("--rounds", type=int, default=3)
    add("--prompt-tokens", type=int, default=512)
    add("--decode-tokens", type=int, default=32)
    add("--text", default="The capital of France is", help="the prompt of the first-token runs")
    add("--threads", type=int, default=os.cpu_count(), help="of the peer on the CPU; drivers choose their own")
    add("--jobs", type=int, default=os.cpu_count(), help="of the peer's build")
    add("--check", action="store_true", help="exit code 1 if a ratio is below what is asked for")
    args = parser.parse_args()
    for file in (args.model, args.scoria):
        if not os.path.isfile(file):
            stop(f"expected a file, got {file}")
    return args


def main():
    args = arguments()
    peer_bin = args.peer_bin or build_peer(args.peer_work.resolve(), args.jobs, args.glslc)
    compared = programs(args, peer_bin)
    with open(args.model, "rb") as file:  # into the page cache, for whichever goes first
        while file.read(1 << 24):
            pass
    rounds, load = [], []
    for number in range(args.rounds):
        load.append(os.getloadavg()[0])
        order = compared if number % 2 == 0 else compared[::-1]
        rounds.append({program.name: program.measure(cold=number == 0) for program in order})
    if not report(rounds, load, *compared[:2], shader_compiler(peer_bin), args) and args.check:
        sys.exit(1)


if __name__ == "__main__":
    main()
