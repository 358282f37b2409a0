"""The work of a program, and the time of a machine for it by a model; nothing is run."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from tilelang.autotuner.model import estimate
from tilelang.compat.adapter.base import functions_of
from tilelang.errors import TileTypeError, TileUnsupportedError, shown
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.effects import Access, Kind, accesses
from tilelang.jit.kernel import JITKernel
from tilelang.notebook import Preformatted
from tilelang.profiler.work import Counter
from tilelang.records import dataclass
from tilelang.target.parse import Target, parse_target

_ESTIMATED = ("cpu", "cuda")  # kinds of machines that the model knows


@dataclass(frozen=True)
class AnalysisResult(Preformatted):
    """One call of a program on a machine.

    Attributes:
        total_flops: operations on floating-point numbers; a multiplication with its addition
            counts two.
        total_global_bytes: bytes that blocks move to and from global memory, each as often as it is
            moved (a cache may serve it).
        estimated_time: seconds, by the model of :mod:`tilelang.autotuner.model`.
        bound: the part of the machine that takes longest: "products", "lanes", "shared memory",
            "cache", "memory" or "latency".
        exact: whether all extents were known; the counts are lower bounds otherwise.
    """

    total_flops: int
    total_global_bytes: int
    estimated_time: float
    bound: str
    exact: bool

    @property
    def tflops(self) -> float:
        """10^12 operations in a second of the estimated time."""
        return self.total_flops / self.estimated_time / 1e12

    @property
    def bandwidth_GBps(self) -> float:
        """10^9 bytes of global memory in a second of the estimated time."""
        return self.total_global_bytes / self.estimated_time / 1e9

    def __str__(self) -> str:
        least = "" if self.exact else "at least "
        return (
            f"{least}{self.total_flops / 1e9:.4g} GFLOP, "
            f"{least}{self.total_global_bytes / 1e6:.4g} MB of global memory; "
            f"estimated {self.estimated_time * 1e3:.3g} ms "
            f"({self.tflops:.3g} TFLOP/s, {self.bandwidth_GBps:.3g} GB/s), bound by {self.bound}"
        )


class Analyzer:
    """Counts the work of a program and estimates its time.

    Args:
        fn: what ``@T.prim_func`` gives, a module that holds one such function, or a kernel.
        device: a machine of ``tilelang.carver.arch`` or a target; an architecture means its
            largest part.
        symbols: values of the symbols in shapes and of scalar parameters, by name.

    Raises:
        TileTypeError: ``fn`` is none of these.
        TileUnsupportedError: the model does not know this kind of machine.
    """

    def __init__(self, fn: Any, device: Any, symbols: Mapping[str, int] | None = None) -> None:
        self.fn = _function(fn)
        self.device: Target = parse_target(getattr(device, "target", device)).concrete()
        self.symbols = dict(symbols or {})
        if self.device.kind not in _ESTIMATED:
            raise TileUnsupportedError(
                f"there is no model of {self.device}",
                expected="a CPU or an NVIDIA GPU",
                got=str(self.device),
            )

    def calculate(self) -> AnalysisResult:
        """Compute the counts and the estimate."""
        traffic = _Traffic(self.symbols)
        traffic.visit(self.fn.body, 1.0, {})
        result = estimate(self.fn, self.device, self.symbols)
        return AnalysisResult(
            round(traffic.flops), round(traffic.moved), result.milliseconds / 1e3, result.bound,
            traffic.exact,
        )  # fmt: skip

    @classmethod
    def analysis(
        cls, fn: Any, device: Any, symbols: Mapping[str, int] | None = None
    ) -> AnalysisResult:
        """Return ``Analyzer(fn, device, symbols).calculate()``."""
        return cls(fn, device, symbols).calculate()


def _function(fn: Any) -> S.PrimFunc:
    if isinstance(fn, JITKernel):
        return fn.prim_func
    result = functions_of(fn)
    if len(result) != 1:
        raise TileTypeError(
            "Analyzer takes one traced function",
            expected="the result of @T.prim_func, a module with one, or a kernel",
            got=shown(fn),
        )
    return result[0]


class _Traffic(Counter):
    """Adds up what every statement moves between global memory and a block."""

    def __init__(self, symbols: Mapping[str, int]) -> None:
        super().__init__(symbols)
        self.moved = 0.0

    def own(self, stmt: S.Stmt, times: float, known: Mapping[E.Var, E.Expr]) -> None:
        """Count the accesses of the statement itself."""
        super().own(stmt, times, known)
        for access in accesses(stmt):
            if access.buffer.storage == "global":
                size = self._elements(access, known) * access.buffer.dtype.width / 8
                self.moved += times * (access.reads + access.writes) * size

    def _elements(self, access: Access, known: Mapping[E.Var, E.Expr]) -> int:
        if access.kind in (Kind.POINTER, Kind.NAMED):  # unknown extent: one, as a lower bound
            return 1
        return prod(self.extents(access.region.extents, known))
