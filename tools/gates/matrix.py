#!/usr/bin/env python3
"""The table of README: which kernels were proven on which driver, and which compiled for which GPU.

    tools/gates/matrix.py NAME=REPORT.json...

REPORT.json is of `scoria validate --json REPORT.json` (a driver that runs) or of compile_only.py --reports (a GPU whose
compiler ran). A row is an op; a cell counts the variants and the cases that passed, or says that all pipelines compiled.
Exit code 1 if anything failed.
"""

import json
import sys


def column(report):
    """Cells by op of one report, and whether all is well."""
    if "runs" not in report:
        return None, report["failures"]
    cells, failed = {}, {}
    for run in report["runs"]:
        for result in run["results"]:
            variants, passed = cells.setdefault(result["op"], (set(), []))
            variants.add(result["variant"])
            passed.append(result["passed"])
            if not result["passed"]:
                failed[result["op"]] = result.get("detail", "")
    return cells, failed


def cell(cells, failed, op):
    if cells is None:
        return "FAILED" if op in failed else "compiles"
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
        name, path = argument.split("=", 1)
        with open(path) as file:
            columns[name] = column(json.load(file))
    ops = list(dict.fromkeys(op for cells, _ in columns.values() for op in cells or {}))
    print("| op |" + "".join(f" {name} |" for name in columns))
    print("|---|" + "---|" * len(columns))
    for op in ops:
        print(f"| {op} |" + "".join(f" {cell(cells, failed, op)} |" for cells, failed in columns.values()))
    return 1 if any(failed for _, failed in columns.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
