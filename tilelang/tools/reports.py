"""Reports on the GPU code of a program, without compiling machine code."""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileUnsupportedError, check_type
from tilelang.explain import report
from tilelang.ir.stmt import PrimFunc
from tilelang.notebook import Lines
from tilelang.options import Options
from tilelang.target.parse import parse_target


def explain(func: PrimFunc, target: Any = "cuda -arch=sm_80") -> str:
    """Return the text of ``kernel.explain()`` for a traced program, without a GPU or CUDA.

    Args:
        func: the program.
        target: an NVIDIA or AMD GPU with its architecture, or "metal".
    Raises:
        TileTypeError: ``func`` is none.
        TileUnsupportedError: ``target`` is not a GPU, or cannot run the program.
    """
    check_type(func, PrimFunc, "explain takes a traced function", "what @T.prim_func gives")
    parsed = parse_target(target)
    if "simt" not in parsed.features or not (parsed.arch or "simdgroup" in parsed.features):
        raise TileUnsupportedError(
            "a report needs a GPU with its architecture",
            expected='target="cuda -arch=sm_80" or another architecture',
            got=f"target={str(target)!r}",
        )
    return Lines(report.explain(func, parsed, Options()))
