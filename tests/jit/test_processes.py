"""Kernels and functions of kernels in other processes: pickle, cloudpickle, copies, spawn."""

from __future__ import annotations

import copy
import inspect
import linecache
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentTypeError, TileTypeError

ROOT = Path(tilelang.__file__).resolve().parents[1]
DATA = np.arange(16, dtype=np.float32)


@tilelang.jit(out_idx=[-1], target="cpu")
def scaled(n: int, factor: float = 2.0) -> Any:
    """Times a factor."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * factor

    return kernel


@tilelang.jit(target="cpu", pass_configs={"tl.enable_fast_math": False})
def shifted(A, by: T.float32):  # type: ignore[no-untyped-def]  # the tracer gives them
    n = T.const("n")
    A: T.Tensor[[n], T.float32]  # type: ignore[no-redef]  # a parameter gets its annotation
    B = T.empty((n,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            B[i] = A[i] + by
    return B


@T.macro
def twice(x):  # type: ignore[no-untyped-def]  # the tracer gives them
    return x * 2


def python(text: str, *args: str, fails: bool = False) -> str:
    """What a program in a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *args],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert bool(done.returncode) is fails, done.stderr
    return done.stdout


def test_a_kernel_is_pickled_by_program_and_options(tmp_path: Path) -> None:
    kernel = scaled(16)
    kernel.update_tuner_result(0.5, {"n": 16}, 0.75)
    found = pickle.loads(pickle.dumps(kernel))
    assert found is not kernel and (found(DATA) == DATA * 2).all()
    assert found.get_kernel_source() == kernel.get_kernel_source()
    assert (found.options, found.target) == (kernel.options, kernel.target)
    assert found.get_tuner_result() == kernel.get_tuner_result()
    file = tmp_path / "kernel.pickle"
    file.write_bytes(pickle.dumps(kernel))
    code = """
        import pickle, sys, numpy as np
        kernel = pickle.load(open(sys.argv[1], "rb"))
        print(kernel(np.arange(16, dtype=np.float32)).tolist())
    """
    assert python(code, str(file)) == f"{(DATA * 2).tolist()}\n"


def test_a_copy_of_a_kernel_shares_what_runs() -> None:
    kernel = scaled(16)
    kernel.update_tuner_result(0.5, {"block": [1, 2]})
    for made in (copy.copy(kernel), copy.deepcopy({"layer": [kernel]})["layer"][0]):
        assert made is not kernel and made.adapter is kernel.adapter
        assert (made(DATA) == DATA * 2).all() and made.config == {"block": [1, 2]}
    assert copy.deepcopy(kernel).config is not kernel.config


def test_a_function_of_a_module_is_pickled_by_name() -> None:
    for function in (scaled, shifted, twice):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function and copy.copy(shifted) is shifted


def test_a_function_without_a_name_is_an_error_with_a_hint() -> None:
    local = tilelang.jit(out_idx=[-1])(lambda n: None)
    with pytest.raises(pickle.PicklingError) as caught:
        pickle.dumps(local)
    name = "test_a_function_without_a_name_is_an_error_with_a_hint.<locals>.<lambda>"
    assert str(caught.value) == (
        f"the tilelang function `{name}` cannot be pickled: it is not at the top level of a "
        "module; move it there, use cloudpickle, or pickle a compiled kernel"
    )


PROGRAM = """
import tilelang
import tilelang.language as T

OFFSET = 3.0

@T.macro
def moved(x):
    return x + OFFSET

@tilelang.jit(target="cpu")
def shift(A):
    n = T.const("n")
    A: T.Tensor[[n], T.float32]
    B = T.empty((n,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            B[i] = moved(A[i])
    return B
"""


def test_a_function_of_a_program_is_pickled_by_value(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle", reason="plain pickle takes no functions by value")
    file = tmp_path / "function.pickle"
    filename = "<cell 7>"  # of a notebook: no other process has it
    code = """
        import cloudpickle, linecache, sys, numpy as np
        filename, text = sys.argv[2:]
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        exec(compile(text, filename, "exec"))
        assert shift(np.zeros(4, np.float32)).tolist() == [3.0] * 4
        cloudpickle.dump(shift, open(sys.argv[1], "wb"))
    """
    python(code, str(file), filename, PROGRAM)
    found = pickle.loads(file.read_bytes())
    try:
        assert found(DATA).tolist() == (DATA + 3).tolist()
        assert "moved(A[i])" in found.func_source
    finally:
        linecache.cache.pop(filename, None)


def printed(folder: Path, main: str) -> str:
    """What the program and ``main``, run as a script of its own, print."""
    file = folder / "program.py"
    main = textwrap.indent(textwrap.dedent(main), "    ")
    file.write_text(f"{PROGRAM}\nif __name__ == '__main__':\n    import numpy as np\n{main}")
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JOBLIB_TEMP_FOLDER": str(folder)},
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout


def test_joblib_and_dask_run_kernels_in_processes_and_threads(tmp_path: Path) -> None:
    for name in ("joblib", "dask"):
        pytest.importorskip(name, reason="runs kernels in processes")
    main = """
        import dask
        from joblib import Parallel, delayed
        data = [np.full(4, x, np.float32) for x in range(3)]
        kernel = shift.compile(data[0])
        for work in (shift, kernel):
            found = Parallel(n_jobs=2)(delayed(work)(x) for x in data)
            print([float(x[0]) for x in found])
        for scheduler in ("processes", "threads"):
            calls = [dask.delayed(work)(data[1]) for work in (shift, kernel)]
            found = dask.compute(*calls, scheduler=scheduler, num_workers=2)
            print([float(x[0]) for x in found])
    """
    assert printed(tmp_path, main) == "[3.0, 4.0, 5.0]\n" * 2 + "[4.0, 4.0]\n" * 2


def test_a_function_looks_like_what_it_was_made_from() -> None:
    assert scaled.__wrapped__ is scaled.pyfunc and scaled.__doc__ == "Times a factor."
    assert str(inspect.signature(scaled)) == "(n: 'int', factor: 'float' = 2.0) -> 'Any'"
    assert inspect.getsource(scaled).startswith("@tilelang.jit(out_idx=[-1]")
    assert inspect.getsource(twice).startswith("@T.macro\ndef twice(x):")
    assert inspect.unwrap(shifted) is shifted.pyfunc


@T.prim_func
def doubled(A: T.Tensor((4,), "float32")):
    """Doubles in place."""
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            A[i] = A[i] * 2


@tilelang.autotune(configs=[{"factor": 2.0}])
@tilelang.jit(out_idx=-1)
def searched(n: int, factor: float = 1.0) -> Any:
    """Times the best factor."""
    return scaled(n, factor).prim_func


def test_a_program_and_its_kernels_show_the_function_that_they_were_traced_from() -> None:
    text = inspect.getsource(doubled)
    assert text.startswith("@T.prim_func\ndef doubled(A: T.Tensor")
    assert text.endswith("A[i] = A[i] * 2\n")
    assert doubled.__name__ == "doubled" and doubled.__wrapped__.__doc__ == "Doubles in place."
    assert list(inspect.signature(doubled).parameters) == ["A"]
    kernel = tilelang.compile(doubled)
    assert kernel.__wrapped__ is doubled.__wrapped__ and inspect.getsource(kernel) == text
    assert inspect.getdoc(kernel) == "Doubles in place."
    assert inspect.getsource(scaled(16)).lstrip().startswith("@T.prim_func\n")
    assert inspect.getsource(shifted.compile(DATA, 1.0)) == inspect.getsource(shifted)
    assert inspect.getsource(doubled.with_attr("a", 1)) == text
    assert inspect.getsource(copy.deepcopy(kernel)) == text


def test_a_tuned_function_looks_like_what_it_was_made_from() -> None:
    assert str(inspect.signature(searched)) == "(n: 'int', factor: 'float' = 1.0) -> 'Any'"
    assert inspect.getsource(searched).startswith("@tilelang.autotune(configs=")
    assert inspect.getdoc(searched) == "Times the best factor."
    assert searched.__wrapped__ is searched.jit_impl


def test_a_program_of_another_process_has_no_function() -> None:
    there = pickle.loads(pickle.dumps(doubled))
    assert not hasattr(there, "__wrapped__") and there.__name__ == "doubled"
    assert not hasattr(tilelang.compile(there), "__wrapped__")


def test_classes_keep_signatures_of_their_own() -> None:
    assert next(iter(inspect.signature(tilelang.JITKernel).parameters)) == "func"
    assert next(iter(inspect.signature(type(doubled)).parameters)) == "name"


def test_a_program_is_not_called() -> None:
    with pytest.raises(TileTypeError) as caught:
        doubled(DATA)
    assert caught.value.message == (
        "`doubled` is a program, which has to be compiled before it can be called"
    )


def test_a_kernel_has_a_name_and_a_signature() -> None:
    kernel = scaled(16)
    assert kernel.__name__ == "kernel"
    assert str(inspect.signature(kernel)) == "(A: \"T.Tensor((16,), 'float32')\")"
    moved = shifted.compile(DATA, 1.0)
    assert str(inspect.signature(moved)) == ("(A: \"T.Tensor((16,), 'float32')\", by: 'T.float32')")


def test_inputs_may_be_given_by_name() -> None:
    kernel = shifted.compile(DATA, 1.0)
    assert (kernel(DATA, by=2.0) == DATA + 2).all()
    assert (kernel(by=2.0, A=DATA) == DATA + 2).all()


@pytest.mark.parametrize(
    ("args", "keywords", "text"),
    [
        ((DATA,), {"to": 1.0},
         "kernel shifted has no input to\n  expected: its inputs: A, by\n  got: to"),
        ((DATA,), {"A": DATA},
         "kernel shifted input A is given twice\n  expected: a value by position or by name"),
        ((), {"A": DATA}, "kernel shifted input by is missing\n  expected: its inputs: A, by"),
    ],
)  # fmt: skip
def test_wrong_names_are_errors(args: tuple[Any, ...], keywords: dict[str, Any], text: str) -> None:
    assert refusal(ArgumentTypeError, shifted.compile(DATA, 1.0), *args, **keywords) == text


def test_instructions_of_a_pickled_program_are_those_of_the_table() -> None:
    """Passes know them by identity: a reduction over threads lost its room in shared memory."""
    from tilelang.target.instruction_table import ROWS

    assert all(pickle.loads(pickle.dumps(row)) is row for row in ROWS.values())
