"""Cost model: the time of a traced program, estimated from its statements and the rates of the
machine.

Nothing is compiled or run. The estimate is for comparing configurations of one program; its
absolute value is rough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tilelang.autotuner.cores import on_cores
from tilelang.autotuner.multiprocessors import on_multiprocessors
from tilelang.errors import TileValueError
from tilelang.ir import stmt as S
from tilelang.target import Target

MODEL = "model"  # instead of configurations, or of a strategy
_OVERLAP = 0.2  # share of the other resources' time that does not overlap with the bottleneck
_OUTSIDE = ("memory", "cache")  # parts that all processors share
_AROUND = "launches"  # nothing overlaps with it


@dataclass(frozen=True)
class Estimate:
    """Milliseconds of one call, and which part of the machine they are spent on: "products",
    "lanes", "shared memory", "cache", "memory" or "latency"."""

    milliseconds: float
    bound: str

    def __str__(self) -> str:
        return f"{self.milliseconds:.3g} ms, bound by {self.bound}"


def estimate(
    func: S.PrimFunc, target: Target, symbols: Mapping[str, int] | None = None
) -> Estimate:
    """Estimate the time of one call of ``func`` on ``target``."""
    if target.concrete().compute is None:
        parts = on_cores(func, symbols)
        inside = sum(parts.values()) - parts["memory"]  # the parts of a core do not overlap
        outside = parts["memory"]
    else:
        parts = on_multiprocessors(func, target, symbols)
        outside = max(parts[name] for name in _OUTSIDE)
        units = {name: value for name, value in parts.items() if name not in (*_OUTSIDE, _AROUND)}
        waits = units.pop("latency", 0.0)
        inside = max(units.values(), default=0.0) + waits
    around = parts.pop(_AROUND, 0.0)
    bound = max(parts, key=parts.__getitem__)
    total = max(inside, outside) + _OVERLAP * min(inside, outside) + around
    return Estimate(total * 1e3, bound)


# -- configurations by name -----------------------------------------------------------------------
# Name of a tuned parameter -> values to try on a GPU and on a CPU.
_SIZES = (16, 64, 128, 256, 512)
_NAMES: dict[str, tuple[Sequence[int], Sequence[int]]] = {
    "blockm": ((64, 128, 256), _SIZES),
    "blockn": ((64, 128, 256), _SIZES),
    "blockk": ((32, 64, 128), (64, 128, 256)),
    "block": ((16, 32, 64, 128, 256, 1024, 4096), (256, 1024, 4096, 16384)),
    "stages": ((1, 2, 3, 4), (1,)),
    "threads": ((128, 256), (128,)),
}
_OTHER_NAMES = {
    "bm": "blockm", "tilem": "blockm", "blocksizem": "blockm", "bn": "blockn", "tilen": "blockn",
    "blocksizen": "blockn", "bk": "blockk", "tilek": "blockk", "blocksizek": "blockk",
    "reduceblockk": "blockk", "blocksize": "block", "tile": "block", "tilesize": "block",
    "numstages": "stages", "stage": "stages", "numstage": "stages", "numthreads": "threads",
    "threadnum": "threads", "nthreads": "threads", "numthread": "threads",
}  # fmt: skip


def values_for(name: str, target: Target) -> list[int] | None:
    """Values to try for a parameter of this name; None for an unknown name."""
    plain = name.replace("_", "").lower()
    values = _NAMES.get(_OTHER_NAMES.get(plain, plain))
    return None if values is None else list(values[not target.is_gpu])


def configurations(name: str, free: Sequence[str], target: Target) -> list[dict[str, int]]:
    """Configurations of parameters by their names.

    Raises:
        TileValueError: no name is known.
    """
    choices = {parameter: values_for(parameter, target) for parameter in free}
    named = {parameter: values for parameter, values in choices.items() if values is not None}
    if not named:
        raise TileValueError(
            f'configs="model" finds no parameter of `{name}` that it knows',
            expected="parameters with defaults called block_M, block_N, block_K, block_size, "
            "num_stages or threads",
            got=", ".join(free) or "none",
        )
    return [dict(zip(named, row)) for row in product(*named.values())]
