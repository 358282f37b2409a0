"""Write ``docs/gallery.md``: the examples, each with what it shows, its output and its source.

    python scripts/gallery.py           write the page
    python scripts/gallery.py --run     run the examples first and store what they print
    python scripts/gallery.py --check   say whether the page is current (status 1 if not)

The docstring of an example says what it is about. ``docs/data/gallery.json`` has the outputs.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gallery.md"
OUTPUTS = ROOT / "docs" / "data" / "gallery.json"
# Functions that every program uses.
USUAL = frozenset({"prim_func", "Tensor", "Kernel", "ceildiv", "copy", "Parallel"})


def functions(tree: ast.Module) -> list[str]:
    """The functions of the language in a program, in the order of their first use."""
    found = (
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "T"
    )
    return [name for name in dict.fromkeys(found) if name not in USUAL]


def output(path: Path) -> str:
    """What an example prints on the CPU."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(path)], text=True, capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT,
    ).stdout  # fmt: skip


def page() -> str:
    """The text of the page."""
    outputs = json.loads(OUTPUTS.read_text(encoding="utf-8"))
    lines = ["# Gallery", "", "<!-- written by scripts/gallery.py; a test compares -->", ""]
    lines += ["Short programs, each with a `main()` that compares its result with NumPy."]
    lines += ['`python examples/softmax.py` runs one on the CPU, `main("interpret")` in the']
    lines += ["interpreter.", ""]
    for path in sorted((ROOT / "examples").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        about = (ast.get_docstring(tree) or "").strip()
        used = ", ".join(f"`T.{name}`" for name in functions(tree))
        lines += [f"## {path.stem}", "", about, "", *([f"Uses {used}.", ""] if used else [])]
        lines += ["```text", *outputs[path.name].splitlines(), "```", ""]
        lines += [f'??? example "examples/{path.name}"', "", "    ``` { .python }"]
        lines += [f'    --8<-- "examples/{path.name}"', "    ```", ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page or say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", action="store_true")
    options = parser.parse_args()
    if options.run:
        outputs = {path.name: output(path) for path in sorted((ROOT / "examples").glob("*.py"))}
        OUTPUTS.write_text(json.dumps(outputs, indent=1) + "\n", encoding="utf-8")
    if not options.check:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        raise SystemExit("run scripts/gallery.py")


if __name__ == "__main__":
    main()
