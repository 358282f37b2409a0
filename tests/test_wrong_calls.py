"""Arguments of the wrong type to functions of the package are errors that say what is expected."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.autotuner.report
import tilelang.autotuner.store
import tilelang.language as T
import tilelang.tools
from tilelang.env import LOG_LEVELS
from tilelang.errors import TileError, TileTypeError, TileValueError, shown
from tilelang.jit.execution import BACKENDS
from tilelang.profiler import Profiler, do_bench
from tilelang.profiler.options import MODES
from tilelang.tools import plot_layout


@T.prim_func
def fill(A: T.Tensor((4,), "int32")):  # type: ignore[no-untyped-def]  # a traced function
    with T.Kernel(1, threads=1):
        A[0] = 1


def kernel() -> Any:
    return tilelang.compile(fill, execution_backend="interpret")


def untyped(value: object) -> Any:
    """``value`` as a program without types passes it."""
    return value


CONFIGS = "  expected: {tilelang.PassConfigKey...: value, ...}\n  got: "
WORKERS = "  expected: how many, or None for one per core\n  got: "
A_PATH = "  expected: a str or a pathlib.Path\n  got: "
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "no folder": (
        lambda: tilelang.export_library(untyped(None), {"f": fill}),
        f"the folder of export_library is a path\n{A_PATH}None",
    ),
    "no kernels": (
        lambda: tilelang.export_library("out", untyped("x")),
        "export_library takes kernels by name\n"
        "  expected: a dict: name of the function -> compiled kernel\n  got: 'x'",
    ),
    "a name": (
        lambda: tilelang.export_library("out", untyped({3: fill})),
        "the names of a library and its functions are strings\n  expected: a str\n  got: 3",
    ),
    "archs": (
        lambda: tilelang.export_library("out", {"f": fill}, archs="sm_80"),
        'archs is a list of names\n  expected: e.g. ["sm_80", "sm_90a"]\n  got: \'sm_80\'',
    ),
    "a file": (lambda: kernel().export_sources(3), f"the file to write is a path\n{A_PATH}3"),
    "a file with a NUL": (
        lambda: kernel().export_sources("a\0b"),
        "the file to write has a NUL\n  expected: the path of a file\n  got: 'a\\x00b'",
    ),
    "a kernel": (
        lambda: tilelang.JITKernel(untyped("x")),
        "JITKernel takes a traced function\n  expected: what @T.prim_func gives\n  got: 'x'",
    ),
    "do_bench": (
        lambda: do_bench(untyped("x")),
        "what is measured is called\n  expected: a function of no arguments\n  got: 'x'",
    ),
    "a pass context": (
        lambda: tilelang.transform.PassContext(config=untyped([1])),
        f"config of PassContext is not a dict\n{CONFIGS}[1]",
    ),
    "pass_configs": (
        lambda: tilelang.compile(fill, pass_configs=untyped("x")),
        f"pass_configs is not a dict\n{CONFIGS}'x'",
    ),
    "flags": (
        lambda: tilelang.compile(fill, compile_flags=5),
        "compile_flags has the wrong type\n  expected: a list of strings\n  got: 5",
    ),
    "a backend": (
        lambda: tilelang.compile(fill, execution_backend=untyped(["c"])),
        f"unknown execution_backend ['c']\n  expected: {', '.join(BACKENDS)}\n  got: ['c']",
    ),
    "workers": (
        lambda: tilelang.par_compile([fill], num_workers=untyped("2")),
        f"num_workers is not a number of threads\n{WORKERS}'2'",
    ),
    "a log level": (
        lambda: tilelang.set_log_level(untyped([1])),
        f"unknown log level [1]\n  expected: {', '.join(LOG_LEVELS)}\n  got: [1]",
    ),
    "a report": (
        lambda: tilelang.tools.explain(untyped(kernel)),
        "explain takes a traced function\n  expected: what @T.prim_func gives\n"
        f"  got: {shown(kernel)}",
    ),
    "cdiv": (
        lambda: tilelang.cdiv(untyped("x"), 2),
        "cdiv divides two integers\n  expected: integers\n  got: 'x', 2",
    ),
    "next_power_of_2": (
        lambda: tilelang.next_power_of_2(untyped(2.5)),
        "next_power_of_2 is of an integer\n  expected: an integer\n  got: 2.5",
    ),
}


def profiled(**options: Any) -> None:
    kernel().get_profiler().assert_allclose(lambda A: None, **options)


# What takes an option, the option, a wrong value, and what is expected.
OPTIONS: list[tuple[Callable[..., Any], str, object, str]] = [
    (partial(do_bench, None), "warmup", None, "milliseconds, 0 or more"),
    (partial(do_bench, None), "_n_repeat", 2.5, "a whole number, 0 or more"),
    (partial(do_bench, None), "quantiles", [0.5, 2], "numbers from 0 to 1 in a list, or None"),
    (partial(do_bench, None), "fast_flush", "no", "True or False"),
    (partial(do_bench, None), "backend", "sundial", "event, cupti, cudagraph"),
    (partial(do_bench, None), "return_mode", 3, ", ".join(MODES)),
    (Profiler, "kernel", 3, "what tilelang.compile gives"),
    (profiled, "rtol", "x", "a number, 0 or more"),
    (profiled, "max_mismatched_ratio", 2, "a number from 0 to 1"),
    (profiled, "input_tensors", np.zeros(4), "what a call passes, in a list, or None"),
    (profiled, "dynamic_symbolic_constraints", "n", "a dict: name -> number, or None"),
    (tilelang.autotune, "timeout", "1", "seconds, 0 or more, or None for no limit"),
    (tilelang.autotune, "supply_type", "Auto", "a member of tilelang.TensorSupplyType"),
    (tilelang.autotune, "skip_check", "false", "True or False"),
    (tilelang.autotune, "ref_prog", "x", "a function, or None"),
    (tilelang.autotune, "early_stop_factor", 0.5, "a factor, 1 or more"),
    (tilelang.autotune, "num_workers", 1.5, "how many, or None for one per core"),
    (tilelang.autotune, "do_not_specialize", "n", "names in a list, or None"),
]


@pytest.mark.parametrize(("call", "name", "value", "expected"), OPTIONS)
def test_options_of_measuring_and_tuning_are_checked(
    call: Callable[..., Any], name: str, value: object, expected: str
) -> None:
    with pytest.raises(TileValueError) as caught:
        call(**{name: value})
    text = f"{name.strip('_')} has the wrong value\n  expected: {expected}\n  got: {shown(value)}"
    assert str(caught.value) == text


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_error_names_what_is_expected(name: str) -> None:
    call, text = CALLS[name]
    with pytest.raises(TileError) as caught:
        call()
    assert isinstance(caught.value, (TileTypeError, TileValueError))
    assert str(caught.value) == text


WRITERS: dict[str, Callable[[str], object]] = {
    "export_library": lambda path: tilelang.compile(fill, target="cpu").export_library(path),
    "tuned results": tilelang.autotuner.store.save,
    "report": lambda path: tilelang.autotuner.report.Report("f", "cpu", "x", (), 0.0).save(path),
    "plot": lambda path: plot_layout(T.Layout((8,), lambda i: i), save_directory=path),
    "dump": lambda path: tilelang.compile(
        fill, target="cpu", pass_configs={"tl.enable_dump_ir": True, "tl.dump_ir_path": path}
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_path_below_a_file_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "below.txt"
    assert refusal(TileValueError, WRITERS[name], str(path)) == (
        "a file cannot be written\n  expected: a path where this user can write\n"
        f"  got: Not a directory: '{path}'"
    )


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path / "file" / "x.c", "Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
        (tmp_path / "nothing" / "x.c", "No such file or directory"),
    ):
        with pytest.raises(TileValueError) as caught:
            kernel().export_sources(str(path))
        assert str(caught.value).startswith(
            "a file cannot be written\n  expected: a path where this user can write\n"
            f"  got: {reason}: '{str(path)[:60]}"
        )


def test_whole_numbers_of_any_kind_are_rounded_up() -> None:
    assert tilelang.cdiv(np.int64(7), 2) == 4
    assert tilelang.next_power_of_2(np.int32(5)) == 8


def test_a_tensor_with_freed_memory_has_a_repr() -> None:
    torch = pytest.importorskip("torch", reason="its tensors can be freed")
    tensor = torch.zeros(100_000)
    tensor.untyped_storage().resize_(0)  # its repr would read what is not there
    text = "<Tensor of shape (100000,) and dtype torch.float32>"
    assert shown(tensor) == text
    assert shown([tensor]) == f"[{text}]"
