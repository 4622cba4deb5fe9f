#!/usr/bin/env python3
"""What the tree names is there: files, in comments of C, in pages, scripts and the Makefile; functions and constants (gx_x,
GX_X, x()), in comments of C and in pages; and links in pages lead to a heading.

A path is looked for from the root, from the folder of the file that names it, and as the end of another path; a bare
name anywhere.  A function's name is a word of some code, or begins one where it ends in _ or is all of a family (GX_META).
Prints each finding as file:line: name; exit status 1 when there is one.
"""
import os
import re
import subprocess
import sys

C = (".c", ".h", ".cu", ".cuh")
KINDS = "c|h|cu|cuh|md|py|sh|sql"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
NAME = re.compile(r"(?<![#\w])(?:(?:gx|GX)_\w+|[a-z]\w*(?=\(\)))")
LINK = re.compile(r"\]\(([^)#\s:]*)#([^)\s]+)\)")
CITED = re.compile(rf'(?<![\w./<"{{$*-])((?:[\w-]+/)*[\w-]+\.(?:{KINDS}))\b(?![\w(*])')
# Made by the build, another project's, or a file of the reader's.
ELSEWHERE = {"help_pages.h", "schema.h", "grammar.c", "grammar.h", "core/program/grammar.c", "numpy/core/arrayprint.py", "app.c", "_int.h", "tests/NAME.c", "self.sql", "step.sql"}

# Functions of others, an operator of an essay, a macro that was not made; NAME stands for any.
OTHERS = {"longjmp", "dense_rank", "mallopt", "__dmul_rn", "orth", "GX_RUN", "end_headers", "serve_forever", "server_close"}


def read(file):
    with open(file, encoding="utf-8") as handle:
        return handle.read()


def comments(text):
    """A C file's comments alone, with the lines kept."""
    parts, at = [], 0
    for comment in COMMENT.finditer(text):
        parts += ["\n" * text.count("\n", at, comment.start()), comment.group()]
        at = comment.end()
    return "".join(parts)


def words_of(files):
    """Words of code, a space before and after each; elementwise functions are rows of map.h, operations on grids of grid.h."""
    words = {"gx_" + word.lower() for word in re.findall(r"\w+", read("core/base/map.h"))}
    words |= {"gx_grid_" + word for word in re.findall(r'"(\w+)"', read("core/base/grids.h"))}
    for file in files:
        if file.endswith((*C, ".y", ".py", ".sh", "Makefile")):
            text = read(file)
            words.update(re.findall(r"\w+", COMMENT.sub(" ", text) if file.endswith(C) else text))
    return " ".join(["", *sorted(words), ""])


def names(text, words):
    for cited in NAME.finditer(text):
        name = cited.group()
        family = name if name.endswith("_") else name + "_"
        if "NAME" not in name and name not in OTHERS and f" {name} " not in words and " " + family not in words:
            yield cited.start(), name


def anchors(page):
    text = re.sub(r"^```.*?^```", "", read(page), flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        yield re.sub(r"[^\w -]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")


def links(file, text):
    for cited in LINK.finditer(text):
        path, anchor = cited.groups()
        page = os.path.normpath(os.path.join(os.path.dirname(file), path)) if path else file
        if page.endswith(".md") and (not os.path.exists(page) or anchor not in anchors(page)):
            yield cited.start(), f"{path}#{anchor}"


def paths(file, text, ends):
    for cited in CITED.finditer(text):
        path = cited.group(1)
        if path not in ends and os.path.normpath(os.path.join(os.path.dirname(file), path)) not in ends:
            yield cited.start(), path


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True,
                           check=True).stdout.split()
    files = [f for f in files if os.path.exists(f)]
    ends = {"/".join(f.split("/")[k:]) for f in files for k in range(f.count("/") + 1)} | ELSEWHERE
    words = words_of(files)
    is_good = True
    for file in files:
        if file.startswith("bench/results/") or not (
                file.endswith((*C, ".md", ".py", ".sh", "Makefile"))):
            continue
        text = comments(read(file)) if file.endswith(C) else read(file)
        found = [*paths(file, text, ends)]
        if file.endswith((*C, ".md")):
            found += names(text, words)
        if file.endswith(".md"):
            found += links(file, text)
        for at, what in sorted(found):
            print(f"{file}:{text.count(chr(10), 0, at) + 1}: {what}")
            is_good = False
    return not is_good


if __name__ == "__main__":
    sys.exit(main())
