#!/usr/bin/env python3
"""Files that the tree names are there: in comments of C, in pages, scripts and the Makefile.

A path is looked for from the root, from the folder of the file that names it, and as the end of another path; a bare
name anywhere.  Prints each finding as file:line: name; exit status 1 when there is one.
"""
import os
import re
import subprocess
import sys

KINDS = "c|h|cu|cuh|md|py|sh|sql"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
CITED = re.compile(rf'(?<![\w./<"{{$*-])((?:[\w-]+/)*[\w-]+\.(?:{KINDS}))\b(?![\w(*])')
# Made by the build, another project's, or a file of the reader's.
ELSEWHERE = {"help_pages.h", "schema.h", "numpy/core/arrayprint.py", "app.c", "_int.h", "tests/NAME.c", "self.sql", "step.sql"}


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True,
                           check=True).stdout.split()
    files = [f for f in files if os.path.exists(f)]
    ends = {"/".join(f.split("/")[k:]) for f in files for k in range(f.count("/") + 1)} | ELSEWHERE
    found = 0
    for file in files:
        is_c = file.endswith((".c", ".h", ".cu", ".cuh"))
        if file.startswith(("core/base/cjson/", "bench/results/")) or not (
                is_c or file.endswith((".md", ".py", ".sh", "Makefile"))):
            continue
        with open(file, encoding="utf-8") as handle:
            text = handle.read()
        if is_c:  # only comments, with the lines kept
            parts, at = [], 0
            for comment in COMMENT.finditer(text):
                parts += ["\n" * text.count("\n", at, comment.start()), comment.group()]
                at = comment.end()
            text = "".join(parts)
        for cited in CITED.finditer(text):
            path = cited.group(1)
            if path not in ends and os.path.normpath(os.path.join(os.path.dirname(file), path)) not in ends:
                print(f"{file}:{text.count(chr(10), 0, cited.start()) + 1}: {path}")
                found += 1
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
