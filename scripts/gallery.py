"""Write ``docs/gallery.md``: the examples, each with a picture, its output and its source.

    python scripts/gallery.py           write the page
    python scripts/gallery.py --run     run the examples first and store what they print
    python scripts/gallery.py --check   say whether the page is current (status 1 if not)

The docstring of an example says what it is about. ``docs/data/gallery.json`` has the outputs,
``docs/data/gallery_blocks.json`` the parts of the tensors that one block of the largest launch may
access, by which the pictures in ``docs/pictures/gallery`` are drawn.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import runpy
import subprocess
import sys
from html import escape
from math import prod
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gallery.md"
OUTPUTS = ROOT / "docs" / "data" / "gallery.json"
BLOCKS = ROOT / "docs" / "data" / "gallery_blocks.json"
PICTURES = ROOT / "docs" / "pictures" / "gallery"
LONGEST, SHORTEST, MARGIN = 130, 8, 24  # of a tensor in a picture, in pixels; between tensors
COLOURS = {"reads": "#4a90d9", "writes": "#e08a1e"}
# Functions that every program uses.
USUAL = frozenset({"prim_func", "Tensor", "Kernel", "ceildiv", "copy", "Parallel"})


def functions(tree: ast.Module) -> list[str]:
    """The functions of the language in a program, in the order of their first use."""
    called = (
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "T"
    )
    return [name for name in dict.fromkeys(called) if name not in USUAL]


def output(path: Path, example: Path | None = None) -> str:
    """What an example prints on the CPU; with ``example`` the last line of this script for it."""
    more = [] if example is None else ["--blocks", str(example)]
    text = subprocess.run(
        [sys.executable, "-W", "ignore", str(path), *more], text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TILELANG_DISABLE_CACHE": str(len(more) // 2)},
        check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    return text.splitlines()[-1] if more else text


def largest_launch(path: Path) -> list[dict[str, Any]]:
    """The tensors of the largest launch of an example, each with the box of the middle block."""
    from tilelang import compiler
    from tilelang.ir import stmt as S
    from tilelang.ir.access import tensor_boxes
    from tilelang.ir.expr import Const, as_expr
    from tilelang.ir.simplify import simplify
    from tilelang.ir.visitor import substitute

    programs: list[S.PrimFunc] = []
    compiled = compiler.compile

    def noted(func: S.PrimFunc, *args: Any, **options: Any) -> Any:
        programs.append(func)
        return compiled(func, *args, **options)

    compiler.compile = noted
    runpy.run_path(str(path), run_name="__main__")
    launches = [launch for func in programs for launch in S.find(func.body, S.Launch)]
    launches = [x for x in launches if all(isinstance(as_expr(n), Const) for n in x.grid)]
    if not launches:
        return []
    launch = max(launches, key=lambda x: prod(map(int, x.grid)))
    at = {var: as_expr(int(n) // 2) for var, n in zip(launch.block_vars, launch.grid)}
    accessed, tensors = tensor_boxes(launch.body), []
    for kind, where in (("reads", accessed.reads), ("writes", accessed.writes)):
        for region in accessed.boxes(where):
            ends = [
                (simplify(substitute(as_expr(low), at)), simplify(substitute(as_expr(n), at)))
                for low, n in zip(region.mins, region.extents)
            ]
            shape = [as_expr(n) for n in region.buffer.shape]
            if all(isinstance(n, Const) for n in (*shape, *(end for pair in ends for end in pair))):
                box = [[int(low), int(n)] for low, n in ends]
                tensors.append(
                    {"name": region.buffer.name, "shape": list(map(int, shape)), kind: box}
                )
    return tensors


def picture(tensors: list[dict[str, Any]]) -> str:
    """Tensors side by side, each with the box of a block: the last dimension and another one."""
    x, bottom, parts = MARGIN, 0, []
    for tensor in tensors:
        kind = next(name for name in COLOURS if name in tensor)
        shape, box = [1, *tensor["shape"]], [[0, 1], *tensor[kind]]
        down = max(range(len(shape) - 1), key=lambda dim: (box[dim][1], dim))
        rows, columns = shape[down], shape[-1]
        shown = [
            f"{n}[{low}]" if size == 1 < n and dim not in (down, len(shape) - 1) else f"{n}"
            for dim, (n, (low, size)) in enumerate(zip(shape, box))
        ][1:]
        scale = LONGEST / max(rows, columns)
        width, height = max(SHORTEST, columns * scale), max(SHORTEST, rows * scale)
        left, right = box[-1][0] / columns, min(1, sum(box[-1]) / columns)
        top, end = box[down][0] / rows, min(1, sum(box[down]) / rows)
        parts += [
            f'<rect x="{x:.0f}" y="34" width="{width:.0f}" height="{height:.0f}" fill="#eee" '
            'stroke="#555"/>',
            f'<rect x="{x + left * width:.1f}" y="{34 + top * height:.1f}" '
            f'width="{max(1.5, (right - left) * width):.1f}" '
            f'height="{max(1.5, (end - top) * height):.1f}" fill="{COLOURS[kind]}"/>',
        ]
        label = f"{tensor['name']} {' x '.join(shown)}"
        parts.append(f'<text x="{x:.0f}" y="24">{escape(label)}, {kind}</text>')
        x, bottom = x + int(max(width, 7 * len(label) + 50)) + MARGIN, max(bottom, int(height))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{x}" height="{bottom + 50}" '
        'font-family="sans-serif" font-size="12">'
    )
    ground = f'<rect width="{x}" height="{bottom + 50}" fill="white"/>'
    return "\n".join([head, ground, *parts, "</svg>", ""])


def pictures() -> dict[str, str]:
    """Name of an example -> its picture."""
    blocks = json.loads(BLOCKS.read_text(encoding="utf-8"))
    return {name: picture(tensors) for name, tensors in blocks.items() if tensors}


def page() -> str:
    """The text of the page."""
    outputs, drawn = json.loads(OUTPUTS.read_text(encoding="utf-8")), pictures()
    lines = ["# Gallery", "", "<!-- written by scripts/gallery.py; a test compares -->", ""]
    lines += ["Short programs, each with a `main()` that compares its result with NumPy."]
    lines += ['`python examples/softmax.py` runs one on the CPU, `main("interpret")` in the']
    lines += ["interpreter. A picture shows which part of each tensor one block may access:"]
    lines += ["blue is read, orange is written.", ""]
    for path in sorted((ROOT / "examples").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        about = (ast.get_docstring(tree) or "").strip()
        used = ", ".join(f"`T.{name}`" for name in functions(tree))
        lines += [f"## {path.stem}", "", about, "", *([f"Uses {used}.", ""] if used else [])]
        if path.stem in drawn:
            alt = f"What a block of {path.stem} reads and writes"
            lines += [f"![{alt}](pictures/gallery/{path.stem}.svg)", ""]
        lines += ["```text", *outputs[path.name].splitlines(), "```", ""]
        lines += [f'??? example "examples/{path.name}"', "", "    ``` { .python }"]
        lines += [f'    --8<-- "examples/{path.name}"', "    ```", ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page or say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--blocks", type=Path, help="print the accesses of a block of an example")
    options = parser.parse_args()
    if options.blocks:
        print(json.dumps(largest_launch(options.blocks)))
        return
    if options.run:
        paths = sorted((ROOT / "examples").glob("*.py"))
        outputs = {path.name: output(path) for path in paths}
        OUTPUTS.write_text(json.dumps(outputs, indent=1) + "\n", encoding="utf-8")
        blocks = {path.stem: json.loads(output(Path(__file__), path)) for path in paths}
        BLOCKS.write_text(json.dumps(blocks, indent=1) + "\n", encoding="utf-8")
    if not options.check:
        PAGE.write_text(page(), encoding="utf-8")
        for name, drawing in pictures().items():
            (PICTURES / f"{name}.svg").write_text(drawing, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        raise SystemExit("run scripts/gallery.py")


if __name__ == "__main__":
    main()
