#!/usr/bin/env python3
"""What the real compilers of GPUs make of Scoria's kernels, on a machine that has none of those GPUs.

    tools/gates/compile_only.py --scoria build/release/scoria [--model MODEL.gguf] [--root DIR] [GPU...]

Mesa's drivers run on fake kernel devices (package mesa-drm-shim): pipelines are compiled by the GPU's own compiler and
nothing executes. Without --model all kernels of a tier are compiled, with it those that the model uses. --root is
another root folder to run in, for a newer Mesa (see make_root.sh). Prints a markdown table, and details with --verbose.
Exit code 1 if a pipeline does not compile, or spills registers and is not among those explained below.
"""

import argparse
import glob
import json
import os
import subprocess
import sys

# name: (driver's json, shim, variable that names the GPU, its value)
GPUS = {name: ("radeon", "amdgpu", "AMDGPU_GPU_ID", name)
        for name in ("polaris10", "vega10", "navi10", "navi21", "navi31", "gfx1201")}
GPUS |= {
    "hd530": ("intel", "intel", "INTEL_STUB_GPU_PLATFORM", "skl"),
    "iris-xe": ("intel", "intel", "INTEL_STUB_GPU_PLATFORM", "tgl"),
    "arc-a770": ("intel", "intel", "INTEL_STUB_GPU_PLATFORM", "dg2"),
    "arc-b580": ("intel", "intel", "INTEL_STUB_GPU_DEVICE_ID", "0xe20b"),
    "lunar-lake": ("intel", "intel", "INTEL_STUB_GPU_PLATFORM", "lnl"),
    "pascal": ("nouveau", "nouveau", "NOUVEAU_CHIPSET", "130"),
    "turing": ("nouveau", "nouveau", "NOUVEAU_CHIPSET", "162"),
    "ampere": ("nouveau", "nouveau", "NOUVEAU_CHIPSET", "172"),
    "ada": ("nouveau", "nouveau", "NOUVEAU_CHIPSET", "192"),
    "adreno740": ("freedreno", "freedreno", "FD_GPU_ID", "740"),
    "m1": ("asahi", "asahi", "ASAHI_GPU", "m1"),
}

# (GPU, kernel): known to spill, and why it is the default all the same.
INTEL = ("hd530", "iris-xe", "arc-a770", "arc-b580", "lunar-lake")
EXPLAINED = {(gpu, "attention_tile"): "heads of 576 dims, 72 sums a lane of the smallest tile" for gpu in INTEL}
EXPLAINED |= {(gpu, "linear_vec_sg"): "1 to 3 words of some types at four tokens a lane; two pairs a lane are never the default"
              for gpu in ("hd530", "iris-xe", "arc-a770")}
EXPLAINED |= {(gpu, "attention_vec_sg"): "quantised caches and heads wider than 64 dims; fewer queries a group read the cache more often, "
                                         "which wants a measurement there" for gpu in INTEL}
EXPLAINED |= {(gpu, kernel): "heads wider than 256 dims (latents have 576); adreno740: than 128"
              for gpu in ("arc-b580", "lunar-lake", "turing", "ampere", "ada", "adreno740", "m1")
              for kernel in ("attention_vec", "attention_vec_sg") if (gpu, kernel) not in EXPLAINED}
EXPLAINED |= {(gpu, "linear_tile_half"): "offered and never the default there: pairs of halves gain nothing"
              for gpu in INTEL}
EXPLAINED |= {(gpu, "linear_coop"): "3 to 8 words, of Q6_K alone" for gpu in ("arc-b580", "lunar-lake")}
EXPLAINED |= {(gpu, "linear_coop"): "64 rows x 64 tokens a subgroup alone, offered and never the default"
              for gpu in ("turing", "ampere", "ada")}
EXPLAINED |= {(gpu, kernel): "offered and never the default there: four rows of many tokens a lane"
              for gpu in (*INTEL, "adreno740", "m1") for kernel in ("linear_group", "linear_group_int", "linear_group_wide")}
EXPLAINED |= {(gpu, "sample_pick_sg"): "33 words, once a token" for gpu in ("hd530", "iris-xe", "arc-a770")}
EXPLAINED["hd530", "sample_scan_sg"] = "a word, once in 512 logits"
EXPLAINED |= {(gpu, "wkv_unrolled"): "5 or 6 words, of heads of 128 keys alone; RWKV-7's have 64"
              for gpu in ("hd530", "iris-xe", "arc-a770")}
EXPLAINED["vega10", "attention_vec_sg"] = "4 scalars of heads of 64 dims, which go to lanes of a vector register and not to memory"
EXPLAINED |= {(gpu, "attention_coop2"): "8 to 16 scalars of heads of 130 dims, likewise; RADV lists its extension on demand only"
              for gpu in ("navi31", "gfx1201")}
EXPLAINED["polaris10", "attention_vec"] = "2 scalars, Mesa 25.0; has no need of emulated subgroups"
EXPLAINED |= {("hd530", kernel): "has no integer dot products in hardware, so never runs it unless forced"
              for kernel in ("linear_tile_int", "linear_vec_int")}


def find(root, *patterns):
    for pattern in patterns:
        found = sorted(glob.glob(root + pattern))
        if found:
            return found[0][len(root):]
    return None


def compile_on(name, options):
    """The report of one GPU, or a sentence that says why there is none."""
    driver, shim, variable, value = GPUS[name]
    root = options.root.rstrip("/")
    icd = find(root, f"/usr/share/vulkan/icd.d/{driver}_icd*.json")
    library = find(root, f"/usr/lib/*/lib{shim}_noop_drm_shim.so", f"/usr/local/lib/lib{shim}_noop_drm_shim.so")
    if not icd or not library:
        return f"no {'driver' if not icd else 'shim'} for {driver}"
    scoria = options.scoria if root else os.path.abspath(options.scoria)
    command = [scoria, "validate", "--compile-only", "--json"]
    command += ["-m", options.model] if options.model else []
    command += ["--full"] if options.full else []
    command += ["--op", options.op] if options.op else []
    settings = {"LD_PRELOAD": library, variable: value, "VK_DRIVER_FILES": icd, "MESA_SHADER_CACHE_DISABLE": "true",
                "XDG_CACHE_HOME": "/dev/null", "radv_cooperative_matrix2_nv": "true"}  # RADV lists it on demand only
    line = ["env", *(f"{key}={text}" for key, text in settings.items()), *command]
    ran = subprocess.run((["chroot", root] if root else []) + line, capture_output=True, text=True, timeout=1800)
    try:
        return json.loads(ran.stdout)
    except json.JSONDecodeError:
        return f"exit code {ran.returncode}: {ran.stderr.strip()[-200:]}"


def spilling(report):
    return [e for e in report["executables"] if e.get("spills", 0) > 0]


def describe(executable):
    constants = " ".join(f"{key}={value}" for key, value in executable.get("constants", {}).items())
    facts = ", ".join(f"{executable[key]:.0f} {key}" for key in ("instructions", "registers", "spills", "occupancy")
                      if key in executable)
    return f"{executable['module']} ({constants}), subgroup {executable['subgroup']}: {facts}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scoria", required=True, help="the program, as seen from the root folder")
    parser.add_argument("--model", help="likewise")
    parser.add_argument("--full", action="store_true", help="without --model: the full tier's kernels")
    parser.add_argument("--op", help="without --model: this one's alone")
    parser.add_argument("--root", default="")
    parser.add_argument("--reports", help="folder that gets every GPU's report, GPU.json, for matrix.py")
    parser.add_argument("--verbose", action="store_true", help="list every executable")
    parser.add_argument("gpus", nargs="*", metavar="GPU", help=f"of {', '.join(GPUS)}; default: all")
    options = parser.parse_args()
    unknown = set(options.gpus) - set(GPUS)
    if unknown:
        parser.error(f"expected GPUs of {', '.join(GPUS)}, got {', '.join(sorted(unknown))}")

    failed, details = False, []
    print("| GPU | as its driver calls it | pipelines | failed | spill | most registers | compile |")
    print("|---|---|---|---|---|---|---|")
    for name in options.gpus or GPUS:
        report = compile_on(name, options)
        if isinstance(report, str):
            print(f"| {name} | not compiled: {report} | | | | | |")
            failed = failed or bool(options.gpus)
            continue
        if options.reports:
            os.makedirs(options.reports, exist_ok=True)
            with open(os.path.join(options.reports, f"{name}.json"), "w") as file:
                json.dump(report, file)
        spills = spilling(report)
        unexplained = [e for e in spills if (name, e["module"]) not in EXPLAINED]
        registers = max((e.get("registers", 0) for e in report["executables"]), default=0)
        print(f"| {name} | {report['device'].strip()}, {report['driver']} | {report['pipelines']} | "
              f"{len(report['failures'])} | {len(spills)} of {len(report['executables'])} | {registers:.0f} | "
              f"{report['seconds']:.1f} s |", flush=True)
        failed = failed or bool(report["failures"] or unexplained)
        details += [f"{name}: {what}: {why}" for what, why in report["failures"].items()]
        details += [f"{name}: {describe(e)}" + ("" if e in unexplained or e not in spills
                                                else f" ({EXPLAINED[name, e['module']]})")
                    for e in (report["executables"] if options.verbose else spills)]
    print("\n" + "\n".join(details) if details else "", end="\n" if details else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
