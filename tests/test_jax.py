"""Kernels on arrays of JAX, and inside programs of JAX on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from refusals import refusal
from scale_program import scale_program

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import (
    ArgumentCountError,
    ArgumentTypeError,
    KernelArgumentError,
    TileTypeError,
    TileUnsupportedError,
    TileValueError,
)

jax = pytest.importorskip("jax", reason="arrays of JAX")
jnp = jax.numpy
if find_compiler() is None:
    pytest.skip("no C compiler on this machine", allow_module_level=True)
custom_call = tilelang.jax.custom_call
NARROW = (
    "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e4m3b11fnuz", "float8_e3m4", "float8_e8m0fnu",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _on_the_cpu() -> Iterator[None]:
    """Arrays are made there, also where JAX has GPUs."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@T.prim_func
def add_program(A: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32"), t: T.int32):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            C[i] = C[i] + A[i] + t


@T.prim_func
def slope_program(grad: T.Tensor((3, 4), "float32"), s: T.float32):
    G = T.empty((3, 4), "float32")
    with T.Kernel(1, threads=32):
        for i, j in T.Parallel(3, 4):
            G[i, j] = grad[i, j] * s * 10
    return G


@T.prim_func
def checked_program(A: T.Tensor((4,), "int32")):
    B = T.empty((4,), "int32")
    with T.Kernel(1, threads=32):
        T.device_assert(A[0] > 0, "A starts above zero")
        T.copy(A, B)
    return B


@tilelang.jit(target="cpu")
def doubled(A, times: int = 2):
    n = T.const("n")
    A: T.Tensor[[n], T.float32]
    B = T.empty((n,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            B[i] = A[i] * times
    return B


@pytest.fixture(scope="module")
def scale() -> Any:
    return tilelang.compile(scale_program, target="cpu")


def copy_program(dtype: str) -> Any:
    @T.prim_func
    def move(A: T.Tensor((8,), dtype), B: T.Tensor((8,), dtype)):
        with T.Kernel(1, threads=8):
            T.copy(A, B)

    return move


# -- arrays ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_go_in_and_come_out(dtype: str) -> None:
    kernel = tilelang.compile(
        copy_program(dtype), out_idx=-1, target="cpu", execution_backend="interpret"
    )
    x = jnp.asarray(2.0 ** np.arange(-1, 3).repeat(2), dtype)
    found = kernel(x)
    assert isinstance(found, jax.Array) and found.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(found), np.asarray(x))


def test_a_function_is_compiled_for_the_device_of_an_array() -> None:
    x = jax.device_put(np.arange(5, dtype=np.float32), jax.devices("cpu")[0])
    assert tilelang.jit(doubled.pyfunc)(x, 3).tolist() == [0, 3, 6, 9, 12]


def test_a_traced_array_says_what_to_do(scale: Any) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        jax.jit(lambda x: scale(x, 2.0))(jnp.ones((3, 4)))
    assert str(caught.value).partition("  got")[0] == (
        "kernel scale_program input A: this array of JAX has no values: it is traced (jit, grad, "
        "vmap, ...)\n  expected: an array with memory\n"
    )
    assert caught.value.hint == "tilelang.jax.custom_call(kernel) makes a function that JAX traces"


# -- programs --------------------------------------------------------------------------------------
def test_a_kernel_is_a_part_of_a_traced_program(scale: Any) -> None:
    call = custom_call(scale)
    x = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(
        jax.jit(lambda x: call(x.T, 1.0))(x.reshape(4, 3)), x.reshape(4, 3).T
    )
    run = jax.jit(lambda x, s: jnp.sum(call(x, 2.0) + call(x, s)))
    assert run(x, 0.5) == 2.5 * 66
    assert run(jnp.ones((5, 4)), 1) == 60  # sizes are dynamic in the program
    assert "tilelang_kernel" in str(jax.jit(lambda x: call(x, 2.0)).lower(x).as_text())


def test_what_a_kernel_writes_comes_back_and_the_argument_stays() -> None:
    call = custom_call(tilelang.compile(add_program, target="cpu"))
    a, c = jnp.arange(8.0), jnp.ones(8)
    found = jax.jit(lambda a, c: (call(a, c, 5), c))(a, c)
    np.testing.assert_array_equal(found[0], np.arange(8) + 6)
    np.testing.assert_array_equal(found[1], np.ones(8))
    np.testing.assert_array_equal(jax.jit(lambda a, c, t: call(a, c, t))(a, c, -1), np.arange(8))


def test_an_array_of_jax_is_not_written_in_place() -> None:
    kernel = tilelang.compile(add_program, target="cpu")
    c = jnp.ones(8)
    assert refusal(KernelArgumentError, kernel, jnp.arange(8.0), c, 5) == (
        "kernel add_program input C is read-only\n  expected: memory that the kernel can write\n"
        "  got: a read-only array\n"
        "  hint: tilelang.jax.custom_call(kernel) gives what the kernel writes as a result"
    )
    np.testing.assert_array_equal(c, np.ones(8))


def test_a_decorated_function_is_specialised_by_shapes_and_numbers() -> None:
    call = custom_call(doubled)
    run = jax.jit(lambda x, y: (call(x), call(y, 3)))
    first, second = run(jnp.ones(5), jnp.ones(3))
    assert first.tolist() == [2] * 5 and second.tolist() == [3] * 3


def test_arguments_are_given_by_name_too(scale: Any) -> None:
    call, x = custom_call(doubled), jnp.ones(5)
    assert jax.jit(lambda x: call(x, times=4))(x).tolist() == [4] * 5
    kernel, y = custom_call(scale), jnp.ones((3, 4))
    np.testing.assert_array_equal(jax.jit(lambda y: kernel(y, s=2.0))(y), 2 * y)
    np.testing.assert_array_equal(kernel(s=2.0, A=y), 2 * y)
    with pytest.raises(ArgumentTypeError, match="kernel scale_program has no input t"):
        kernel(y, t=2.0)


def test_a_derivative_is_a_function_or_a_kernel(scale: Any) -> None:
    x = jnp.ones((3, 4))
    slope = tilelang.compile(slope_program, target="cpu")
    for backward, factor in ((lambda s, grad: grad * s, 1), (slope, 10)):
        call = custom_call(scale, backward=backward)
        gradient = jax.jit(jax.grad(lambda x, call=call: (call(x, 3.0) * 2).sum()))(x)
        np.testing.assert_array_equal(gradient, np.full((3, 4), 6 * factor))


def test_derivatives_and_batches_nest_inside_of_a_traced_program(scale: Any) -> None:
    call = custom_call(scale, backward=lambda s, grad: custom_call(scale)(grad, s))
    x = jnp.arange(24.0).reshape(2, 3, 4)

    def cubes(x: Any) -> Any:
        return (call(x, 3.0) ** 3).sum()

    rows = jax.jit(jax.vmap(jax.grad(cubes)))(x)
    np.testing.assert_array_equal(rows, 81 * x**2)
    whole = jax.jit(jax.grad(lambda x: jax.vmap(cubes)(x).sum()))(x)
    np.testing.assert_array_equal(whole, 81 * x**2)
    value, pull = jax.vjp(lambda x: call(x, 3.0), x[0])
    np.testing.assert_array_equal(jnp.stack([value, pull(x[1])[0]]), 3 * x)
    steps = jax.lax.scan(lambda x, _: (call(x, 2.0), None), x[0], None, length=3)[0]
    np.testing.assert_array_equal(steps, 8 * x[0])


def test_derivatives_in_forward_mode_are_refused_by_jax(scale: Any) -> None:
    call, x = custom_call(scale, backward=lambda s, grad: grad * s), jnp.ones((3, 4))
    with pytest.raises(TypeError, match="forward-mode autodiff"):
        jax.jvp(lambda x: call(x, 3.0), (x,), (x,))


def test_a_second_derivative_is_one_of_the_backward() -> None:
    @T.prim_func
    def square(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=4):
            for i in T.Parallel(4):
                B[i] = A[i] * A[i]

    kernel, x = tilelang.compile(square, out_idx=-1, target="cpu"), jnp.arange(4.0)
    call = custom_call(kernel, backward=lambda A, grad: 2 * A * grad)
    second = jax.jit(jax.jacrev(jax.grad(lambda x: call(x).sum())))(x)
    np.testing.assert_array_equal(second, 2 * np.eye(4))
    by_kernel = custom_call(kernel, backward=lambda A, grad: custom_call(kernel)(grad * A))
    for wanted in (
        lambda: jax.grad(lambda x: custom_call(kernel)(x).sum())(x),
        lambda: jax.jacrev(jax.grad(lambda x: by_kernel(x).sum()))(x),
    ):
        assert refusal(TileUnsupportedError, wanted) == (
            "kernel square has no derivative here\n"
            "  expected: a call in reverse mode (jax.grad, jax.vjp, jax.jacrev) of a kernel with "
            "`backward`\n  hint: custom_call(kernel, backward=...)"
        )


def test_a_failed_assertion_is_an_error_of_the_program() -> None:
    call = custom_call(tilelang.compile(checked_program, target="cpu"))
    assert jax.jit(lambda x: call(x))(jnp.ones(4, "int32")).tolist() == [1] * 4
    with pytest.raises(Exception, match="A starts above zero"):
        jax.block_until_ready(jax.jit(lambda x: call(x))(jnp.zeros(4, "int32")))


# -- errors ----------------------------------------------------------------------------------------
def test_a_wrong_call_is_an_error_when_it_is_traced(scale: Any) -> None:
    call = custom_call(scale)
    with pytest.raises(KernelArgumentError, match="input A"):
        jax.jit(lambda x: call(x, 2.0))(jnp.ones((3, 5)))
    with pytest.raises(ArgumentCountError, match="Kernel expected 2 inputs, but 1 are provided"):
        call(jnp.ones((3, 4)))


@pytest.mark.parametrize(
    ("given", "got", "hint"),
    [
        ({"a": 1}, "{'a': 1}", "pass the arrays that it holds one by one: jax.tree.leaves(...)"),
        ([1], "[1]", "pass the arrays that it holds one by one: jax.tree.leaves(...)"),
        (3.0, "3.0", "jax.numpy.asarray(...) makes one"),
    ],
)
def test_a_non_array_is_an_error(scale: Any, given: Any, got: str, hint: str) -> None:
    for call in (custom_call(scale), custom_call(scale, backward=lambda s, grad: grad * s)):
        assert refusal(TileTypeError, call, given, 2.0) == (
            "kernel scale_program input A is an array\n"
            f"  expected: an array of JAX of dtype float32\n  got: {got}\n  hint: {hint}"
        )


def test_what_no_custom_call_can_be_made_of() -> None:
    with pytest.raises(TileTypeError) as caught:
        custom_call(len)  # type: ignore[arg-type]  # on purpose
    assert str(caught.value) == (
        "a custom call is made of a kernel\n  expected: a compiled kernel, or a function decorated "
        "with @tilelang.jit that is one\n  got: <built-in function len>"
    )
    with pytest.raises(TileUnsupportedError) as unsupported:
        custom_call(tilelang.compile(scale_program, target="cpu", execution_backend="interpret"))
    assert str(unsupported.value) == (
        "only compiled kernels for the CPU and for GPUs of NVIDIA are called by XLA\n"
        '  expected: target="cpu" and a C compiler, or target="cuda"\n'
        "  got: a kernel for cpu that runs by 'interpret'"
    )


def test_results_that_jax_leaves_out_are_refused() -> None:
    call = custom_call(tilelang.compile(copy_program("float64"), out_idx=-1, target="cpu"))
    with pytest.raises(KernelArgumentError, match="float64"):
        call(jnp.ones(8))

    @T.prim_func
    def count(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "int64")):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                B[i] = i

    call = custom_call(tilelang.compile(count, out_idx=-1, target="cpu"))
    assert refusal(TileUnsupportedError, call, jnp.ones(8)) == (
        "the result B is of dtype int64, which JAX leaves out\n"
        "  expected: dtypes of at most 32 bits\n"
        '  hint: jax.config.update("jax_enable_x64", True)'
    )


def test_kernels_are_not_serialized_and_batches_are_made_as_asked_for(scale: Any) -> None:
    call = custom_call(scale, vmap_method="sequential")
    with pytest.raises(ValueError, match="Cannot serialize code with custom calls"):
        jax.export.export(jax.jit(lambda x: call(x, 2.0)))(jnp.ones((2, 4))).serialize()
    assert jax.vmap(lambda x: call(x, 2.0))(jnp.ones((3, 2, 4))).shape == (3, 2, 4)


def test_none_is_a_gradient_of_zero(scale: Any) -> None:
    call = custom_call(scale, backward=lambda grad: None)
    assert not jax.grad(lambda x: call(x, 2.0).sum())(jnp.ones((3, 4))).any()


def test_derivatives_that_cannot_be(scale: Any) -> None:
    x = jnp.ones((3, 4))
    with pytest.raises(TileTypeError, match="has the parameter q, which is unknown"):
        custom_call(scale, backward=lambda q: q)(x, 1.0)
    with pytest.raises(TileValueError, match="another number of gradients"):
        jax.grad(lambda x: custom_call(scale, backward=lambda grad: (grad, grad))(x, 1.0).sum())(x)
    adds = custom_call(tilelang.compile(add_program, target="cpu"), backward=lambda grad: grad)
    with pytest.raises(
        TileUnsupportedError,
        match="a backward for the kernel add_program, which writes into y$|, which writes into",
    ):
        adds(jnp.ones(8), jnp.ones(8), 1)
