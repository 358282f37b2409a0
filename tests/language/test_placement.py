"""Statements that are illegal where they are: in parallel loops, and on reducers in the wrong state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from columns import as_known
from executors import CPU, INTERPRETER, OPTIONS, SM_90A
from refusals import refusal
from written import kernel_of

import tilelang
import tilelang.language as T
from tilelang.errors import TileSyntaxError, TileValueError


def traced(body: str) -> Any:
    tiles = (
        "t = T.alloc_fragment((8, 8), 'float32')\ns = T.alloc_shared((8, 8), 'float32')\n"
        "r = T.alloc_reducer((8,), 'float32')\n"
    )
    tensors = "A: T.Tensor((8, 8), 'float32'), B: T.Tensor((8,), 'float32')"
    return kernel_of(tiles + body, tensors, "<place>")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("T.sync_threads()", "T.sync_threads"),
        ("T.copy(A, s)", "the tile operation T.copy"),
        ("T.finalize_reducer(r)", "the tile operation T.finalize_reducer"),
        ("for k in T.serial(2):\n        T.sync_threads()", "T.sync_threads"),
    ],
)
def test_block_wide_operations_are_illegal_in_a_parallel_loop(statement: str, what: str) -> None:
    with pytest.raises(TileSyntaxError) as caught:
        traced(f"T.clear(r)\nfor i in T.Parallel(8):\n    {statement}")
    assert str(caught.value).splitlines()[:3] == [
        f"{what} in a T.Parallel loop",
        "  expected: loads, stores and arithmetic of single elements",
        "  hint: an iteration is the work of one thread; end the loop before it, or use T.serial",
    ]


START = "start it with T.clear, T.fill or T.reducer_init"
FINALIZE = "call T.finalize_reducer first: until then each thread has a partial result"
UPDATE = "update it: `acc[i] += x`, or T.max, T.min and so on for its operation"
LOOP = "for i in T.Parallel(8):\n    r[i] += A[i, 0]\n"


@pytest.mark.parametrize(
    ("body", "what", "hint"),
    [
        ("T.finalize_reducer(r)", "is finalized before it is started", START),
        ("T.clear(r)\n" + LOOP + "T.copy(r, B)", "is read before T.finalize_reducer", FINALIZE),
        ("T.clear(r)\n" + LOOP + "r[0] = r[0] * 2", "is updated by an operation other than 'sum'", UPDATE),
        ("T.clear(r)\nfor i in T.Parallel(8):\n    r[i] = r[i] * r[i]",
         "is updated by an operation other than 'sum'", UPDATE),
        ("T.clear(r)\n" + LOOP + "T.finalize_reducer(r)\nT.finalize_reducer(r)",
         "is finalized twice", START),
        ("T.clear(r)\n" + LOOP + "T.finalize_reducer(r)\n" + LOOP,
         "is updated after T.finalize_reducer", START),
        ("T.clear(r)\n" + LOOP + "for i in T.Parallel(8):\n    r[i] = A[i, 0]",
         "is stored to while it collects", UPDATE),
    ],
)  # fmt: skip
def test_a_reducer_used_in_the_wrong_state_is_an_error(body: str, what: str, hint: str) -> None:
    with pytest.raises(TileValueError) as caught:
        traced(body)
    assert str(caught.value).splitlines()[:3] == [
        f"the reducer `r` {what}",
        "  expected: start, updates, T.finalize_reducer, reads, in this order",
        f"  hint: {hint}",
    ]


# -- grids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", (INTERPRETER, CPU, SM_90A))
def test_a_grid_that_is_empty_at_the_call_runs_nothing(executor: str) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((n,), "float32"), B: T.Tensor((1,), "float32")) -> None:
        with T.Kernel(T.ceildiv(n, 4), threads=32):
            B[0] = 1

    kernel = tilelang.compile(f, **OPTIONS[executor])
    b = np.zeros(1, np.float32)
    kernel(np.zeros(0, np.float32), b)
    assert b[0] == 0
    kernel(np.zeros(3, np.float32), b)
    assert b[0] == 1


@pytest.mark.parametrize("name", ["mbarrier_arrive", "barrier_arrive", "ptx_arrive_barrier"])
def test_an_instruction_is_called_as_the_line_calls_it(name: str) -> None:
    body = f"m = T.alloc_barrier(1)\nfor i in T.Parallel(8):\n    T.{name}(m[0])"
    assert refusal(TileSyntaxError, traced, body) == as_known(
        f"T.{name} in a T.Parallel loop\n"
        "  expected: loads, stores and arithmetic of single elements\n"
        "  hint: an iteration is the work of one thread; end the loop before it, or use T.serial\n"
        f" --> <place>:9:13\n    9 |             T.{name}(m[0])\n"
        f"      |             ^^{'^' * len(name)}^^^^^^"
    )


def test_a_fragment_is_not_allocated_in_a_parallel_loop() -> None:
    with pytest.raises(TileSyntaxError) as caught:
        traced("for i in T.Parallel(8):\n    q = T.alloc_fragment((4,), 'float32')")
    assert str(caught.value) == as_known(
        "T.alloc_fragment in a T.Parallel loop\n"
        "  expected: T.alloc_local or T.alloc_var, of the thread that runs the iteration\n"
        "  hint: a fragment belongs to all threads of the block; allocate it before the loop\n"
        " --> <place>:8:17\n    8 |             q = T.alloc_fragment((4,), 'float32')\n"
        "      |                 " + "^" * 33
    )


@pytest.mark.parametrize(
    "view",
    [
        "T.view(t, (64,))",
        "T.reshape(t, (64,))",
        "T.make_tensor(t, (64,))",
        "T.match_buffer(t, (64,))",
        "T.decl_buffer((64,), data=t)",
        "T.sblock_alloc_buffer((8,), data=t)",
        "T.Tensor((64,), 'float32', t.data)",
    ],
)
def test_a_view_of_a_fragment_is_not_created_in_a_parallel_loop(view: str) -> None:
    assert refusal(TileSyntaxError, traced, f"for i in T.Parallel(8):\n    q = {view}") == as_known(
        "a view of a fragment in a T.Parallel loop\n"
        "  expected: T.alloc_local or T.alloc_var, of the thread that runs the iteration\n"
        "  hint: a fragment belongs to all threads of the block; make the view before the loop\n"
        f" --> <place>:8:17\n    8 |             q = {view}\n"
        "      |                 " + "^" * len(view)
    )


def test_the_address_of_a_barrier_as_a_statement_is_nothing() -> None:
    func = traced("m = T.alloc_barrier(1)\nT.evaluate(T.address_of(m[0]))\nB[0] = 1.0")
    for how in (INTERPRETER, CPU):
        b = np.zeros(8, np.float32)
        tilelang.compile(func, **OPTIONS[how])(np.zeros((8, 8), np.float32), b)
        assert b[0] == 1


def test_legal_views_of_fragments_and_tiles() -> None:
    body = (
        "q = T.view(t, (64,))\nfor i in T.Parallel(8):\n    w = T.view(s, (64,))\n    q[i] = w[i]"
    )
    for target in ("cpu", "cuda -arch=sm_90a"):
        tilelang.lower(traced(body), target)
