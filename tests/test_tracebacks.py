"""Tracebacks of errors: the frames of the program, and none of this package."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import InternalError, JITNoBuilderError, TileError
from tilelang.tracebacks import border
from tilelang.utils.target import determine_target


@T.macro
def wrong(tile):
    tile[0, 0] = 1.0


def program() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            wrong(A)

    return kernel


factory = tilelang.jit(target="cpu")(program)


def program_of(n: int) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    return kernel


@tilelang.autotune(configs={"block": [8, 16]}, isolate=False)
@tilelang.jit(target="cpu")
def tuned(n, block=None):  # type: ignore[no-untyped-def]  # as programs are written
    return program()


@tilelang.jit(target="cpu")
def eager(A):
    n = T.const("n")
    A: T.Tensor[[n], T.float32]
    with T.Kernel(1, threads=32):
        wrong(A)


@tilelang.jit(target="cpu")
def right(A):
    A: T.Tensor[[8], T.float32]
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = 1.0


DATA = np.zeros(8, np.float32)


def frames(call: Callable[[], Any], whole: bool = False) -> list[str]:
    """The functions and modules of the traceback below this one."""
    with pytest.raises(TileError) as caught:
        call()
    found = traceback.walk_tb(caught.value.__traceback__)
    names = [
        frame.f_code.co_name
        if frame.f_globals["__name__"] == __name__
        else frame.f_globals["__name__"]
        for frame, _ in found
    ][1:]
    return names if whole else without_the_border(names)


def without_the_border(names: list[str]) -> list[str]:
    """``names`` without the frame of ours that Python 3.10 keeps: the one that users called."""
    border = [name for name in names if name.startswith("tilelang.")]
    if sys.version_info < (3, 11) and border:
        names.remove(border[0])
    return names


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: program(), ["<lambda>", "program", "kernel", "wrong"]),
        (lambda: factory(), ["<lambda>", "program", "kernel", "wrong"]),
        (lambda: eager(DATA), ["<lambda>", "eager", "wrong"]),
        (lambda: right(np.zeros(9, np.float32)), ["<lambda>"]),
        (lambda: right.compile(DATA)(), ["<lambda>"]),
        (lambda: right.compile(DATA)(B=DATA), ["<lambda>"]),
        (lambda: tilelang.compile(3), ["<lambda>"]),
        (lambda: T.macro(3), ["<lambda>"]),
        (lambda: T.Tensor((8,), "flaot32"), ["<lambda>"]),
        (lambda: T.StridedTensor((8,), (1, 2), "float32"), ["<lambda>"]),
        (lambda: tilelang.sanitize(3), ["<lambda>"]),
        (lambda: T.Layout((4,), 3), ["<lambda>"]),
        (lambda: determine_target("sm_999"), ["<lambda>"]),
        (lambda: T.dtype("flaot32"), ["<lambda>"]),
        (lambda: program_of(8)(DATA), ["<lambda>"]),
        (lambda: tuned(8), ["<lambda>", "tuned", "program", "kernel", "wrong"]),
    ],
)
def test_only_frames_of_the_program_are_left(
    call: Callable[[], Any], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert frames(call) == expected
    monkeypatch.setenv("TILELANG_TRACEBACK", "full")
    assert any(name.startswith("tilelang.") for name in frames(call))


def in_a_kernel() -> None:
    with T.Kernel(1):
        pass


def in_a_loop() -> None:
    for _ in T.Parallel(4):
        pass


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (in_a_kernel, "T.Kernel"),
        (in_a_loop, "T.Parallel"),
        (lambda: T.copy(DATA, DATA), "T.copy"),
        (lambda: T.alloc_shared((8,), "float32"), "T.alloc_shared"),
        (lambda: T.tma_store_arrive(), "T.tma_store_arrive"),
        (lambda: T.get_thread_binding(), "T.get_thread_binding"),
        (lambda: wrong(DATA), "macro wrong"),
    ],
)
def test_an_operation_outside_a_kernel_shows_no_internal_frames(
    call: Callable[[], Any], word: str
) -> None:
    with pytest.raises(JITNoBuilderError) as caught:
        call()
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    names = without_the_border([frame.f_globals["__name__"] for frame in frames])
    assert set(names) == {__name__}
    lines = traceback.extract_tb(caught.value.__traceback__)
    line = [entry.lineno for entry in lines if entry.filename == __file__][-1]
    assert str(caught.value).startswith(
        f"`{word}` is used outside a kernel\n"
        "  expected: a call inside a function decorated with @T.prim_func, @tilelang.jit or "
        f"@T.macro while it is traced\n --> {__file__}:{line}"
    )


def test_a_traceback_of_wrong_arguments_has_no_package_frames() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'") as caught:
        T.alloc_shared((8,), "float32", foo=1)
    found = traceback.walk_tb(caught.value.__traceback__)
    names = without_the_border([frame.f_globals["__name__"] for frame, _ in found])
    assert set(names) == {__name__}


def test_a_chained_error_is_shown_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def large() -> Any:
        @T.prim_func
        def kernel(A: T.Tensor((512, 512), "float32"), B: T.Tensor((512, 512), "float32")):
            with T.Kernel(1, threads=128):
                tile = T.alloc_shared((512, 512), "float32")
                T.copy(A, tile)
                T.copy(tile, B)

        return kernel

    calls: tuple[Callable[[], Any], ...] = (
        lambda: tilelang.compile(large(), target="cuda -arch=sm_80", execution_backend="emulator"),
        lambda: right.compile(DATA)([1.0]),
    )
    for call in calls:
        with pytest.raises(TileError) as caught:
            call()
        assert "".join(traceback.format_exception(caught.value)).count("Traceback") == 1
    monkeypatch.setenv("TILELANG_TRACEBACK", "full")
    with pytest.raises(TileError) as caught:
        calls[1]()
    assert caught.value.__cause__ is not None


def test_tracebacks_of_torch_operators_have_no_package_frames() -> None:
    torch = pytest.importorskip("torch", reason="has operators")
    kernel = right.compile(DATA)
    with pytest.raises(TileError) as caught:
        tilelang.torch.custom_op("alone", kernel)
    assert modules(caught.value) == {__name__}
    op = tilelang.torch.custom_op("tilelang_test::framed", kernel)
    for values in (torch.zeros(9), torch.zeros(8, dtype=torch.float64)):
        with pytest.raises(TileError) as caught:
            op(values)
        assert modules(caught.value) == {__name__, "torch"}


def test_tracebacks_of_calls_from_jax_have_no_package_frames() -> None:
    numpy = pytest.importorskip("jax.numpy", reason="has programs")
    with pytest.raises(TileError) as caught:
        tilelang.jax.custom_call(3)
    assert modules(caught.value) == {__name__}
    if right.compile(DATA).execution_backend != "c":
        pytest.skip("needs a C compiler")
    call = tilelang.jax.custom_call(right)
    with pytest.raises(TileError) as caught:
        call(numpy.zeros(9))
    assert modules(caught.value) == {__name__}


def modules(error: TileError) -> set[str]:
    """This module, and the packages of others, that have frames in the traceback."""
    names = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)]
    return {name if name == __name__ else name.partition(".")[0] for name in names}


def test_a_bug_of_ours_keeps_its_frames() -> None:
    @border
    def fails() -> None:
        raise InternalError("internal error in a test")

    assert "tilelang.tracebacks" in frames(fails, whole=True)


def test_ipython_shows_the_same(tmp_path: Any) -> None:
    interactive = pytest.importorskip(
        "IPython.core.interactiveshell", reason="shows errors in notebooks"
    )
    shell = interactive.InteractiveShell()
    shell.run_cell("import numpy as np, tilelang\nimport tilelang.language as T")
    shown: list[str] = []
    shell._showtraceback = lambda kind, error, lines: shown.extend(lines)
    shell.run_cell(
        "@T.prim_func\ndef k(A: T.Tensor((8,), 'float32')):\n"
        "    with T.Kernel(1):\n        A[0, 0] = 1.0"
    )
    assert shown[0] == "Traceback (most recent call last):"
    places = [line.split(",")[-1].strip() for line in shown if line.startswith("  File")]
    if sys.version_info < (3, 11):
        places.remove("in call")  # the border
    assert places == ["in <module>", "in k"]
    assert "tilelang.errors.TileIndexError: too many indices for `A`" in shown


def fails(size: int) -> int:
    return 8 // size


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (lambda: fails(0), ZeroDivisionError),
        (lambda: None.threads, AttributeError),  # type: ignore[attr-defined]  # as programs err
        (lambda: np.zeros((2, 3)).reshape(4), ValueError),
    ],
)
def test_an_exception_of_the_program_has_no_package_frames(
    body: Callable[[], Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = body()

    with pytest.raises(error) as caught:
        T.prim_func(program)
    if sys.version_info >= (3, 11):  # before, `raise` keeps the frames of borders
        assert "tilelang" not in {name.partition(".")[0] for name in modules(caught.value)}
    monkeypatch.setenv("TILELANG_TRACEBACK", "full")
    with pytest.raises(error) as caught:
        T.prim_func(program)
    assert "tilelang" in {name.partition(".")[0] for name in modules(caught.value)}
