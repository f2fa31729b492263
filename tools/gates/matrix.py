#!/usr/bin/env python3
"""The table of tools/validate.md: which kernels were proven on which driver, and which compiled for which GPU.

    tools/gates/matrix.py NAME=REPORT.json[,REPORT.json...]...

REPORT.json is of `scoria validate --json REPORT.json` (a driver that runs) or of compile_only.py --reports (a GPU whose
compiler ran; several share a column). A row is an op; a cell counts the variants and the cases that passed, or the GPUs
for which all its pipelines compiled.
Exit code 1 if anything failed.
"""

import json
import sys
from pathlib import Path


def column(reports):
    """Cells by op of a run, or how many GPUs there are; and what failed, by op."""
    if "runs" not in reports[0]:
        return len(reports), {op: report["device"] for report in reports for op in report["failures"]}
    cells, failed = {}, {}
    (report,) = reports
    for run in report["runs"]:
        for result in run["results"]:
            variants, passed = cells.setdefault(result["op"], (set(), []))
            variants.add(result["variant"])
            passed.append(result["passed"])
            if not result["passed"]:
                failed[result["op"]] = result.get("detail", "")
    return cells, failed


def cell(cells, failed, op):
    if isinstance(cells, int):
        return f"FAILED on {failed[op]}" if op in failed else f"all {cells} compile"
    if op not in cells:
        return ""
    variants, passed = cells[op]
    if not all(passed):
        return f"{passed.count(False)} of {len(passed)} FAILED"
    return f"{len(variants)} variants, {len(passed)} cases" if len(variants) > 1 else f"{len(passed)} cases"


def main(arguments):
    if not arguments or any("=" not in argument for argument in arguments):
        sys.exit(__doc__)
    columns = {}
    for argument in arguments:
        name, paths = argument.split("=", 1)
        columns[name] = column([json.loads(Path(path).read_text()) for path in paths.split(",")])
    ops = list(dict.fromkeys(op for cells, _ in columns.values() if isinstance(cells, dict) for op in cells))
    print("| op |" + "".join(f" {name} |" for name in columns))
    print("|---|" + "---|" * len(columns))
    for op in ops:
        print(f"| {op} |" + "".join(f" {cell(cells, failed, op)} |" for cells, failed in columns.values()))
    return 1 if any(failed for _, failed in columns.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
