"""Arrays of every kind as inputs and outputs: right, or the same clean error from each launcher."""

from __future__ import annotations

import array
import ctypes
import itertools
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentTypeError, KernelArgumentError

BASE = np.arange(24, dtype=np.float32).reshape(4, 6)
MODES = ("interpret", "python", "auto")


class Sub(np.ndarray):
    """A subclass of somebody's own."""


def doubling(shape: tuple[Any, ...] = (4, 6), strided: bool = False) -> Any:
    sizes = T.dynamic("s0, s1") if strided else None

    def kind() -> Any:
        return T.StridedTensor(shape, sizes, "float32") if strided else T.Tensor(shape, "float32")

    @T.prim_func
    def double(A: kind(), C: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(*shape):
                C[i, j] = A[i, j] * 2

    return double


@pytest.fixture(scope="module")
def kernels() -> list[Any]:
    return [tilelang.compile(doubling(), target="cpu", execution_backend=mode) for mode in MODES]


def read_only() -> Any:
    found = BASE.copy()
    found.setflags(write=False)
    return found


def apart(*strides: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.lib.stride_tricks.as_strided(np.zeros(100, np.float32), (4, 6), strides)


def mapped() -> Any:
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=np.float32, shape=(4, 6), mode="w+")


RIGHT: dict[str, Callable[[], Any]] = {
    "plain": BASE.copy,
    "subclass": lambda: BASE.copy().view(Sub),
    "memory-mapped file": mapped,
    "rows of a larger array": lambda: np.zeros((9, 6), np.float32)[2:6],
    "buffer": lambda: memoryview(bytearray(96)).cast("f", (4, 6)),
    "array of ctypes": lambda: (ctypes.c_float * 6 * 4)(),
}


@pytest.mark.parametrize("name", RIGHT)
def test_arrays_with_plain_memory_work_both_ways(name: str, kernels: list[Any]) -> None:
    for kernel in kernels:
        given, out = RIGHT[name](), RIGHT[name]()
        np.asarray(given)[...] = BASE
        kernel(given, out)
        np.testing.assert_array_equal(np.asarray(out), BASE * 2)


def test_read_only_arrays_are_inputs(kernels: list[Any]) -> None:
    for kernel, given in itertools.product(kernels, (read_only(), np.broadcast_to(BASE, (4, 6)))):
        out = np.zeros_like(BASE)
        kernel(given, out)
        np.testing.assert_array_equal(out, BASE * 2)


WRONG_KIND, WRONG_TYPE = KernelArgumentError, ArgumentTypeError
WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "other byte order": (
        lambda: BASE.astype(">f4"), WRONG_TYPE, "has the wrong dtype\n  expected: float32\n  got: >f4"
    ),
    "structured": (
        lambda: np.zeros((4, 6), [("x", "f4")]), WRONG_TYPE, "has the wrong dtype\n  expected: "
        "float32\n  got: void32",
    ),
    "records": (
        lambda: np.rec.array(np.zeros((4, 6), [("mask", "f4")])), WRONG_TYPE,
        "has the wrong dtype\n  expected: float32\n  got: record32",
    ),
    "long doubles": (lambda: BASE.astype(np.longdouble), WRONG_TYPE, "has the wrong dtype"),
    "integers": (lambda: BASE.astype(np.int32), WRONG_TYPE, "has the wrong dtype"),
    "masked": (
        lambda: np.ma.masked_greater(BASE.copy(), 5), WRONG_TYPE,
        "this is a masked array, whose mask a kernel would not see\n  expected: a plain array\n"
        "  got: MaskedArray\n"
        "  hint: pass A.filled(value), or A.data with the mask as an array of its own",
    ),
    "backwards": (
        lambda: BASE.copy()[::-1], WRONG_KIND,
        "is not contiguous\n  expected: row-major strides (6, 1)\n  got: (-6, 1)",
    ),
    "columns first": (lambda: np.asfortranarray(BASE), WRONG_KIND, "is not contiguous"),
    "half an element apart": (
        lambda: apart(22, 4), WRONG_TYPE,
        "the strides of this array are not multiples of the element size\n"
        "  expected: strides that are multiples of 4 bytes\n  got: strides of (22, 4) bytes",
    ),
    "numpy scalar": (lambda: np.float32(3), WRONG_KIND, "has the wrong number of dimensions"),
    "empty": (lambda: np.zeros((0, 6), np.float32), WRONG_KIND, "shape[0] does not match"),
    "flat": (lambda: array.array("f", range(24)), WRONG_KIND, "has the wrong number of dimensions"),
    "flat ctypes": (ctypes.c_float * 24, WRONG_KIND, "has the wrong number of dimensions"),
    "class": (lambda: np.ndarray, WRONG_TYPE, "this is not a tensor"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_other_arrays_are_refused_by_both_launchers(name: str, kernels: list[Any]) -> None:
    make, kind, text = WRONG[name]
    for position in (0, 1):
        given, messages = make(), set()
        for kernel in kernels:
            args = [BASE.copy(), BASE.copy()]
            args[position] = given
            with pytest.raises(KernelArgumentError) as caught:
                kernel(*args)
            assert type(caught.value) is kind
            messages.add(str(caught.value))
            np.testing.assert_array_equal(args[1 - position], BASE)
        (message,) = messages
        assert message.startswith(f"kernel double input {'AC'[position]}")
        assert text in message


@pytest.mark.parametrize(
    "make",
    [read_only, lambda: memoryview(bytes(96)).cast("f", (4, 6)), lambda: np.broadcast_to(BASE, (4, 6))],
)  # fmt: skip
def test_read_only_memory_is_no_output(make: Callable[[], Any], kernels: list[Any]) -> None:
    for kernel in kernels:
        with pytest.raises(KernelArgumentError, match="input C is read-only"):
            kernel(BASE, make())


STRIDED: dict[str, Callable[[], Any]] = {
    "backwards": lambda: BASE[::-1, ::-1],
    "columns first": lambda: np.asfortranarray(BASE),
    "every second": lambda: np.repeat(np.repeat(BASE, 2, 0), 2, 1)[::2, ::2],
    "repeated rows": lambda: np.broadcast_to(BASE[0], (4, 6)),
}


@pytest.mark.parametrize("mode", MODES)
def test_strided_inputs_may_run_in_any_direction(mode: str) -> None:
    kernel = tilelang.compile(doubling(strided=True), target="cpu", execution_backend=mode)
    for make in STRIDED.values():
        out = np.zeros_like(BASE)
        kernel(make(), out)
        np.testing.assert_array_equal(out, make() * 2)
    for given in (apart(22, 4), apart(24, 2)):
        with pytest.raises(ArgumentTypeError, match="are not multiples of the element size"):
            kernel(given, np.zeros_like(BASE))


@pytest.mark.parametrize("mode", MODES)
def test_empty_arrays_are_nothing_to_do(mode: str) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def rows(A: T.Tensor((n, 6), "float32"), C: T.Tensor((n, 6), "float32")):
        with T.Kernel(n, threads=32) as bx:
            for j in T.Parallel(6):
                C[bx, j] = A[bx, j] * 2

    kernel = tilelang.compile(rows, target="cpu", execution_backend=mode)
    kernel(BASE[:0], np.zeros((0, 6), np.float32))
    kernel(np.zeros((6, 0), np.float32).T, np.zeros((0, 6), np.float32))


@pytest.mark.parametrize("mode", MODES)
def test_a_numpy_scalar_is_no_memory_to_write(mode: str) -> None:
    @T.prim_func
    def add(A: T.Tensor((), "float32"), C: T.Tensor((), "float32")):
        with T.Kernel(1, threads=1):
            C[()] = A[()] + 1

    kernel = tilelang.compile(add, target="cpu", execution_backend=mode)
    out = np.zeros((), np.float32)
    kernel(np.float32(2), out)
    assert out == 3
    with pytest.raises(KernelArgumentError, match="input C is read-only"):
        kernel(np.float32(2), np.float32(0))


@pytest.mark.parametrize("mode", MODES)
def test_a_torch_tensor_that_does_not_hold_its_values_is_refused(mode: str) -> None:
    torch = pytest.importorskip("torch", reason="has such views")
    kernel = tilelang.compile(doubling(strided=True), target="cpu", execution_backend=mode)
    whole = torch.complex(torch.ones(4, 6), torch.from_numpy(BASE.copy())).conj()
    out = torch.zeros(4, 6)
    kernel(whole.real, out)
    assert (out == 2).all()
    assert whole.imag.is_neg()
    assert refusal(ArgumentTypeError, kernel, whole.imag, out) == (
        "kernel double input A: this torch tensor has the negative bit set\n"
        "  expected: a tensor that holds its values\n"
        "  got: a view with the negative bit of shape (4, 6)\n"
        "  hint: pass A.resolve_neg()"
    )
    kernel(whole.imag.resolve_neg(), out)
    np.testing.assert_array_equal(out.clone().numpy(), -2 * BASE)
    single = tilelang.compile(doubling((1, 1)), target="cpu", execution_backend=mode)
    with pytest.raises(ArgumentTypeError, match="has the negative bit set"):
        single(whole.imag[1:2, 1:2], torch.zeros(1, 1))
    out.untyped_storage().resize_(0)
    with pytest.raises(KernelArgumentError, match="input C has no memory\n  expected: allocated"):
        kernel(whole.real, out)


@pytest.mark.parametrize("mode", MODES)
def test_nested_torch_tensors_are_an_error(mode: str) -> None:
    torch = pytest.importorskip("torch", reason="has nested tensors")
    kernel = tilelang.compile(doubling(strided=True), target="cpu", execution_backend=mode)
    for layout in (torch.jagged, torch.strided):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch about the layout
            rows = torch.nested.nested_tensor([torch.ones(2), torch.ones(4)], layout=layout)
        assert refusal(ArgumentTypeError, kernel, rows, torch.zeros(4, 6)) == (
            "kernel double input A: this torch tensor is nested: its rows have lengths of their "
            "own\n  expected: a dense tensor\n"
            f"  got: a nested tensor with layout {layout}\n"
            "  hint: pass A.values(), or A.to_padded_tensor(0)"
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("home", ["ml_dtypes", "jax.numpy"])
def test_a_float8_with_infinities_is_not_the_finite_one(mode: str, home: str) -> None:
    numpy = pytest.importorskip(home, reason="has the type")

    @T.prim_func
    def widen(A: T.Tensor((4,), "float8_e4m3"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = A[i]

    kernel = tilelang.compile(widen, target="cpu", execution_backend=mode)
    values = np.array([1, -240, np.inf, np.nan], np.float32)
    array = values.astype(numpy.float8_e4m3)
    given = numpy.asarray(array) if home == "jax.numpy" else array
    out = np.zeros(4, np.float32)
    assert refusal(ArgumentTypeError, kernel, given, out) == (
        "kernel widen input A has the wrong dtype\n"
        "  expected: float8_e4m3\n"
        "  got: float8_e4m3 with infinities (float8_e4m3fn has none)"
    )
    kernel(array.astype(numpy.float8_e4m3fn), out)
    np.testing.assert_array_equal(out, [1, -240, np.nan, np.nan])
