#!/usr/bin/env python3
"""Mutation check: does the quick tier of `scoria validate` notice a shader that is wrong?

Each row of mutations.py changes one place of one shader. The variants made of that file are compiled again,
with the build's own commands, into a folder of their own, and tests/mutations/mutant runs validation with them
in the place of ours. A mutant that passes everything survives: it must be explained in mutations.py, or a case
that kills it is missing. Deep tier, a quarter of an hour, on a busy machine an hour:

    tests/mutations/run.py build/test [--root DIR] [--only NAME...] [--results tests/mutations/RESULTS.md]

Kernels for matrix units run nowhere but in the root folder of tools/gates/make_root.sh: with --root DIR their mutants run
there, after the others.
"""
import argparse
import datetime
import json
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from mutations import MATRIX_MUTATIONS, MUTATIONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 300  # of processor time for one mutant: far beyond what a healthy one takes, however busy the machine is


def compile_commands(build):
    """By variant: the shell command that compiles it, and the files it reads."""
    variants = {}
    for line in (build / "shaders/generated/variants.txt").read_text().splitlines():
        name, spv = line.split()[:2]
        if spv == "-":
            continue
        lines = subprocess.run(["ninja", "-C", build, "-t", "commands", f"shaders/{name}.spv"],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        command = next(l for l in lines if f"-o {spv} " in l)
        files = {pathlib.Path(f).name for f in pathlib.Path(spv + ".d").read_text().split()[1:]}
        variants[name] = (re.sub(r" && \S*cmake -E cmake_transform_depfile .*", "", command), spv, files)
    return variants


def mutate(mutation, shaders):
    """Writes the mutated file into the copy of the shaders; returns an error, or None."""
    path = shaders / mutation["file"]
    text = path.read_text()
    if text.count(mutation["search"]) != 1:
        return f"{text.count(mutation['search'])} places in {mutation['file']} match, expected one"
    path.write_text(text.replace(mutation["search"], mutation["replace"]))
    return None


def program(path, folder, root):
    """The start of a command that runs a program of the build, and `folder` as it sees it: with a root folder that has
    `folder`, in there."""
    if not root:
        return [path], folder
    shutil.copy(path, folder)
    inside = "/" / folder.relative_to(root)
    return ["chroot", root, "env", "VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json", inside / path.name], inside


def driver(build, root):
    with tempfile.TemporaryDirectory(dir=f"{root}/tmp" if root else None) as folder:
        command, _ = program(build / "scoria", pathlib.Path(folder), root)
        devices = json.loads(subprocess.run([*command, "devices", "--json"], capture_output=True, text=True).stdout)
    caps = devices[0]["caps"]
    return f"{caps['driver_name']}, {caps['driver_info']}"


def run_one(mutation, build, variants, root):
    """'caught', 'survived' or 'broken', and how."""
    with tempfile.TemporaryDirectory(dir=f"{root}/tmp" if root else None) as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(ROOT / "shaders", folder / "shaders")
        error = mutate(mutation, folder / "shaders")
        if error:
            return "broken", error
        (folder / "spv").mkdir()
        touched = [name for name, (_, _, files) in variants.items() if mutation["file"] in files]
        for name in touched:
            command, spv, _ = variants[name]
            command = command.replace(spv, str(folder / "spv" / f"{name}.spv"))
            command = command.replace(str(ROOT / "shaders"), str(folder / "shaders"))
            made = subprocess.run(command, shell=True, capture_output=True, text=True)
            if made.returncode:
                return "broken", f"{name} does not compile: {(made.stdout + made.stderr).strip()[-300:]}"
        command, inside = program(build / "mutant", folder, root)
        command += [inside / "spv", *mutation["ops"]]
        for _ in range(2):  # a crash counts if it comes again
            ran = subprocess.run(command, capture_output=True, text=True,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1)))
            if ran.returncode == -signal.SIGXCPU:
                return "caught", f"no end after {SECONDS} s of processor time"
            if ran.returncode >= 0:
                break
        says = ran.stdout.strip() or ran.stderr.strip()
        if ran.returncode in (0, 1):
            return ("survived" if ran.returncode == 0 else "caught"), says.splitlines()[-1] if says else ""
        return ("broken", says) if ran.returncode == 2 else ("caught", f"the process ended with {ran.returncode}")


def write_results(path, rows, drivers):
    caught = sum(row[1] == "caught" for row in rows)
    out = ["# Mutation check of `scoria validate`\n",
           f"Made by tests/mutations/run.py, {datetime.date.today()}: {caught} of {len(rows)} mutants were caught by the quick "
           f"tier on {'; those of matrix units on '.join(drivers)}.\n"]
    survivors = [row for row in rows if row[1] != "caught"]
    if survivors:
        out.append("\n## Survivors\n\n")
        out += [f"- **{m['name']}** ({m['file']}): {m.get('why', 'not explained')}\n" for m, *_ in survivors]
    out.append("\n## All\n\n| mutant | file | what is wrong | verdict | first failure | s |\n|---|---|---|---|---|---|\n")
    for mutation, verdict, how, seconds in rows:
        text = " ".join(how.split()).replace("|", "\\|")
        out.append(f"| {mutation['name']} | {mutation['file']} | {mutation['what']} | {verdict} | {text[:160]} | "
                   f"{seconds:.0f} |\n")
    path.write_text("".join(out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", help="names of mutations; none: the shaders as they are, which must pass")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path)
    args = parser.parse_args()
    build = args.build.resolve()
    subprocess.run(["ninja", "-C", build, "mutant", "scoria"], check=True, stdout=subprocess.DEVNULL)
    variants = compile_commands(build)
    rows = []
    roots = [None, args.root] if args.root else [None]
    for root in roots:
        for mutation in MATRIX_MUTATIONS if root else MUTATIONS:
            if args.only is not None and mutation["name"] not in args.only:
                continue
            start = time.monotonic()
            verdict, how = run_one(mutation, build, variants, root)
            rows.append((mutation, verdict, how, time.monotonic() - start))
            print(f"{verdict:9} {mutation['name']}: {how[:150]} ({rows[-1][3]:.0f} s)", flush=True)
    if args.results:
        write_results(args.results, rows, [driver(build, root) for root in roots])
    unexplained = [m["name"] for m, verdict, *_ in rows if verdict == "broken" or (verdict == "survived" and "why" not in m)]
    print(f"{len(rows)} mutants, {sum(r[1] == 'caught' for r in rows)} caught; unexplained: {unexplained or 'none'}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
