#!/usr/bin/env python3
"""The size of the product, as a test: how many lines each room has, and how many it may have.

tests/budget.txt has a line for each room: its name and the most lines that it may have.  A line of the product is a line of
a .c, .h, .cu, .cuh, .y or .sql file in core, ext, kernels or sql, comments and empty lines too.

Without an argument: prints each room that has more lines than it may, or more than SLACK fewer (its number is then to be
lowered); exit status 1 where there is one.  `--table` prints a row for each room.  `--lower` writes the number of lines that
a room has wherever that is lower.  A number is raised by hand, in the commit of a decision page that says why.
"""
import collections
import os
import subprocess
import sys

ENDS = (".c", ".h", ".cu", ".cuh", ".y", ".sql")
BUDGET = "tests/budget.txt"
SLACK = 200  # lines that a room may be below its number before the number is lowered


def room_of(file):
    """The first two folders of a file in core/, the first of any other."""
    parts = os.path.dirname(file).split("/")
    return "/".join(parts[:2]) if parts[0] == "core" else parts[0]


def counted():
    """room -> lines."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "core", "ext", "kernels", "sql"],
                            capture_output=True, text=True, check=True).stdout.split()
    lines = collections.Counter()
    for file in sorted(set(listed)):
        if file.endswith(ENDS) and os.path.exists(file):
            with open(file, encoding="utf-8") as handle:
                lines[room_of(file)] += sum(1 for _ in handle)
    return lines


def allowed():
    """room -> the most lines."""
    with open(BUDGET, encoding="utf-8") as handle:
        return {room: int(most) for room, most in (line.split() for line in handle if line.strip())}


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    has, may = counted(), allowed()
    if "--lower" in sys.argv:
        may = {room: min(most, has[room]) for room, most in may.items() if has[room]}
        with open(BUDGET, "w", encoding="utf-8") as handle:
            handle.writelines(f"{room} {may[room]}\n" for room in sorted(may))
    if "--table" in sys.argv:
        print("| room | lines | at most |\n|---|---|---|")
        for room in sorted(set(has) | set(may)):
            print(f"| {room} | {has[room]} | {may.get(room, 0)} |")
        print(f"| all | {sum(has.values())} | {sum(may.values())} |")
        return 0
    status = 0
    for room in sorted(set(has) | set(may)):
        most = may.get(room, 0)
        if has[room] > most:
            print(f"{room}: has {has[room]} lines, {BUDGET} allows {most}: a higher number needs a decision page")
            status = 1
        elif has[room] < most - SLACK:
            print(f"{room}: has {has[room]} lines, {BUDGET} allows {most}: lower it (tests/budget.py --lower)")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
