"""Write the pictures of the documentation, ``docs/pictures``.

    python scripts/pictures.py           write them (the timeline needs a C++ compiler)
    python scripts/pictures.py --check   say whether those that need none are current

Layouts are drawn by the package, the timeline is that of a block in the emulator, and the roofline
shows the figures of ``docs/data/benchmarks``.
"""

from __future__ import annotations

import argparse
import json
import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout
from tilelang.tools import draw_layout

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
FIGURES = ROOT / "docs" / "data" / "benchmarks" / "gpu_programs.json"
WIDTH = 760
STYLE = 'font-family="sans-serif" font-size="11"'
# The NVIDIA H100 SXM by its data sheet: TB/s of its memory, TFLOP/s of dense products.
MEMORY, UNITS = 3.35, {"16 bits": 989, "8 bits": 1979}
# Programs of that file -> (label, operations per byte that has to be moved).
ROWS = {
    "add 16384": ("add", 1 / 6),
    "softmax 32768": ("softmax", 5 / 4),
    "product of 64 rows": ("64 rows", 2 * 64 * 8192 / (2 * (64 * 2 + 8192))),
    "product 4096^3 bfloat16": ("bfloat16 product", 4096 / 3),
    "product 8192^3 float16": ("float16 product", 8192 / 3),
    "product 8192^3 e4m3": ("e4m3 product", 8192 / 2),
    "attention 4 x 16": ("attention", 2048),
}


@T.prim_func
def product(
    A: T.Tensor((128, 256), "float16"),
    B: T.Tensor((256, 128), "float16"),
    C: T.Tensor((128, 128), "float32"),
):
    """The program of the timeline."""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((64, 128), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)


class Tile:
    """A tile in shared memory."""

    shape = (8, 64)
    dtype = "float16"


def svg(height: int, lines: list[str]) -> str:
    """A document on white; the style of the pages inverts it on dark ones."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" {STYLE}>'
    ground = f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    return "\n".join([head, ground, *lines, "</svg>", ""])


def text(x: float, y: float, label: str, more: str = "") -> str:
    """Words at a place."""
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{escape(label)}</text>'


def layouts() -> dict[str, str]:
    """A swizzled tile, and the registers of a result of `mma`."""
    fragment = T.Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2))
    return {
        "swizzle.svg": draw_layout(make_swizzled_layout(Tile)).svg(),
        "fragment.svg": draw_layout(fragment).svg(),
    }


def timeline() -> str:
    """What warps of a block, copies and matrix units do in the emulator."""
    arrays = [np.ones(shape, np.float16) for shape in ((128, 256), (256, 128))]
    result = np.zeros((128, 128), np.float32)
    report = tilelang.sanitize(
        product,
        *arrays,
        result,
        target="cuda -arch=sm_90a",
        checks=("bounds", "counters", "timeline"),
    )
    events = json.loads(report.chrome_trace())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [e for e in events if e["ph"] == "X"]
    last = max(e["ts"] + e["dur"] for e in spans)
    left, row, colours = 110, 18, {"wait": "#d9d9d9", "copy": "#5b8def", "matrix": "#e8883a"}
    lines = [
        part
        for number, (kind, colour) in enumerate(colours.items())
        for part in (
            f'<rect x="{left + 130 * number}" y="6" width="12" height="12" fill="{colour}"/>',
            text(left + 130 * number + 18, 16, kind),
        )
    ]
    for number, lane in enumerate(sorted(names)):
        y = 24 + number * row
        lines.append(text(8, y + 12, names[lane]))
        lines.append(f'<path d="M{left} {y + row - 2}H{WIDTH - 10}" stroke="#ddd"/>')
        own = sorted({(e["ts"], e["dur"], e["cat"]) for e in spans if e["tid"] == lane})
        for start, length, kind in sorted(own, key=lambda span: list(colours).index(span[2])):
            x, wide = (value / last * (WIDTH - 10 - left) for value in (start, length))
            lines.append(
                f'<rect x="{left + x:.1f}" y="{y}" width="{max(wide, 1):.1f}" height="{row - 4}" '
                f'fill="{colours[kind]}"/>'
            )
    return svg(30 + row * len(names), lines)


def figures() -> dict[str, tuple[float, float]]:
    """Label -> operations per byte and TFLOP/s, from the H100's figures."""
    measured = {}
    for row in json.loads(FIGURES.read_text(encoding="utf-8"))["rows"]:
        for start, (label, intensity) in ROWS.items():
            if row["program"].startswith(start):
                speed = row["value"] * (intensity / 1e3 if row["unit"] == "GB/s" else 1)
                measured[label] = (intensity, speed)
    if len(measured) != len(ROWS):
        raise SystemExit(f"rows of {FIGURES.name} are missing: {set(ROWS) - set(measured)}")
    return measured


def roofline() -> str:
    """Measured figures below what the data sheet says."""
    low, high, bottom, top, height = -1.0, 4.0, -0.5, 3.5, 330

    def point(intensity: float, speed: float) -> tuple[float, float]:
        x = 60 + (math.log10(intensity) - low) / (high - low) * (WIDTH - 90)
        y = height - 40 - (math.log10(speed) - bottom) / (top - bottom) * (height - 70)
        return x, y

    lines: list[str] = []
    for power in range(int(low), int(high) + 1):
        x, y = point(10.0**power, 10**bottom)
        lines += [
            f'<path d="M{x:.0f} {y:.0f}V30" stroke="#eee"/>',
            text(x - 8, y + 16, f"{10.0**power:g}"),
        ]
    for power in range(int(top) + 1):
        x, y = point(10**low, 10.0**power)
        lines += [
            f'<path d="M{x:.0f} {y:.0f}H{WIDTH - 30}" stroke="#eee"/>',
            text(22, y + 4, f"{10**power}"),
        ]
    for (name, most), below in zip(UNITS.items(), (20, 0)):  # labels beside the slope
        corner = point(most / MEMORY, most)
        start, stop = point(10**low, MEMORY * 10**low), point(10**high, most)
        path = "L".join(f"{x:.0f} {y:.0f}" for x, y in (start, corner, stop))
        lines.append(f'<path d="M{path}" fill="none" stroke="#777" stroke-width="1.5"/>')
        label = f"{most}, {name}"
        lines.append(text(corner[0] + 4, corner[1] - 5 + below, label, 'fill="#555"'))
    x, y = point(3, 3 * MEMORY)
    lines.append(text(x - 10, y - 12, f"{MEMORY} TB/s", 'fill="#555" text-anchor="end"'))
    for number, (label, spot) in enumerate(figures().items(), start=1):
        x, y = point(*spot)
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="#f3b27c" stroke="#a55c1b"/>')
        lines.append(text(x, y + 4, str(number), 'text-anchor="middle"'))
        lines.append(text(470, 150 + 17 * number, f"{number}  {label}: {spot[1]:.4g} TFLOP/s"))
    lines.append(
        text(60, 18, "TFLOP/s on an NVIDIA H100 by operations per byte, below its data sheet")
    )
    return svg(height, lines)


def pictures(whole: bool) -> dict[str, str]:
    """File name -> text; the timeline only with ``whole``."""
    drawn: dict[str, Any] = {**layouts(), "roofline.svg": roofline()}
    return {**drawn, "timeline.svg": timeline()} if whole else drawn


def main() -> None:
    """Write the pictures or say whether they are current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    FOLDER.mkdir(exist_ok=True)
    for name, drawing in pictures(not check).items():
        path = FOLDER / name
        if not check:
            path.write_text(drawing, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != drawing:
            raise SystemExit("run scripts/pictures.py")


if __name__ == "__main__":
    main()
