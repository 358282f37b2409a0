"""Copies at the top of loops over tiles: which the producer makes, where tiles are given back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_90A, holds
from schedule_steps import apply_all
from tensor_types import F16, I32

import tilelang.language as T
from tilelang.ir import schedule as H, stmt as S
from tilelang.options import Options
from tilelang.target import parse_target

HOPPER = parse_target("cuda -arch=sm_90a")
TILES = 134  # the chip has 132 multiprocessors
ROWS, KEYS, DIM = 128, 128, 64


def greatest(case: str = "", most: int = 3, out: str = "float16") -> Any:
    """The values of the keys with the greatest score of each block of keys, added up: exact."""

    @T.prim_func
    def main(
        Q: F16[TILES * ROWS, DIM], K: F16[most * KEYS, DIM], V: F16[most * KEYS, DIM],
        place: I32[TILES], O: T.Tensor((TILES * ROWS, DIM), out),
    ):  # fmt: skip
        with T.Kernel(TILES, threads=2 * ROWS) as bx:
            q = T.alloc_shared((ROWS, DIM), "float16")
            k = T.alloc_shared((KEYS, DIM), "float16")
            v = T.alloc_shared((KEYS, DIM), "float16")
            queries = T.alloc_fragment((ROWS, DIM), "float16")
            s = T.alloc_fragment((ROWS, KEYS), "float32")
            p = T.alloc_fragment((ROWS, KEYS), "float16")
            top = T.alloc_fragment((ROWS,), "float32")
            o = T.alloc_fragment((ROWS, DIM), "float32")
            first = place[bx] if case in ("table", "written table") else bx
            T.copy(Q[first * ROWS, 0], q)
            if case == "changed":
                for i, j in T.Parallel(ROWS, DIM):
                    q[i, j] = q[i, j] * 2
            if case == "held":
                T.copy(q, queries)
            T.clear(o)
            for i in T.Pipelined(most, num_stages=2):
                T.copy(K[i * KEYS, 0], k)
                T.clear(s)
                T.gemm(queries if case == "held" else q, k, s, transpose_B=True)
                T.reduce_max(s, top, dim=1)
                for r, c in T.Parallel(ROWS, KEYS):
                    p[r, c] = T.if_then_else(s[r, c] == top[r], 1.0, 0.0)
                T.copy(V[i * KEYS, 0], v)
                T.gemm(p, v, o)
            if case == "late":
                for r, c in T.Parallel(ROWS, DIM):
                    o[r, c] += q[r, c]
            if case == "written table":
                place[bx] = bx
            T.copy(o, O[bx * ROWS, 0])

    return main


def behind(func: Any, options: Options | None = None) -> S.PrimFunc:
    """The program with its schedule."""
    return apply_all(func, HOPPER, options)


def roles(func: S.PrimFunc) -> dict[str, S.Stmt]:
    """The bodies of the roles of a program."""
    return {node.name: node.body for node in S.walk(func.body) if isinstance(node, H.Role)}


def copies(body: S.Stmt) -> list[str]:
    """The tiles that copies of ``body`` bring from global memory."""
    return [
        node.dst.buffer.name for node in S.walk(body)
        if isinstance(node, S.Copy) and node.src.buffer.storage == "global"
    ]  # fmt: skip


@pytest.mark.parametrize("case", ["changed", "written table"])
def test_what_consumers_write_or_say_stays_theirs(case: str) -> None:
    made = roles(behind(greatest(case)))
    assert copies(made["producer"]) == ["k", "v"]
    assert copies(made["consumers"]) == ["q"]


def test_nothing_is_copied_ahead_without_overlap() -> None:
    assert copies(roles(behind(greatest(), Options(no_overlap=True)))["producer"]) == ["k", "v"]


def small(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(shape[0]).integers(-3, 4, shape).astype(np.float16)


@pytest.mark.parametrize(
    ("case", "most", "out"),
    [("", 3, "float16"), ("held", 3, "float32"), ("late", 2, "float16"), ("table", 3, "float16")],
)
def test_results(case: str, most: int, out: str) -> None:
    Q, K = small(TILES * ROWS, DIM), small(most * KEYS, DIM)
    V, place = K[::-1].copy(), np.random.default_rng(3).permutation(TILES).astype(np.int32)
    asked = Q.astype(np.float32).reshape(TILES, ROWS, DIM)
    asked = (asked[place] if case == "table" else asked).reshape(-1, DIM)
    wanted = asked.copy() if case == "late" else np.zeros_like(asked)
    for keys, values in zip(np.split(K, most), np.split(V, most)):
        s = asked @ keys.astype(np.float32).T
        wanted += (s == s.max(1, keepdims=True)).astype(np.float32) @ values.astype(np.float32)
    given = (Q, K, V, place, np.zeros(Q.shape, out))
    holds(greatest(case, most, out), given, wanted.astype(out), on=(SM_90A,))
