"""Write ``docs/benchmarks.md`` from the figures in ``docs/data/benchmarks/*.json``.

    python scripts/benchmarks_page.py           write the page
    python scripts/benchmarks_page.py --check   say whether it is current (status 1 if not)

A file holds one table: its title, the commands that measured it, the machine, the date and commit
of the record, the package's version, notes, columns and rows. The heads are those that ``--json``
of a bench script writes (``bench/record.py``).
"""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
FOLDER = ROOT / "docs" / "data" / "benchmarks"
# The tables in the order of the page.
TABLES = (
    "cpu_programs", "cpu_gemm", "gpu_programs", "everyday", "gpu_intrinsics", "emulator",
    "compile_time",
)  # fmt: skip
HEAD = """\
# Benchmarks

<!-- written by scripts/benchmarks_page.py from docs/data/benchmarks; a test compares -->

Each table comes from one file of figures. Its caption has the command and the machine.
A ratio above 1 means that tilelang is faster. Run the command to get the table of your machine.

![Measured kernels below the roofline of the GPU's data sheet](pictures/roofline.svg)
"""
# Scripts that no table names but that measure something of their own.
SCRIPTS = (
    "cpu_programs", "cpu_gemm", "h200", "everyday", "small_launches", "examples", "product_steps",
    "cluster", "emulator_agreement", "sanitizer", "planted", "emulator_speed", "mutate", "overhead",
    "compile_time", "fuzz_long", "model_search", "model_gpu", "tuners",
)  # fmt: skip


def table(name: str) -> dict[str, Any]:
    """The figures of one table."""
    record: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return record


def cell(value: Any, form: str = "") -> str:
    """One field; nothing where nothing was measured."""
    if value is None:
        return ""
    return value if isinstance(value, str) else format(value, form)


def caption(record: dict[str, Any]) -> Iterator[str]:
    """What was run where and when."""
    for command in record["commands"]:
        yield f"* Command: `{command}`"
    yield f"* Machine: {record['machine']}"
    yield f"* Recorded: {record['date']}, commit `{record['commit']}`, version {record['version']}"
    for note in record["notes"]:
        yield f"* {note}"


def section(name: str) -> Iterator[str]:
    """One table with its caption."""
    record = table(name)
    columns = record["columns"]
    yield from (f"## {record['title']}", "", *caption(record), "")
    yield "| " + " | ".join(column["title"] for column in columns) + " |"
    numbers = [not isinstance(record["rows"][0][column["key"]], str) for column in columns]
    yield "| " + " | ".join("---:" if number else "---" for number in numbers) + " |"
    for row in record["rows"]:
        cells = (cell(row[column["key"]], column.get("format", "")) for column in columns)
        yield "| " + " | ".join(cells) + " |"
    yield ""


def scripts() -> Iterator[str]:
    """Every script with the first sentence of its docstring."""
    yield from ("## All benchmark scripts", "")
    yield "`--json FILE` writes the results with the command, machine, date, commit and version."
    yield from ("", "| script | measures |", "| --- | --- |")
    for name in SCRIPTS:
        tree = ast.parse((ROOT / "bench" / f"{name}.py").read_text(encoding="utf-8"))
        first = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")
        yield f"| `bench/{name}.py` | {first.replace('``', '`').partition('. ')[0].rstrip('.')} |"


def page() -> str:
    """The whole text."""
    lines = [HEAD, *(line for name in TABLES for line in section(name)), *scripts()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page or say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        raise SystemExit("run scripts/benchmarks_page.py")


if __name__ == "__main__":
    main()
