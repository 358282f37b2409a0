"""The small programs behind ``docs/instructions.md``: one tile operation each.

The line of the operation ends in ``# shown``; what that line becomes is a cell of the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import tilelang.language as T
from tilelang.target.atoms import ATOMS

MARK = "# shown"
THREADS = 128


@dataclass(frozen=True)
class Case:
    """A row of the page.

    Attributes:
        table: the operation.
        row: dtypes, as the row shows them.
        make: the program.
    """

    table: str
    row: str
    make: Callable[[], Any]


def copy_in(kind: str) -> Any:
    @T.prim_func
    def copied(A: T.Tensor((64, 64), kind), B: T.Tensor((64, 64), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_shared((64, 64), kind)
            T.copy(A, tile)  # shown
            T.copy(tile, B)

    return copied


def pipelined(kind: str) -> Any:
    @T.prim_func
    def staged(A: T.Tensor((64, 256), kind), B: T.Tensor((64, 256), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_shared((64, 64), kind)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], tile)  # shown
                T.copy(tile, B[0, k * 64])

    return staged


def copy_out(kind: str) -> Any:
    @T.prim_func
    def stored(A: T.Tensor((64, 64), kind), B: T.Tensor((64, 64), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_fragment((64, 64), kind)
            T.copy(A, tile)
            T.copy(tile, B)  # shown

    return stored


def from_shared(kind: str) -> Any:
    @T.prim_func
    def loaded(A: T.Tensor((64, 64), kind), B: T.Tensor((64, 64), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_shared((64, 64), kind)
            held = T.alloc_fragment((64, 64), kind)
            T.copy(A, tile)
            T.copy(tile, held)  # shown
            T.copy(held, B)

    return loaded


def fill(kind: str) -> Any:
    @T.prim_func
    def filled(B: T.Tensor((64, 64), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_shared((64, 64), kind)
            T.fill(tile, 1)  # shown
            T.copy(tile, B)

    return filled


def reduce_rows(kind: str) -> Any:
    @T.prim_func
    def reduced(A: T.Tensor((64, 64), kind), B: T.Tensor((64,), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_fragment((64, 64), kind)
            rows = T.alloc_fragment((64,), kind)
            T.copy(A, tile)
            T.reduce_max(tile, rows, dim=1)  # shown
            T.copy(rows, B)

    return reduced


def scan(kind: str) -> Any:
    @T.prim_func
    def summed(A: T.Tensor((64, 64), kind), B: T.Tensor((64, 64), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_shared((64, 64), kind)
            T.copy(A, tile)
            T.cumsum(tile, dim=1)  # shown
            T.copy(tile, B)

    return summed


def atomic(kind: str) -> Any:
    @T.prim_func
    def added(A: T.Tensor((64, 64), kind), B: T.Tensor((64, 64), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_fragment((64, 64), kind)
            T.copy(A, tile)
            T.atomic_add(B, tile)  # shown

    return added


def transpose(kind: str) -> Any:
    @T.prim_func
    def turned(A: T.Tensor((64, 64), kind), B: T.Tensor((64, 64), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_shared((64, 64), kind)
            other = T.alloc_shared((64, 64), kind)
            T.copy(A, tile)
            T.transpose(tile, other)  # shown
            T.copy(other, B)

    return turned


def product(kind: str, result: str, trans_b: bool, depth: int) -> Any:
    left, right = (64, depth), (64, depth) if trans_b else (depth, 64)

    @T.prim_func
    def multiplied(
        A: T.Tensor(left, kind), B: T.Tensor(right, kind), C: T.Tensor((64, 64), result)
    ):
        with T.Kernel(1, threads=THREADS):
            a = T.alloc_shared(left, kind)
            b = T.alloc_shared(right, kind)
            c = T.alloc_fragment((64, 64), result)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=trans_b)  # shown
            T.copy(c, C)

    return multiplied


def tma(kind: str) -> Any:
    @T.prim_func
    def fetched(A: T.Tensor((64, 64), kind), B: T.Tensor((64, 64), kind)):
        with T.Kernel(1, threads=THREADS):
            tile = T.alloc_shared((64, 64), kind)
            ready = T.alloc_barrier(1)
            if T.get_thread_binding() == 0:
                T.barrier_arrive(ready)
            T.tma_copy(A, tile, barrier=ready)  # shown
            T.barrier_wait(ready, 0)
            T.copy(tile, B)

    return fetched


NUMBERS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int32", "int8")
WIDE = ("float64", "float32", "float16", "bfloat16", "int32")
PRODUCTS = (
    ("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"),
    ("float32", "float32"), ("float64", "float64"), ("int8", "int32"), ("uint8", "int32"),
    ("int4", "int32"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"),
)  # fmt: skip
# What else some GPU has a matrix instruction for.
MORE = tuple(dict.fromkeys((str(atom.a), str(atom.c)) for atom in ATOMS if atom.a is atom.b))

OPERATIONS: tuple[tuple[str, Callable[[str], Any], tuple[str, ...]], ...] = (
    ("T.copy, global to shared", copy_in, NUMBERS),
    ("T.copy in T.Pipelined, global to shared", pipelined, NUMBERS),
    ("T.copy, shared to fragment", from_shared, NUMBERS),
    ("T.copy, fragment to global", copy_out, NUMBERS),
    ("T.fill of shared", fill, NUMBERS),
    ("T.transpose, shared to shared", transpose, NUMBERS),
    ("T.reduce_max over a row of a fragment", reduce_rows, WIDE),
    ("T.cumsum in shared", scan, WIDE),
    ("T.tma_copy, global to shared", tma, ("float16",)),
    ("T.atomic_add of a fragment to global", atomic, (*WIDE, "int64")),
)


def cases(arch: str = "") -> list[Case]:
    """Every row of the page, table by table; products are half as deep where memory is short."""
    programs = []
    depth = 32 if arch == "metal" else 64
    for trans, name in ((False, "T.gemm"), (True, "T.gemm, transpose_B=True")):
        for kind, result in dict.fromkeys((*PRODUCTS, *MORE)):
            make = partial(product, kind, result, trans, depth)
            programs.append(Case(name, f"{kind} to {result}", make))
    for name, function, kinds in OPERATIONS:
        for kind in kinds:
            programs.append(Case(name, kind, partial(function, kind)))
    return programs
