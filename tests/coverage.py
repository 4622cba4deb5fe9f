#!/usr/bin/env python3
"""What the tests reach: a table of lines and branches by room, and the lines of a room that nothing reached.

    tests/coverage.py BUILD                     the table, after the tests of a build with --coverage (make coverage)
    tests/coverage.py BUILD --missing core/exec the lines of one room, or of one file, that were not reached

gcovr reads what gcc's counters left under BUILD.  Branches are those of the source's conditions, as gcov counts them
without optimisation; those that only an assertion's failure takes are left out.
"""
import argparse
import collections
import json
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def measured(build):
    """gcovr's report: file -> its lines."""
    out = os.path.join(build, "coverage.json")
    subprocess.run([sys.executable, "-m", "gcovr", "--root", ".", "--object-directory", build, "--json", out,
                    "--filter", "core/", "--filter", "ext/", "--filter", "kernels/", "--exclude", "core/base/cjson/",
                    "--exclude-lines-by-pattern", r".*\bassert\(.*", "--exclude-unreachable-branches",
                    "--gcov-ignore-parse-errors=all", "--merge-mode-functions=merge-use-line-min",
                    build], check=True, stderr=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as handle:
        return {f["file"]: f["lines"] for f in json.load(handle)["files"]}


def counted(lines):
    """Lines, lines reached, branches, branches taken."""
    code = [line for line in lines if not line.get("gcovr/noncode")]
    branches = [b for line in code for b in line.get("branches", []) if not b.get("throw")]
    return (len(code), sum(line["count"] > 0 for line in code), len(branches), sum(b["count"] > 0 for b in branches))


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(files):
    rooms = collections.defaultdict(lambda: [0, 0, 0, 0])
    for name, lines in files.items():
        for key in (os.path.dirname(name), "core/ and ext/" if not name.startswith("kernels/") else None):
            if key:
                rooms[key] = [a + b for a, b in zip(rooms[key], counted(lines))]
    print("| room | lines | reached | branches | taken |\n|---|---|---|---|---|")
    for room in sorted(rooms, key=lambda r: (" " in r, r)):
        lines, reached, branches, taken = rooms[room]
        print(f"| {room} | {lines} | {share(reached, lines)} | {branches} | {share(taken, branches)} |")


def missing(files, wanted):
    for name in sorted(files):
        if name == wanted or os.path.dirname(name) == wanted.rstrip("/"):
            with open(name, encoding="utf-8") as handle:
                text = handle.read().split("\n")
            for line in files[name]:
                if line["count"] == 0 and not line.get("gcovr/noncode"):
                    print(f"{name}:{line['line_number']}: {text[line['line_number'] - 1].strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--missing", metavar="ROOM")
    options = parser.parse_args()
    os.chdir(ROOT)
    files = measured(options.build)
    if options.missing:
        missing(files, options.missing)
    else:
        table(files)


if __name__ == "__main__":
    main()
