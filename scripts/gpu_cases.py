"""Where functions run on AMD's GPUs and on Apple's: the smallest programs around them are compiled.

Hardware intrinsics have their programs in ``ptx_cases.py``; here are those of functions that not
every GPU has. What has none runs on all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import tilelang.language as T
from tilelang.compiler import compile as compile_source
from tilelang.errors import TileError, TileUnsupportedError
from tilelang.ir.dtypes import dtype
from tilelang.target.parse import parse_target

sys.path.insert(0, str(Path(__file__).resolve().parent))
from ptx_cases import Case, Kit, cases, program

TARGETS = {"HIP": "hip -mcpu=gfx942", "Metal": "metal"}


def _barrier_of_all(k: Kit) -> None:
    """That of some threads, which is the case among the intrinsics, is another instruction."""
    k.A[k.thread] = 1.0
    T.sync_threads()
    k.A[k.thread + 128] = k.A[127 - k.thread]


def _random(k: Kit) -> None:
    T.rng_init(1)
    k.put(T.rng_rand())


def _uniform(k: Kit) -> None:
    T.rng_init(1)
    k.A[k.thread] = T.rng_rand_float()


# Functions that need a unit of some GPUs or order threads, with what uses them.
BODIES: dict[str, Callable[[Kit], object]] = {
    "sync_threads": _barrier_of_all,
    "device_assert": lambda k: T.device_assert(k.N[0] >= 0, "a number below zero"),
    "print": lambda k: T.print(k.N[0]),
    "rng_init": _random,
    "rng_rand": _random,
    "rng_rand_float": _uniform,
    "tma_copy": lambda k: T.tma_copy(k.H, k.tile, barrier=k.bar),
    "wgmma_gemm": lambda k: T.wgmma_gemm(k.tile, k.tile, T.alloc_fragment((64, 64), "float32")),
    "activemask": lambda k: k.put(T.activemask()),
    "ballot": lambda k: k.put(T.ballot(k.N[0] > 0)),
    "ballot_sync": lambda k: k.put(T.ballot_sync(k.N[0] > 0, 0xFFFFFFFF)),
    "any_sync": lambda k: k.put(T.any_sync(k.N[0] > 0, 0xFFFFFFFF)),
    "all_sync": lambda k: k.put(T.all_sync(k.N[0] > 0, 0xFFFFFFFF)),
    "match_any_sync": lambda k: k.put(T.match_any_sync(k.N[0], 0xFFFFFFFF)),
    "match_all_sync": lambda k: k.put(T.match_all_sync(k.N[0], 0xFFFFFFFF)),
    "syncthreads_and": lambda k: k.put(T.syncthreads_and(k.N[0] > 0)),
    "syncthreads_or": lambda k: k.put(T.syncthreads_or(k.N[0] > 0)),
    "syncthreads_count": lambda k: k.put(T.syncthreads_count(k.N[0] > 0)),
    "warp_reduce_sum": lambda k: k.put(T.warp_reduce_sum(k.N[0])),
    "__ffs": lambda k: k.put(getattr(T, "__ffs")(k.N[0])),
    "__fns": lambda k: k.put(getattr(T, "__fns")(k.N[0], 0, 1)),
    "atomic_or": lambda k: T.atomic_or(k.N[0], 1),
    "atomic_load": lambda k: k.put(T.atomic_load(k.N[0], "relaxed")),
    "atomic_store": lambda k: T.atomic_store(k.N[0], 1, "relaxed"),
    "alloc_cluster_barrier": lambda k: T.alloc_cluster_barrier([1]),
    "alloc_wgmma_desc": lambda k: k.wgmma(),
    "alloc_tcgen05_smem_desc": lambda k: k.tcgen05(),
    "annotate_l2_hit_ratio": lambda k: T.annotate_l2_hit_ratio({k.A: 0.5}),
    "annotate_min_blocks_per_sm": lambda k: T.annotate_min_blocks_per_sm(2),
    **{
        f"ieee_{name}": lambda k, name=name, count=count: k.put(
            getattr(T, f"ieee_{name}")(*(k.A[i] for i in range(count)))
        )
        for name, count in (
            ("add", 2), ("sub", 2), ("mul", 2), ("fdiv", 2), ("fmaf", 3), ("frcp", 1),
            ("frsqrt", 1), ("fsqrt", 1),
        )
    },
}  # fmt: skip


@lru_cache(maxsize=1)
def compiled() -> dict[str, dict[str, str]]:
    """Function -> target -> "yes", or "–" where it is refused."""
    own = [Case(name, body, "") for name, body in BODIES.items()]
    chosen = {case.intrinsic: case for case in (*cases(), *own)}
    return {
        name: {title: _state(case, target) for title, target in TARGETS.items()}
        for name, case in chosen.items()
    }


def _state(case: Case, target: str) -> str:
    try:
        compile_source(program(case), parse_target(target))
    except TileUnsupportedError:
        return "–"
    return "yes"


@lru_cache(maxsize=64)
def holds(kind: dtype, target: str) -> bool:
    """Whether tensors of a dtype can be parameters of a kernel."""

    @T.prim_func
    def held(X: T.Tensor((64,), kind)):
        with T.Kernel(1, threads=64):
            T.evaluate(X[0])

    try:
        compile_source(held, parse_target(target))
    except TileError:
        return False
    return True
