"""Write the tables of passes in ``docs/architecture.md``, from ``tilelang/pipelines.py``.

python scripts/pass_table.py           write them
python scripts/pass_table.py --check   say whether they are current (status 1 if not)
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tilelang import pipelines

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
START = "<!-- written by scripts/pass_table.py; a test compares -->\n"
END = "<!-- end of the tables -->"
TUPLES = {
    "NORMALIZE": "Every target",
    "CPU": "CPU: loops and vectors",
    "GPU": "GPU: tile operations",
    "GPU_THREADS": "GPU: the code of each thread",
}


def tables() -> str:
    """The tables, one for each tuple of passes."""
    lines: list[str] = []
    for name, title in TUPLES.items():
        lines += ["", f"### {title} (`{name}`)", "", "| pass | what it does | needs | file |"]
        lines += ["| --- | --- | --- | --- |"]
        for step in getattr(pipelines, name):
            factory = step.rows[-1].make if step.rows else getattr(step.run, "make", step.run)
            file = factory.__module__.removeprefix("tilelang.").replace(".", "/") + ".py"
            needs = f"`{step.needs}`" if step.needs else ""
            rows = "; rows below" if step.rows else ""
            lines.append(f"| `{step.name}` | {step.does}{rows} | {needs} | `{file}` |")
    steps = {s.name: s for name in TUPLES for s in getattr(pipelines, name) if s.rows}
    lines += ["", "### Rows of the tables of rules", ""]
    lines += ["| table | row | what it does | on | needs |", "| --- | --- | --- | --- | --- |"]
    for step in steps.values():
        for row in step.rows:
            kinds = ", ".join(f"`{kind.__name__}`" for kind in row.on)
            needs = f"`{row.needs}`" if row.needs else ""
            lines.append(f"| `{step.name}` | `{row.name}` | {row.does} | {kinds} | {needs} |")
    return "\n".join([*lines, "", ""])


def page() -> str:
    """The text of the page with its tables as they should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return before + START + tables() + END + rest.partition(END)[2]


def main() -> None:
    """Write the tables or say whether they are current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        raise SystemExit("run scripts/pass_table.py")


if __name__ == "__main__":
    main()
