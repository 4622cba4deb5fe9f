#!/usr/bin/env python3
"""What the tests reach: a table of lines and branches by room, and what nothing reached in a room.

    tests/coverage.py BUILD                     the table, after the tests of a build with --coverage (make coverage)
    tests/coverage.py BUILD --files             the same by file, those with most branches that were not taken first
    tests/coverage.py BUILD --missing core/exec one room, or one file: lines not reached, conditions that went one way only

gcovr reads what gcc's counters left under BUILD.  Branches are those of the source's conditions, as gcov counts them
without optimisation; those of assertions are left out, and those of an inline function count once, not for every file
that includes it.
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
                    "--filter", "core/", "--filter", "ext/", "--filter", "kernels/", "--exclude", ".*/grammar\\.c",
                    "--exclude-lines-by-pattern", r".*\bassert\(.*", "--exclude-unreachable-branches",
                    "--gcov-ignore-parse-errors=all", "--merge-mode-functions=merge-use-line-min",
                    build], check=True, stderr=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as handle:
        return {f["file"]: f["lines"] for f in json.load(handle)["files"]}


def ways(line):
    """How often each branch of a line was taken."""
    taken = collections.Counter()
    for branch in line.get("branches", []):
        if not branch.get("throw") and not branch.get("gcovr/excluded"):
            taken[branch["branchno"]] = max(taken[branch["branchno"]], branch["count"])
    return list(taken.values())


def code(lines):
    return [line for line in lines if not line.get("gcovr/noncode") and not line.get("gcovr/excluded")]


def counted(lines):
    """Lines, lines reached, branches, branches taken."""
    lines = code(lines)
    branches = [count for line in lines for count in ways(line)]
    return (len(lines), sum(line["count"] > 0 for line in lines), len(branches), sum(count > 0 for count in branches))


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


def by_file(files):
    rows = sorted(((name, *counted(lines)) for name, lines in files.items()), key=lambda row: row[4] - row[3])
    print("| file | lines | not reached | branches | not taken |\n|---|---|---|---|---|")
    for name, lines, reached, branches, taken in rows:
        print(f"| {name} | {lines} | {lines - reached} | {branches} | {branches - taken} |")


def missing(files, wanted):
    for name in sorted(files):
        if name == wanted or os.path.dirname(name) == wanted.rstrip("/"):
            with open(name, encoding="utf-8") as handle:
                text = handle.read().split("\n")
            for line in code(files[name]):
                taken = ways(line)
                what = "" if line["count"] == 0 else f"{taken.count(0)} of {len(taken)} ways not taken: "
                if line["count"] == 0 or 0 in taken:
                    print(f"{name}:{line['line_number']}: {what}{text[line['line_number'] - 1].strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--missing", metavar="ROOM")
    parser.add_argument("--files", action="store_true")
    options = parser.parse_args()
    os.chdir(ROOT)
    files = measured(options.build)
    if options.missing:
        missing(files, options.missing)
    elif options.files:
        by_file(files)
    else:
        table(files)


if __name__ == "__main__":
    main()
