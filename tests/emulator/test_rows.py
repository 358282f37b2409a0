"""Every row of an instruction: the smallest program around it is the same by the interpreter and as
CUDA text on the cores, where its meaning is given; else it is compiled for what has it."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
from tensor_types import F32, I32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx
from tilelang.interpret.calls import MEANINGS
from tilelang.ir.atoms import Effect
from tilelang.ir.expr import call
from tilelang.language import instructions
from tilelang.target.features import FEATURES, lowest_with
from tilelang.target.instruction_table import ROWS

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
import ptx_cases  # a script of the repository

THREADS = 64
needs_cxx = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
CASES = {case.intrinsic: case for case in ptx_cases.cases()}
# Functions of pairs of lanes, of constants, or of something that is no value.
NO_SCALARS = frozenset(
    "add2 sub2 mul2 max2 min2 fma2 abs2 ldexp reinterpret isnullptr shuffle_elect "
    "thread_allreduce".split()
)


def takes_values(row) -> bool:
    """Whether scalars make the smallest program."""
    plain = row.effect is Effect.NONE or bool(row.exchanges)
    special = row.moves or row.lowered or row.needs or row.name in NO_SCALARS
    return plain and not special and not row.operands


VALUES = [row for row in ROWS.values() if takes_values(row)]
# Orders of asynchronous units: nothing waits in them where nothing was started.
ORDERS = [row for row in ROWS.values() if row.doc and row.optional and not row.operands]


def group_of(row) -> str:
    """Where a row is tested."""
    if row in VALUES:
        return "values"
    if row.lowered:
        return "lowering"
    return "a case" if {row.name, *row.names} & CASES.keys() else "a test of its own"


def test_every_row_has_its_smallest_program() -> None:
    own = sorted(row.name for row in ROWS.values() if group_of(row) == "a test of its own")
    assert own == sorted(
        # Updates, output, pairs and pointers have operands or results of more than one kind.
        "atomic_add atomic_max atomic_min atomic_or atomic_and atomic_xor atomic_exch atomic_store "
        "atomic_load print device_assert call_extern call_intrin any_of all_of dp4a ldg isnullptr "
        "thread_allreduce rng_init rng_rand rng_rand_float assume tmem_free "
        "add2 sub2 mul2 max2 min2 fma2 abs2 ldexp".split()
    )


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_a_row_says_where_it_runs_and_what_it_is(row) -> None:
    assert row.needs in ("", "threads") or row.needs in FEATURES
    assert row.low <= row.high or row.high < 0
    if row.lowered and row.semantics:
        assert row.semantics in MEANINGS
    names = (*row.names, *row.strict) if row.names else (row.name, *row.strict)
    for name in names if row.doc else ():
        function = getattr(T, name)
        assert function.__name__ == name and function.__doc__.startswith(row.doc.split("\n")[0])
        parameters = inspect.signature(function).parameters
        assert [item.parameter for item in row.operands] == list(parameters)[: len(row.operands)]
        assert set(option.name for option in row.options) <= set(parameters)
        if row.needs in FEATURES:
            assert f"Needs {lowest_with(row.needs)}." in function.__doc__
        assert "\n\nSource: " in function.__doc__
        assert name in CASES, "ptx_cases makes a program of each"


def test_the_ptx_section_of_a_row_is_an_instruction_that_the_back_end_writes() -> None:
    folder = Path(tilelang.__file__).parent / "cuda"
    files = [*folder.rglob("*.h"), *folder.rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    assert [row.name for row in ROWS.values() if row.ptx not in text] == []


def test_functions_of_rows_are_those_of_the_language() -> None:
    for name in instructions.__all__:
        assert getattr(T, name) is getattr(instructions, name) and name in T.__all__


def scalars(t, row, A, N):
    """Operands of a row in thread ``t``."""
    if row.takes in ("float", "number"):
        return [A[(t + at) % THREADS] for at in range(row.low)]
    return [N[(t + at) % THREADS] for at in range(row.low)]


def store_all(rows, t, A, N, B):
    """A row of B for each function; Python runs this loop."""
    for at, row in enumerate(rows):
        B[at, t] = T.cast(call(row, *scalars(t, row, A, N)), B.dtype)


def of_values(rows, out):
    count = len(rows)

    @T.prim_func
    def values(A: F32[THREADS], N: I32[THREADS], B: T.Tensor((count, THREADS), out)):
        with T.Kernel(1, threads=THREADS):
            t = T.get_thread_binding()
            store_all(rows, t, A, N, B)

    return values


def both_ways(func, *arrays):
    """The arrays behind the program, by the interpreter and as CUDA text on the cores."""
    found = []
    for options in ({"execution_backend": "interpret"}, {"execution_backend": "emulator",
                    "target": "cuda -arch=sm_90a"}):  # fmt: skip
        copies = [array.copy() for array in arrays]
        tilelang.compile(func, **options)(*copies)
        found.append(copies)
    return found


@needs_cxx
@pytest.mark.parametrize("floats", [True, False], ids=["floats", "integers"])
def test_rows_of_values_mean_what_their_text_computes(floats: bool) -> None:
    rows = [row for row in VALUES if (row.takes in ("float", "number")) is floats]
    assert len(rows) > (50 if floats else 12)
    out = "float32" if floats else "int64"
    A = np.linspace(0.05, 0.95, THREADS, dtype=np.float32)
    N = (np.arange(THREADS, dtype=np.int32) * 7) % 11
    B = np.zeros((len(rows), THREADS), out)
    with np.errstate(all="ignore"):
        (_, _, meant), (_, _, got) = both_ways(of_values(rows, out), A, N, B)
    assert np.any(meant != 0)
    for row, want, had in zip(rows, meant, got):
        loose = 1e-3 if row.writer in ("fast", "reciprocal") else 1e-5
        np.testing.assert_allclose(had, want, rtol=loose, atol=loose, err_msg=row.name)


@needs_cxx
def test_orders_of_asynchronous_operations_keep_results() -> None:
    assert len(ORDERS) > 7

    @T.prim_func
    def ordered(A: I32[128]):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            A[t] = A[t] + 1
            [getattr(T, row.usual)() for row in ORDERS]
            A[t] = A[t] * 2

    start = np.arange(128, dtype=np.int32)
    for (found,) in both_ways(ordered, start):
        assert np.array_equal(found, (start + 1) * 2)
