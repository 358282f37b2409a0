"""Lines of code of the package, room by room, beside their budget.

A line of code holds a token that is neither a comment nor part of a docstring. A room is a folder
or a file directly in the package, or a part of one that is for programs only. The core is what
somebody who works on the compiler has to know.

    python scripts/lines.py            what there is, and the budget
    python scripts/lines.py --budget   a budget of what there is and one percent, to paste below
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "tilelang"
CORE = (
    "ir", "layout", "target", "transforms", "codegen", "cpu", "cuda", "hip", "metal", "backends",
    "compiler", "pipelines",
)  # fmt: skip
# Room -> the most lines of code. "core" and "all" are sums; "facades" are the import paths that
# programs know, with little code of their own. What a room gains in features, another has to lose.
BUDGET = {
    "transforms": 19002,
    "ir": 7189,
    "frontend": 6765,
    "cpu": 6057,
    "interpret": 4804,
    "language": 4193,
    "runtime": 2897,
    "cuda": 2447,
    "autotuner": 2364,
    "codegen": 2342,
    "jit": 2192,
    "facades": 1947,
    "emulator": 1669,
    "layout": 1549,
    "target": 1501,
    "compat/host_text": 1308,
    "compat/emitters": 884,
    "hip": 846,
    "profiler": 835,
    "explain": 570,
    "compat/adapter": 560,
    "compat/carver": 492,
    "utils": 482,
    "pipelines": 448,
    "metal": 345,
    "errors": 334,
    "jax": 309,
    "options": 269,
    "tools": 256,
    "hostcc": 207,
    "env": 189,
    "absent": 182,
    "watch": 106,
    "records": 103,
    "scratch": 80,
    "compiler": 76,
    "backends": 24,
    "math": 19,
    "notebook": 14,
    "all": 75836,
    "core": 41820,
}
ROOMS = frozenset(BUDGET)
_NO_CODE = frozenset(
    (
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    )
)  # fmt: skip


def code_lines(source: str) -> int:
    """Lines of ``source`` that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def counted(root: Path = ROOT) -> dict[str, int]:
    """Room -> lines of code, and those of the core and of all."""
    found: Counter[str] = Counter()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        inner = "/".join(parts[:2])
        room = inner if inner in ROOMS else parts[0].removesuffix(".py")
        lines = code_lines(path.read_text(encoding="utf-8"))
        found[room if room in ROOMS else "facades"] += lines
        found["core"] += lines if room in CORE else 0
        found["all"] += lines
    return dict(found)


def over(found: dict[str, int], budget: dict[str, int]) -> list[str]:
    """The rooms that hold more than they may."""
    return [
        f"{room}: {lines} lines of code, {lines - budget.get(room, 0)} over its budget"
        for room, lines in found.items()
        if lines > budget.get(room, 0)
    ]


def main() -> None:
    """Print the table."""
    found = counted()
    for room in sorted(found, key=lambda room: (room in ("core", "all"), -found[room])):
        if "--budget" in sys.argv[1:]:
            print(f'    "{room}": {-(-found[room] * 101 // 100)},')
        else:
            print(f"{room:12} {found[room]:6} of {BUDGET.get(room, 0):6}")


if __name__ == "__main__":
    main()
