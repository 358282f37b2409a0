"""Write ``docs/gallery.md``: the examples, each with what it shows and its text.

    python scripts/gallery.py           write the page
    python scripts/gallery.py --check   say whether the page is current (status 1 if not)

What an example is about is its docstring; what it shows are the words of the language in it.
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gallery.md"
# Words that every program has.
USUAL = frozenset({"prim_func", "Tensor", "Kernel", "ceildiv", "copy", "Parallel"})


def words(tree: ast.Module) -> list[str]:
    """The words of the language in a program, in the order of their first use."""
    found = (
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "T"
    )
    return [word for word in dict.fromkeys(found) if word not in USUAL]


def page() -> str:
    """The text of the page."""
    lines = ["# Gallery", "", "<!-- written by scripts/gallery.py; a test compares -->", ""]
    lines += ["Short programs, each with a `main()` that checks itself against numpy:"]
    lines += [
        '`python examples/softmax.py` runs one on this machine\'s CPU, `main("interpret")` in the'
    ]
    lines += ["interpreter.", ""]
    for path in sorted((ROOT / "examples").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        about = (ast.get_docstring(tree) or "").strip()
        shown = ", ".join(f"`T.{word}`" for word in words(tree))
        lines += [f"## {path.stem}", "", about, "", *([f"Shows {shown}.", ""] if shown else [])]
        lines += [f'??? example "examples/{path.name}"', "", "    ``` { .python }"]
        lines += [f'    --8<-- "examples/{path.name}"', "    ```", ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page or say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        raise SystemExit("run scripts/gallery.py")


if __name__ == "__main__":
    main()
