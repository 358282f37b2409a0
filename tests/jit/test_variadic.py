"""``*args`` and ``**kwargs`` of kernels: constants that are part of the key of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentTypeError, TileSyntaxError, TileTypeError

INTERPRETED: dict[str, Any] = {"target": "cpu", "execution_backend": "interpret"}
X = np.arange(8, dtype=np.float32)


def polynomial() -> Any:
    @tilelang.jit(**INTERPRETED)
    def kernel(X: T.Tensor((8,), "float32"), *scales, **options):
        Y = T.empty((8,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                Y[i] = X[i] * (scales[0] if scales else 1) + sum(options.values()) + sum(scales[1:])
        return Y

    return kernel


def test_constants_by_position_and_by_name() -> None:
    kernel = polynomial()
    np.testing.assert_array_equal(kernel(X), X)
    np.testing.assert_array_equal(kernel(X, 2.0), X * 2)
    np.testing.assert_array_equal(kernel(X, bias=3, more=64), X + 67)
    np.testing.assert_array_equal(kernel(X, 2.0, 5.0, bias=1), X * 2 + 6)
    np.testing.assert_array_equal(kernel(X=X, bias=4), X + 4)


def test_lazy_functions_have_them_too() -> None:
    @tilelang.lazy_jit(**INTERPRETED)
    def shifted(X: T.Tensor[[int], T.float32], s: T.float32, *, by=1, **more):
        Y = T.empty((X.shape[0],), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(X.shape[0]):
                Y[i] = X[i] * s + by + sum(more.values())
        return Y

    np.testing.assert_array_equal(shifted(X, 2.0), X * 2 + 1)
    np.testing.assert_array_equal(shifted(X[:5], 2.0, by=3, a=10, b=20), X[:5] * 2 + 33)


def test_tensors_annotated_in_the_body_keep_their_constants() -> None:
    @tilelang.jit(**INTERPRETED)
    def scaled(X, *powers, **options):
        N = T.const("N")
        X: T.Tensor((N,), "float32")
        Y = T.empty((N,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = X[i] * options["scale"] + len(powers)
        return Y

    np.testing.assert_array_equal(scaled(X, scale=2), X * 2)
    np.testing.assert_array_equal(scaled(X[:3], "a", ("b", 1), scale=3), X[:3] * 3 + 2)


def test_each_set_of_constants_is_one_kernel() -> None:
    kernel = polynomial()
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((1,), {}), ((1.0,), {}), ((), {"bias": 1}), ((1,), {"bias": 1}), ((1, 2), {}),
    ]  # fmt: skip
    keys = [kernel.parse_args(X, *args, **kwargs)[0] for args, kwargs in calls]
    assert len(set(keys)) == len(calls)
    assert kernel.parse_args(X, 1, bias=1)[0] == keys[4]
    assert kernel.compile(T.Tensor((8,), "float32"), 2) is kernel.compile(X, 2)
    assert kernel.compile(X, 2) is not kernel.compile(X, 3)


@pytest.mark.parametrize("rest", [(), (1, 2)])
def test_a_name_of_the_signature_may_be_a_keyword(rest: tuple[int, ...]) -> None:
    @tilelang.jit(**INTERPRETED)
    def kernel(X: T.Tensor((8,), "float32"), *rest, **options):
        with T.Kernel(1, threads=32):
            X[0] = len(rest) * 100 + options["rest"] * 10 + options["options"]

    x = X.copy()
    kernel(x, *rest, rest=3, options=4)
    assert x[0] == len(rest) * 100 + 34


@dataclass
class Config:
    """Arguments of a program that its caller changes."""

    scale: float
    sizes: list[int]


def _refused(*args: Any, **kwargs: Any) -> str:
    with pytest.raises((ArgumentTypeError, TileTypeError)) as error:
        polynomial()(*args, **kwargs)
    return str(error.value)


def test_tensors_are_no_constants() -> None:
    assert _refused(X, X) == (
        "`*scales` of the kernel `kernel` takes a tensor\n"
        "  expected: values that are known at compile time\n"
        "  got: ndarray of shape (8,)\n"
        "  hint: give the tensor a parameter of its own: X: T.Tensor(shape, dtype)"
    )
    assert _refused(X, bias=X) == (
        "`**options` of the kernel `kernel` takes a tensor\n"
        "  expected: values that are known at compile time\n"
        "  got: ndarray of shape (8,)\n"
        "  hint: give the tensor a parameter of its own: X: T.Tensor(shape, dtype)"
    )


def test_an_unhashable_argument_is_an_error() -> None:
    assert _refused(X, bias=bytearray(b"1")) == (
        "a value of type bytearray cannot be a compile-time argument: `options`\n"
        "  expected: a hashable value, or a list, tuple, dict or set of such values\n"
        "  got: bytearray(b'1')\n"
        "  hint: a tensor needs an annotation: T.Tensor[[...], dtype]"
    )


def test_mutable_dataclasses_count_by_their_fields() -> None:
    @tilelang.jit(**INTERPRETED)
    def program(config, n: int):
        @T.prim_func
        def kernel(O: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                O[0] = config.scale * config.sizes[0]

        return kernel

    def computed(config: Config) -> float:
        out = np.zeros(4, np.float32)
        program(config, 4)(out)
        return float(out[0])

    first = Config(2.0, [3])
    assert computed(first) == 6
    first.scale = 5.0
    assert computed(first) == 15
    first.sizes.append(4)
    assert computed(first) == 15
    first.sizes[0] = 1
    assert computed(first) == 5
    assert computed(Config(2.0, [3])) == 6
    assert program(Config(2.0, [3]), 4) is program(Config(2.0, [3]), 4)
    first.more = 1  # no field: it would be no part of the key
    with pytest.raises(TileTypeError, match="a value of type Config cannot be a compile-time arg"):
        computed(first)


def test_values_by_position_have_no_keyword() -> None:
    @tilelang.jit(**INTERPRETED)
    def kernel(X: T.Tensor((8,), "float32"), *scales):
        with T.Kernel(1, threads=32):
            X[0] = len(scales)

    with pytest.raises(ArgumentTypeError) as error:
        kernel(X, scales=3)
    assert str(error.value) == (
        "unexpected argument `scales`\n  expected: values of `*scales` by position"
    )
    with pytest.raises(ArgumentTypeError) as error:
        kernel(X, 1, bias=3)
    assert str(error.value) == "unexpected argument `bias`\n  expected: (X, scales)"


def test_run_time_arguments_cannot_vary_in_number() -> None:
    with pytest.raises(TileSyntaxError) as error:

        @tilelang.jit
        def kernel(*tensors: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                tensors[0][0] = 1

    text = str(error.value)
    assert text.split(" --> ")[0] == (
        "the variable parameter `*tensors` of the kernel `kernel` is annotated\n"
        "  expected: no annotation: what it takes is known at compile time\n"
        "  hint: give each tensor and run-time scalar a parameter of its own\n"
    )
    assert text.endswith(
        '        def kernel(*tensors: T.Tensor((8,), "float32")):\n'
        "      |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


def test_keywords_are_not_constants_of_the_body() -> None:
    @tilelang.jit(**INTERPRETED)
    def kernel(X: T.Tensor((8,), "float32"), **options):
        N = T.const("N")
        with T.Kernel(1, threads=32):
            X[0] = N

    with pytest.raises(ValueError, match="the constant `N` cannot be inferred") as error:
        kernel(X, N=3)
    assert str(error.value).split(" --> ")[0] == (
        "the constant `N` cannot be inferred\n"
        "  expected: `N` alone as an extent or stride of an annotated tensor\n"
        "  hint: annotate a tensor with it: `**options` takes keywords\n"
    )
