#!/usr/bin/env python3
"""The order of the rooms, as a test: which file leans on which, and whether any arrow points up.

An arrow goes from a file to each file that it includes, and from a .c file to the .c file that defines a function
or variable it names.  Checked:

- rooms: an arrow goes to the same room or to one that ROOMS lets it see;
- private headers (PRIVATE) are included in their own room only;
- no circle of files anywhere in the product;
- a room's README names each of its headers, whom its files lean on ("May call:") and who leans on them ("Called by:").

Prints each finding as file: what; exit status 1 when there is one.  `--table` prints a row for each room instead: files,
lines, and the arrows to each room under it.  `--circles` prints for each circle the names that tie it.

Names are found with Universal Ctags; comments and strings do not count.  An unprefixed name counts in its own file only.
"""
import collections
import fnmatch
import os
import re
import subprocess
import sys

# Each room and what it may lean on, besides itself.
ROOMS = {
    "core/base": "",
    "core/store": "core/base",
    "core/run": "core/base core/store",
    "core/mat": "core/base core/store core/run",
    "core/device": "core/base core/store core/run core/mat",
    "core/exec": "core/base core/store core/run core/mat core/device",
    "core/alg": "core/base core/store core/run core/mat core/device core/exec",
    "core/spectra": "core/base core/store core/run core/mat core/device core/exec core/alg",
    "core/exact": "core/base core/store core/run core/mat core/device core/exec core/alg",
    "core/grid": "core/base core/store core/run core/mat core/device core/exec",
    "core/fft": "core/base core/store core/run core/mat core/device core/exec core/alg",
    "core/stat": "core/base core/store core/run core/mat core/device core/exec core/alg",
    "core/program": "core/base core/store core/run core/mat core/device core/exec core/alg core/spectra core/exact core/grid core/fft",
    "core/file": "core/base core/store core/run core/mat",
    "core": "core/base core/store core/run core/mat core/device",
    "kernels": "core/base",
}
ROOMS["ext"] = " ".join(ROOMS)

PRIVATE = ["*_int.h", "lanes_of.h", "exec_device.h", "krylov*.h"]

# The two doors from core/ to the kernels, declared in core/base/backend.h.
DOORS = {"gx_backend_cpu", "gx_backend_ref"}


def product():
    """The product's C files."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "ext", "core", "kernels"],
        capture_output=True, text=True, check=True).stdout.split()
    return sorted({f for f in listed if f.endswith((".c", ".h", ".cu", ".cuh")) and os.path.exists(f)})


def definitions(files):
    """name -> the .c file that defines it with external linkage."""
    tags = subprocess.run(["ctags", "-x", "--_xformat=%N %F %{file}", "--kinds-C=fv", "-L", "-"],
                          input="\n".join(f for f in files if f.endswith(".c")), capture_output=True, text=True,
                          check=True).stdout
    where = {}
    for line in tags.splitlines():
        name, file, scope = line.split()
        if scope != "file" and name.startswith(("gx_", "sqlite3_gx")):
            where[name] = file
    return where


STRIP = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
NAME = re.compile(r"\b(?:gx_|sqlite3_gx)\w+")


def arrows(files):
    """file -> {file it leans on: names}."""
    known, where = set(files), definitions(files)
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for file in files:
        with open(file, encoding="utf-8") as handle:
            text = handle.read()
        for target in INCLUDE.findall(text):
            path = os.path.normpath(os.path.join(os.path.dirname(file), target))
            if path in known and path != file:
                found[file][path].add("#include")
        if file.endswith(".c"):
            for name in NAME.findall(STRIP.sub(" ", text)):
                if where.get(name, file) != file:
                    found[file][where[name]].add(name)
    return found


def room_of(file):
    return os.path.dirname(file)


def circles(files, found):
    """The strongly connected components of more than one file (Tarjan 1972, without recursion)."""
    index, low, stack, on_stack, result = {}, {}, [], set(), []
    for root in files:
        if root in index:
            continue
        work = [(root, iter(sorted(found[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for to in rest:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on_stack.add(to)
                    work.append((to, iter(sorted(found[to]))))
                    break
                if to in on_stack:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        circle.append(member)
                        if member == node:
                            break
                    if len(circle) > 1:
                        result.append(sorted(circle))
    return result


def findings(files, found):
    for file in files:
        for to, names in sorted(found[file].items()):
            here, there = room_of(file), room_of(to)
            if here != there and there not in ROOMS[here].split() and not names <= DOORS:
                yield f"{file}: leans on {to} ({', '.join(sorted(names)[:3])}): {here} may not see {there}"
            if "#include" in names and here != there and any(
                    fnmatch.fnmatch(os.path.basename(to), p) for p in PRIVATE):
                yield f"{file}: includes {to}, which is private to {there}"
    for circle in circles(files, found):
        yield f"{circle[0]}: a circle of {len(circle)} files: {' '.join(circle)}"


def neighbours(files, found, is_caller):
    """room -> the rooms that lean on it, or that it leans on."""
    beside = collections.defaultdict(set)
    for file in files:
        for to in (t for t, names in found[file].items() if not names <= DOORS):
            here, there = (to, file) if is_caller else (file, to)
            beside[room_of(here)].add(os.path.basename(room_of(there)))
    return beside


def pages(files, found):
    """What the rooms' READMEs leave out."""
    lines = {"May call": neighbours(files, found, False), "Called by": neighbours(files, found, True)}
    for room in ROOMS:
        page = os.path.join(room, "README.md")
        if not os.path.exists(page):
            continue
        with open(page, encoding="utf-8") as handle:
            text = handle.read()
        named = re.findall(r"`([^`]+)`", text)
        for file in files:
            name = os.path.basename(file)
            if room_of(file) == room and name.endswith((".h", ".cuh")) and not any(
                    fnmatch.fnmatch(name, pattern) for pattern in named):
                yield f"{page}: does not name {name}"
        for line, beside in lines.items():
            said = re.search(line + r": ([^:]*?)\.(?:\s|$)", text)
            missing = sorted(r for r in beside[room] - {os.path.basename(room)} if f"`{r}" not in (said[1] if said else ""))
            if missing and "every room" not in (said[1] if said else ""):
                yield f"{page}: {line}: not {', '.join(missing)}"


def table(files, found):
    rooms = [r for r in ROOMS if any(room_of(f) == r for f in files)]
    print("| room | files | lines | leans on (arrows) |\n|---|---|---|---|")
    for room in rooms:
        inside = [f for f in files if room_of(f) == room]
        lines = sum(sum(1 for _ in open(f, encoding="utf-8")) for f in inside)
        out = collections.Counter(room_of(to) for f in inside for to in found[f] if room_of(to) != room)
        leans = ", ".join(f"{r} {out[r]}" for r in rooms if out[r])
        print(f"| {room} | {len(inside)} | {lines} | {leans} |")


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = product()
    found = arrows(files)
    unknown = sorted({room_of(f) for f in files} - set(ROOMS))
    if unknown:
        print(f"{unknown[0]}: a room that tests/rooms.py does not know")
        return 1
    if "--table" in sys.argv:
        table(files, found)
        return 0
    if "--circles" in sys.argv:
        for circle in circles(files, found):
            print("circle:", *circle)
            for file in circle:
                for to in circle:
                    if to in found[file]:
                        print(f"    {file} -> {to}: {', '.join(sorted(found[file][to]))}")
        return 0
    said = [*findings(files, found), *pages(files, found)]
    print("\n".join(said) if said else f"{len(files)} files in order")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
