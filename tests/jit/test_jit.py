"""``tilelang.jit`` and ``tilelang.lazy_jit``: what is compiled, once per what, and in which order."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal
from tensor_types import F32, I32

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import Compiler, find_compiler
from tilelang.errors import TileError, TileTypeError, TileUnsupportedError, TileValueError
from tilelang.ir.stmt import PrimFunc
from tilelang.jit import core
from tilelang.jit.core import JITImpl


def scaled_factory(n: int, factor: float = 2.0, dtype: str = "float32") -> Any:
    @T.prim_func
    def scaled(A: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                C[bx * 32 + i] = A[bx * 32 + i] * T.cast(factor, dtype)

    return scaled


@pytest.fixture
def scaled() -> JITImpl:
    return tilelang.jit(scaled_factory, out_idx=[-1], target="cpu")


def lazy_add(A: T.Tensor[[T.dyn["N"]]], B: T.Tensor[[T.dyn["N"]]], unroll: int = 1):
    N = A.shape[0]
    C = T.empty((N,), A.dtype)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        for i in T.Parallel(32):
            C[bx * 32 + i] = A[bx * 32 + i] + B[bx * 32 + i] * unroll
    return C


@pytest.fixture
def add() -> JITImpl:
    return tilelang.lazy_jit(lazy_add, target="cpu")


def text_of(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value)


# -- factories ------------------------------------------------------------------------------------
def test_factory_gives_a_kernel_that_returns_its_results(scaled: JITImpl) -> None:
    kernel = scaled(100)
    assert isinstance(kernel, tilelang.JITKernel)
    data = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(kernel(data), data * 2)


@pytest.mark.parametrize("out_idx", [1, -1, [1], [-1], (1,)])
def test_every_spelling_of_out_idx_names_the_same_result(out_idx: Any) -> None:
    kernel = tilelang.jit(scaled_factory, out_idx=out_idx, target="cpu")(16)
    assert kernel.out_idx == [1]
    np.testing.assert_array_equal(kernel(np.ones(16, np.float32)), np.full(16, 2, np.float32))


def test_without_out_idx_the_result_is_an_argument() -> None:
    kernel = tilelang.jit(scaled_factory, target="cpu")(16)
    result = np.zeros(16, np.float32)
    assert kernel(np.ones(16, np.float32), result) is None
    assert (result == 2).all()


def test_several_results_come_as_a_list_in_the_order_of_out_idx() -> None:
    @tilelang.jit(out_idx=[2, 1], target="cpu")
    def split(n: int):
        @T.prim_func
        def main(A: I32[n], B: I32[n], C: I32[n]):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = A[i] + 1
                    C[i] = A[i] + 2

        return main

    found = split(8)(np.zeros(8, np.int32))
    assert isinstance(found, list)
    assert [item.tolist() for item in found] == [[2] * 8, [1] * 8]


def test_factory_makes_one_kernel_per_set_of_arguments(scaled: JITImpl) -> None:
    first = scaled(64)
    assert scaled(64) is first
    assert scaled(n=64) is first
    assert scaled(64, 2.0, "float32") is first  # defaults are part of the arguments
    others = [scaled(65), scaled(64, 3.0), scaled(64, dtype="float16")]
    assert len({id(kernel) for kernel in (first, *others)}) == 4


def test_two_decorations_share_no_kernels() -> None:
    one = tilelang.jit(scaled_factory, out_idx=[-1], target="cpu")
    two = tilelang.jit(scaled_factory, target="cpu")
    assert one(16) is not two(16)
    assert (one(16).out_idx, two(16).out_idx) == ([1], [])


def test_decorator_keeps_name_and_signature(scaled: JITImpl) -> None:
    assert scaled.__name__ == "scaled_factory"  # type: ignore[attr-defined]  # set like wraps does
    assert list(scaled.signature.parameters) == ["n", "factor", "dtype"]
    assert repr(scaled) == "<tilelang function scaled_factory>"


def test_traced_function_is_compiled_at_once() -> None:
    kernel = tilelang.jit(scaled_factory(16), out_idx=[-1], target="cpu")
    assert isinstance(kernel, tilelang.JITKernel)
    assert kernel(np.ones(16, np.float32)).tolist() == [2.0] * 16


# -- lazy functions -------------------------------------------------------------------------------
def test_lazy_function_runs_when_called_with_tensors(add: JITImpl) -> None:
    a, b = np.arange(50, dtype=np.float32), np.ones(50, np.float32)
    np.testing.assert_array_equal(add(a, b), a + b)
    np.testing.assert_array_equal(add(a, b, unroll=3), a + 3 * b)


def compiled_by(function: JITImpl) -> int:
    return len(function._kernels)


def test_lazy_function_compiles_once_per_annotation_key(add: JITImpl) -> None:
    ones = np.ones(50, np.float32)
    add(ones, ones)
    assert compiled_by(add) == 1
    add(ones[:20], ones[:20])  # N is known at run time only
    add(ones, ones, 1)
    assert compiled_by(add) == 1
    add(ones.astype(np.int32), ones.astype(np.int32))  # another dtype
    assert compiled_by(add) == 2
    add(ones, ones, 2)  # another constant
    assert compiled_by(add) == 3


def test_compile_takes_placeholders_and_gives_the_kernel_of_the_key(add: JITImpl) -> None:
    place = T.Tensor((50,), "float32")
    kernel = add.compile(place, place)
    assert isinstance(kernel, tilelang.JITKernel)
    assert add.compile(place, place) is kernel
    assert add.compile(T.Tensor((70,), "float32"), T.Tensor((70,), "float32")) is kernel
    assert add.compile(place, place, unroll=2) is not kernel
    ones = np.ones(9, np.float32)
    assert kernel(ones, ones).tolist() == [2.0] * 9


def test_annotations_of_a_lazy_function_can_be_seen(add: JITImpl, scaled: JITImpl) -> None:
    assert list(add.annot) == ["A", "B", "unroll"]
    assert scaled.annot is None


# -- without a call ---------------------------------------------------------------------------------
def test_get_tir_gives_the_traced_function(scaled: JITImpl, add: JITImpl) -> None:
    func = scaled.get_tir(48, factor=3.0)
    assert isinstance(func, PrimFunc) and func.name == "scaled"
    assert [tuple(buffer.shape) for buffer in func.buffers[:2]] == [(48,), (48,)]
    place = T.Tensor((50,), "float32")
    lazy = add.get_tir(place, place)
    assert (lazy.name, lazy.outputs) == ("lazy_add", (2,))


def test_par_compile_keeps_the_order_of_the_configs(scaled: JITImpl) -> None:
    configs = [{"n": 16, "factor": float(f)} for f in (5, 3, 9, 1)]
    kernels = scaled.par_compile(configs, num_workers=3)
    ones = np.ones(16, np.float32)
    assert [float(kernel(ones)[0]) for kernel in kernels if kernel] == [5.0, 3.0, 9.0, 1.0]
    by_position = scaled.par_compile([(8,), (4,)], num_workers=2)
    assert [kernel.params[0].shape for kernel in by_position if kernel] == [(8,), (4,)]


def test_par_compile_shows_progress(
    scaled: JITImpl, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tilelang.jit.progress.shows_bars", lambda: True)
    scaled.par_compile([(4,), (5,), (6,)], num_workers=2)
    shown = re.findall(r"([A-Z][\w ]+): +100%\S* (\d)/3", capsys.readouterr().err)
    assert {name for name, done in shown if done == "3"} == {"Elaborating", "Parallel Compiling"}


def unprintable(n: int) -> PrimFunc:
    """A program that is refused when it is compiled: shared memory outlives its kernel."""

    @T.prim_func
    def outlives(A: F32[n]):
        tile = T.alloc_shared((n,), "float32")
        with T.Kernel(1, threads=32):
            T.copy(A, tile)
        with T.Kernel(1, threads=32):
            T.copy(tile, A)

    return outlives


def test_par_compile_raises_what_a_program_raises_by_default() -> None:
    good = scaled_factory(16)
    with pytest.raises(TileError):
        tilelang.par_compile([good, unprintable(4)], target="cpu", num_workers=2)
    kernels = tilelang.par_compile(
        [unprintable(4), good], target="cpu", num_workers=2, ignore_error=True
    )
    assert kernels[0] is None
    assert kernels[1] is not None and kernels[1].prim_func is good


# -- one compilation ----------------------------------------------------------------------------------
@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sources of the kernels that the C compiler gets, with a cache that is empty at first."""
    if find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    sources: list[str] = []
    original = Compiler.compile_shared

    def counted(self: Compiler, source: str, flags: Any = ()) -> bytes:
        if "generated by tilelang" in source:
            sources.append(source)
        return original(self, source, flags)

    monkeypatch.setattr(Compiler, "compile_shared", counted)
    return sources


def at_once(work: Any, count: int) -> list[Any]:
    """What ``work()`` gives in each of ``count`` threads that start together."""
    gate = threading.Barrier(count)
    found: list[Any] = [None] * count

    def run(number: int) -> None:
        gate.wait(timeout=60)
        found[number] = work()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    return found


def test_threads_that_ask_for_one_kernel_compile_it_once(
    scaled: JITImpl, compilations: list[str]
) -> None:
    kernels = at_once(lambda: scaled(77), 4)
    assert len({id(kernel) for kernel in kernels}) == 1
    assert len(compilations) == 1


def test_a_failed_compilation_is_tried_again(
    scaled: JITImpl, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = core.compile_func
    failures = [TileValueError("no luck")]

    def once(*args: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return original(*args, **options)

    monkeypatch.setattr(core, "compile_func", once)
    with pytest.raises(TileValueError, match="no luck"):
        scaled(19)
    assert scaled(19)(np.ones(19, np.float32)).tolist() == [2.0] * 19


# -- errors ---------------------------------------------------------------------------------------
UNKNOWN = "out_idx {0} names no parameter of `scaled`\n  expected: an index of its 2 parameters\n  got: {0}"
WRONG_TYPE = "out_idx has the wrong type\n  expected: an int or a list of ints\n  got: "


@pytest.mark.parametrize(
    ("out_idx", "text"),
    [
        (5, UNKNOWN.format(5)),
        ([0, -3], UNKNOWN.format(-3)),
        ([1, -1], "out_idx names a parameter twice\n  got: [1, -1]"),
        ("C", f"{WRONG_TYPE}'C'"),
        ([1.0], f"{WRONG_TYPE}[1.0]"),
        (True, f"{WRONG_TYPE}True"),
        ([np.True_], f"{WRONG_TYPE}[{np.True_!r}]"),
        (np.int64(5), UNKNOWN.format(5)),
    ],
)
def test_out_idx_that_makes_no_sense(out_idx: Any, text: str) -> None:
    with pytest.raises(TileValueError) as error:
        tilelang.jit(scaled_factory, out_idx=out_idx, target="cpu")(16)
    assert text_of(error) == text


@pytest.mark.parametrize("out_idx", [np.int64(1), [np.int32(-1)], (np.uint8(1),)])
def test_out_idx_may_be_integers_of_numpy(out_idx: Any) -> None:
    assert tilelang.jit(scaled_factory, out_idx=out_idx, target="cpu")(16).out_idx == [1]


def forgets(n: int) -> Any:
    @T.prim_func
    def main(A: F32[n]):
        with T.Kernel(1):
            A[0] = 1.0


def conflicting() -> None:
    place = T.Tensor((4,), "float32")
    func = tilelang.lazy_jit(lazy_add).get_tir(place, place)
    assert tilelang.compile(func, out_idx=[2], target="cpu").out_idx == [2]  # the same ones
    tilelang.compile(func, out_idx=[1], target="cpu")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (conflicting,
         "Out index conflict: the function returns tensors made by T.empty and out_idx is given\n"
         "  expected: one of the two\n"
         "  got: out_idx=[1]\n"
         "  hint: drop out_idx, or make the results parameters"),
        (lambda: tilelang.jit(lazy_add, out_idx=[-1]),
         "out_idx is given for `lazy_add`, which returns its results itself\n"
         "  expected: no out_idx\n"
         "  hint: make results with T.empty(shape, dtype) and return them"),
        (lambda: tilelang.jit(forgets)(4),
         "`forgets` did not return a kernel\n"
         "  expected: a function decorated with @T.prim_func\n"
         "  got: NoneType\n"
         "  hint: end `forgets` with `return` and the name of that function"),
        (lambda: tilelang.jit(scaled_factory, out_index=[1]),
         "unknown option 'out_index'\n"
         "  expected: out_idx, target, target_host, execution_backend, verbose, pass_configs, "
         "debug_root_path or compile_flags\n  hint: did you mean `out_idx`?"),
        (lambda: tilelang.compile(scaled_factory, outidx=[1]),
         "compile() got an unexpected keyword argument 'outidx'\n"
         "  expected: compile(func, out_idx, execution_backend, target, target_host, verbose, "
         "pass_configs, compile_flags)\n  hint: did you mean `out_idx`?"),
        (lambda: tilelang.compile(scaled_factory(4), pass_configs=[1]),
         "pass_configs is not a dict\n  expected: {tilelang.PassConfigKey...: value, ...}\n"
         "  got: [1]"),
        (lambda: tilelang.jit(scaled_factory)(4, factr=2.0),
         "`scaled_factory` cannot be called like this: got an unexpected keyword argument "
         "'factr'\n  expected: (n, factor, dtype)\n  hint: did you mean `factor`?"),
        (lambda: tilelang.jit("kernel"),
         "tilelang.jit decorates a function\n  expected: a function\n  got: 'kernel'"),
        (lambda: tilelang.compile(scaled_factory),
         "tilelang.compile takes a traced function\n"
         "  expected: the result of @T.prim_func\n"
         "  got: the function `scaled_factory`\n"
         "  hint: a function that returns a program is called first: "
         "tilelang.compile(scaled_factory(...))"),
    ],
)  # fmt: skip
def test_a_wrong_use_is_an_error(wrong: Callable[[], Any], text: str) -> None:
    with pytest.raises((TileTypeError, TileValueError)) as error:
        wrong()
    assert text_of(error) == text


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "missing a required argument: 'n'"),
        ((4,), {"m": 5}, "got an unexpected keyword argument 'm'"),
        ((4, 1.0, "float32", 1), {}, "too many positional arguments"),
    ],
)
def test_wrong_arguments_of_a_factory(
    scaled: JITImpl, args: tuple[Any, ...], kwargs: dict[str, Any], text: str
) -> None:
    with pytest.raises(TileTypeError) as error:
        scaled(*args, **kwargs)
    assert text_of(error) == (
        f"`scaled_factory` cannot be called like this: {text}\n  expected: (n, factor, dtype)"
    )


# -- what programs read of a decorated function and of a kernel ------------------------------------
def test_options_of_a_decorated_function() -> None:
    configs = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}

    @tilelang.jit(
        out_idx=[-1], target="cpu", execution_backend="interpret", verbose=False,
        pass_configs=configs, compile_flags=["-O2"], debug_root_path="there",
    )  # fmt: skip
    def make(n: int = 16) -> Any:
        return scaled_factory(n)

    read = ("out_idx", "target", "target_host", "execution_backend", "verbose", "pass_configs",
            "compile_flags", "debug_root_path")  # fmt: skip
    assert [getattr(make, name) for name in read] == [
        [-1], "cpu", None, "interpret", False, configs, ["-O2"], "there",
    ]  # fmt: skip
    with pytest.raises(AttributeError, match="no attribute 'no_such_option'"):
        _ = make.no_such_option
    assert "def make(n: int = 16)" in make.func_source
    assert make.get_tir(8).params[0].shape == (8,)


def test_mode_distinguishes_factories_from_kernels() -> None:
    @tilelang.jit
    def factory(n):
        @T.prim_func
        def copy(A: F32[n]):
            with T.Kernel(1, threads=1):
                A[0] = 1

        return copy

    @tilelang.lazy_jit
    def kernel(A: T.Tensor[[int], "float32"], k: T.int32):
        with T.Kernel(1, threads=1):
            A[0] = k

    other = factory.get_tir

    @tilelang.jit
    def unknown(n):
        return other(n)

    assert (factory.mode, kernel.mode, unknown.mode) == ("lazy", "eager", "auto")
    unknown.get_tir(3)
    assert unknown.mode == "lazy"
    a = np.zeros(4, np.float32)
    key, passed = kernel.parse_args(a, k=3)
    assert passed == (a, 3)
    assert key == kernel.parse_args(A=a, k=4)[0]
    assert key != kernel.parse_args(np.zeros(5, np.float32), 3)[0]
    assert factory.parse_args(4) == (factory.parse_args(n=4)[0], ())


def test_lowering_gives_source_parameters_and_target() -> None:
    func = scaled_factory(16)
    artifact = tilelang.lower(func, target="cpu", target_host="llvm")
    assert artifact.kernel_source == artifact.source
    assert artifact.kernel_source == tilelang.compile(func, target="cpu").kernel_source
    assert [param.shape for param in artifact.params] == [tuple(b.shape) for b in func.buffers]
    assert (artifact.target.kind, artifact.target_host.kind) == ("cpu", "cpu")
    assert tilelang.engine.lower(func, target="cpu").source == artifact.source
    assert tilelang.engine.lower.lower is tilelang.lower
    with pytest.raises(TileUnsupportedError) as caught:
        _ = artifact.rt_mod
    assert str(caught.value) == (
        "a lowered program cannot be called\n"
        "  expected: device_mod, host_mod, kernel_source, params, target or explain\n"
        "  hint: tilelang.compile(func) gives a kernel that can be called"
    )
    with pytest.raises(TileTypeError, match="takes one traced function"):
        tilelang.lower({"a": func, "b": func})


@pytest.mark.parametrize("target", ["cpu", "cuda -arch=sm_80", "hip -mcpu=gfx942", "metal"])
def test_the_parts_of_a_lowered_program_print_and_give_source(target: str) -> None:
    func = scaled_factory(16)
    artifact = tilelang.lower(func, target=target)
    device, host = artifact.device_mod, artifact.host_mod
    assert device.get_source() == device.inspect_source() == artifact.kernel_source
    assert host.get_source() == tilelang.compile(func, target=target).get_host_source()
    assert list(device.functions) == list(host.functions) == [func.name]
    assert host[func.name] is func and str(host) == func.script()
    assert "T.Parallel" in str(host) and "T.Parallel" not in str(device)
    assert str(device) == device[func.name].script()


def test_a_wrapper_accepts_the_parts_of_a_lowered_program() -> None:
    from tilelang.jit.adapter.wrapper import TLCUDASourceWrapper

    func, target = scaled_factory(16), "cuda -arch=sm_80"
    artifact = tilelang.lower(func, target=target)
    wrapper = TLCUDASourceWrapper(
        func, artifact.kernel_source, target, artifact.device_mod, artifact.host_mod
    )
    assert wrapper.lib_code == artifact.host_mod.get_source()


def test_measurements_are_noted_on_a_kernel() -> None:
    kernel = tilelang.jit.JITKernel.from_tilelang_function(scaled_factory(16), target="cpu")
    with pytest.raises(TileValueError, match="has not been measured"):
        kernel.get_tuner_result()
    assert kernel.update_tuner_result(1.5, {"n": 16}, 2.0) is kernel
    assert kernel.get_tuner_result() == {"latency": 1.5, "config": {"n": 16}, "ref_latency": 2.0}
    assert kernel.host_source == kernel.get_host_source()
    with pytest.raises(TileUnsupportedError, match="resources needs a CUDA kernel"):
        _ = kernel.n_regs


def test_several_compilations_take_a_list() -> None:
    @tilelang.jit(target="cpu")
    def make(n):
        return scaled_factory(n)

    for wrong in (3, "ab", {"n": 4}):
        with pytest.raises(TileTypeError, match="takes a list of dicts or tuples of arguments"):
            make.par_compile(wrong)
    assert refusal(TileTypeError, make.par_compile, [{"n": 4}, 5]) == (
        "par_compile of `make` takes dicts or tuples of arguments\n"
        "  expected: dicts or tuples of arguments\n  got: 5"
    )
    with pytest.raises(TileTypeError, match=r"tilelang\.par_compile takes a list of traced"):
        tilelang.par_compile(scaled_factory(4), target="cpu")
