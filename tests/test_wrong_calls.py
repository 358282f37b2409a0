"""Arguments of the wrong type to functions of the package are errors that say what is expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
import tilelang.tools
from tilelang.env import LOG_LEVELS
from tilelang.errors import TileError, TileTypeError, TileValueError, shown
from tilelang.jit.execution import BACKENDS
from tilelang.profiler import Profiler, do_bench


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
    "a profiler": (
        lambda: Profiler(untyped(3)),
        "a profiler measures a kernel\n  expected: what tilelang.compile gives\n  got: 3\n"
        "  hint: kernel.get_profiler() makes one",
    ),
    "do_bench": (
        lambda: do_bench(untyped("x")),
        "do_bench measures a function\n  expected: one without arguments\n  got: 'x'",
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


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_error_names_what_is_expected(name: str) -> None:
    call, text = CALLS[name]
    with pytest.raises(TileError) as caught:
        call()
    assert isinstance(caught.value, (TileTypeError, TileValueError))
    assert str(caught.value) == text


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
