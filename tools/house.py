"""Count the lines of code by folder and refuse more than each folder's limit: `python tools/house.py [--files]`.

A line of code is a line with neither a blank, a comment nor a docstring alone. `LIMITS` is what `make lint` allows;
`GOALS` is where the project wants to be. A limit goes down with the code. It goes up only with a reason in the commit.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "slipstream"
GOALS = {
    "tasks": 8440,  # of it 1,600 for issue 37 (maps, rules, cameras, groups) and 240 for issue 41 (real drones)
    "storage": 2500,
    "replay": 2300,
    "training": 1850,
    "algorithms": 1850,
    "collectors": 1350,
    "cli": 1250,
    "rollouts": 700,
    "models": 1150,
    "checkpoint": 700,
    "config": 700,
    "envs": 900,  # with `Rollout`, which was in collectors
    "distributed": 600,
    "monitor": 400,
    "viewer": 700,
    "recordings": 220,
    "ui": 400,
    "deploy": 500,
    "sim and root": 340,
    "tests": 24000,
}
LIMITS = GOALS | {  # folders that are not yet at their goal
    "sim and root": 471,
    "deploy": 1084,  # unknown sectors, scans moved to the present, stamps ahead of the others
    "algorithms": 1890,  # with policies from the hub
    "checkpoint": 860,
    "cli": 1612,  # of it 142 for `card` and `push`, 132 for `exploit`, 17 for rollouts of games
    "collectors": 1558,  # with the Ray cluster, 72 lines that were in config
    "config": 905,
    "envs": 914,
    "models": 1192,
    "monitor": 408,
    "recordings": 249,
    "replay": 2473,  # with `capacity_bytes` and slices of a ring on a device
    "rollouts": 704,
    "storage": 3202,  # of it 64 for ends and rewards, which were in replay; 36 for dicts, deques, paths, named tuples
    # of it 1,600 for own worlds, 100 for own drones (a file, bodies), 240 for real drones, 130 for opponents drawn at
    # random, time limits of duels and rollouts of games; duels shrink
    "tasks": 8484,
    "training": 2344,  # of it 373 for ranks and their guard, 92 for schedules
    "viewer": 766,
    "tests": 27240,
}
ROOT_FILES = 4  # Python files directly in the package
FOLDER_FILES = 20  # one per command in cli/
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """Return the number of lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def folder_of(path: Path) -> str:
    """Return the folder of a file of the package; the files of the root count with `sim`."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 and parts[0] != "sim" else "sim and root"


def count() -> dict[str, dict[str, int]]:
    """Return the lines of code of every file, by folder."""
    sizes: dict[str, dict[str, int]] = defaultdict(dict)
    for path in sorted(PACKAGE.rglob("*.py")):
        sizes[folder_of(path)][str(path.relative_to(ROOT))] = code_lines(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "tests").rglob("*.py")):
        sizes["tests"][str(path.relative_to(ROOT))] = code_lines(path.read_text(encoding="utf-8"))
    return sizes


def problems(sizes: dict[str, dict[str, int]]) -> list[str]:
    """Return what is over a limit, a sentence each."""
    found = []
    for folder, files in sizes.items():
        size = sum(files.values())
        if folder not in LIMITS:
            found.append(f"{folder}/ has no limit: give it one in tools/house.py")
        elif size > LIMITS[folder]:
            found.append(f"{folder}: {size:,} lines of code, {size - LIMITS[folder]} over its limit: remove some")
    if (at_root := len(list(PACKAGE.glob("*.py")))) > ROOT_FILES:
        found.append(f"{at_root} Python files directly in slipstream/: at most {ROOT_FILES}")
    for folder in (path for path in PACKAGE.rglob("*") if path.is_dir()):
        if (files := len(list(folder.glob("*.py")))) > FOLDER_FILES:
            found.append(f"{folder.relative_to(ROOT)} has {files} Python files: at most {FOLDER_FILES}")
    return found


def main() -> int:
    """Print the table; return 1 if something is over its limit."""
    sizes = count()
    for folder, files in sorted(sizes.items(), key=lambda item: -sum(item[1].values())):
        size, limit, goal = sum(files.values()), LIMITS.get(folder, 0), GOALS.get(folder, 0)
        print(f"{folder:14} {size:7,} of {limit:6,}" + (f"   goal {goal:,}" if goal != limit else ""))
        if "--files" in sys.argv:
            print(*(f"  {lines:6} {name}\n" for name, lines in files.items()), sep="", end="")
    print(f"package        {sum(sum(files.values()) for name, files in sizes.items() if name != 'tests'):7,}")
    found = problems(sizes)
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
