"""Lines of code of the package, area by area, beside their budgets.

    python scripts/lines.py            # each area: its lines and its budget
    python scripts/lines.py --parts    # the lines of each folder and top-level module

A line of code holds a token that is neither a comment nor part of a docstring. ``TOTAL`` is fixed,
and the budgets of the areas add up to it. So an area gets a larger budget only if another one gives
lines up: change both in ``BUDGET``. The tests have a limit of their own, ``TESTS``.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "tilelang"
SUITE = PACKAGE.with_name("tests")
# The most lines of code of the whole package. Features do not raise it.
TOTAL = 74_686
TESTS = 75_000  # the most lines of the tests
# Area -> the most lines of code. The first three are the compiler.
BUDGET = {
    "core": 11_169,
    "passes": 19_618,
    "back ends": 11_709,
    "language": 10_200,
    "runtime": 5_520,
    "interpreters": 6_210,
    "tools": 4_302,
    "compatibility": 4_528,
    "support": 1_430,
}
# Area -> its folders and modules, by their paths in the package without ".py". Of two that fit a
# module, the longer one counts.
AREAS = {
    "core": ("ir", "layout", "target", "compiler", "pipelines", "backends"),
    "passes": ("transforms",),
    "back ends": ("codegen", "cpu", "cuda", "hip", "metal"),
    "language": ("language", "frontend", "math"),
    "runtime": ("runtime", "jit", "torch", "jax"),
    "interpreters": ("interpret", "emulator"),
    "tools": ("autotuner", "profiler", "explain", "tools", "notebook", "testing", "__main__"),
    "compatibility": ("compat", "utils", "absent"),
    "support": (
        "__init__", "env", "errors", "hostcc", "options", "records", "scratch", "tracebacks",
        "version", "warning", "watch",
    ),
}  # fmt: skip


def code_lines(source: str) -> set[int]:
    """Lines of ``source`` that hold code. All lines of a string in several lines do."""
    texts = enumerate(map(str.strip, source.splitlines()), 1)
    lines = {number for number, text in texts if text and not text.startswith("#")}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings.update(range(node.lineno, (node.end_lineno or 0) + 1))
            case ast.Constant() | ast.JoinedStr():
                lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
            case _:
                pass
    return lines - docstrings


def area_of(module: str) -> str:
    """The area of a module, given by its path in the package without ``.py``.

    Raises:
        LookupError: the module is in no area.
    """
    names = {name: area for area, parts in AREAS.items() for name in parts}
    path = Path(module)
    for name in (path.as_posix(), *(parent.as_posix() for parent in path.parents)):
        if name in names:
            return names[name]
    raise LookupError(
        f"tilelang/{module}.py is in no area: add {path.parts[0]!r} to one of AREAS in "
        "scripts/lines.py"
    )


def counted(package: Path = PACKAGE) -> dict[str, int]:
    """Module, by its path in the package without ``.py``, -> its lines of code."""
    return {
        path.relative_to(package).with_suffix("").as_posix(): len(
            code_lines(path.read_text(encoding="utf-8"))
        )
        for path in sorted(package.rglob("*.py"))
    }


def by_area(modules: dict[str, int]) -> dict[str, int]:
    """Area -> its lines of code."""
    totals = Counter(dict.fromkeys(BUDGET, 0))
    for module, lines in modules.items():
        totals[area_of(module)] += lines
    return dict(totals)


def over(areas: dict[str, int], budget: dict[str, int]) -> list[str]:
    """What to say about each area that is over its budget."""
    return [
        f"{area}: {lines} lines of code, {lines - budget[area]} over its budget of {budget[area]}"
        for area, lines in areas.items()
        if lines > budget[area]
    ]


def main() -> None:
    """Print the table."""
    modules = counted()
    if "--parts" in sys.argv[1:]:
        parts: Counter[str] = Counter()
        for module, lines in modules.items():
            parts[module.split("/")[0]] += lines
        for part, lines in parts.most_common():
            print(f"{part:14} {lines:6}  {area_of(part)}")
    for area, lines in by_area(modules).items():
        print(f"{area:14} {lines:6} of {BUDGET[area]:6}")
    print(f"{'total':14} {sum(modules.values()):6} of {TOTAL:6}")
    print(f"{'tests':14} {sum(counted(SUITE).values()):6} of {TESTS:6}")


if __name__ == "__main__":
    main()
