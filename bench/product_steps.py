"""The programs of ``docs/learn/product.md``, timed against numpy or torch.

    python bench/product_steps.py [--target cpu|cuda] [--size 1024]

The programs are read from the page, so that what is timed is what stands there. Each runs a few
times in turns with the library; the best reading counts. GFLOP/s, and the library's time over ours.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import record

import tilelang

PAGE = Path(__file__).resolve().parents[1] / "docs" / "learn" / "product.md"
# What stands in the table: the function of the page and its arguments.
STEPS: dict[str, tuple[str, dict[str, int]]] = {
    "1. elements": ("by_elements", {}),
    "2. tiles": ("by_tiles", {}),
    "3. T.gemm": ("by_product", {}),
    "4. pipeline": ("by_product", {"num_stages": 3}),
    "5. wide tiles": ("by_product", {"block_N": 256, "num_stages": 4}),
}


def programs(folder: Path) -> dict[str, Any]:
    """The functions that the page defines."""
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    for number, text in enumerate(blocks):
        definitions = re.split(r"^(?=check\(|report\()", text, maxsplit=1, flags=re.M)[0]
        file = folder / f"block{number}.py"
        file.write_text(definitions, encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(definitions, str(file), "exec", dont_inherit=True), names)
    return names


def seconds(functions: dict[str, Callable[[], Any]], wait: Callable[[], Any]) -> dict[str, float]:
    """The best time of each of ``functions``, measured in turns."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(5):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            wait()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--json")
    options = parser.parse_args()
    size = options.size
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size)).astype(np.float16) for _ in range(2))
    wait: Callable[[], Any] = lambda: None  # noqa: E731
    library = lambda: a.astype(np.float32) @ b.astype(np.float32)  # noqa: E731
    if options.target == "cuda":
        import torch

        a, b = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
        wait, library = torch.cuda.synchronize, lambda: a @ b
    with tempfile.TemporaryDirectory() as folder:
        page = programs(Path(folder))
        calls: dict[str, Callable[[], Any]] = {"library": library}
        for name, (function, tiles) in STEPS.items():
            program = page[function](size, size, size, **tiles)
            kernel = tilelang.compile(program, out_idx=-1, target=options.target)
            calls[name] = lambda kernel=kernel: kernel(a, b)
        times = seconds(calls, wait)
    for name, took in times.items():
        print(f"{name:14} {2e-9 * size**3 / took:10.1f} GFLOP/s {times['library'] / took:8.3f}")
    if options.json:
        record.write(options.json, {"size": size, "target": options.target, "seconds": times})


if __name__ == "__main__":
    main()
