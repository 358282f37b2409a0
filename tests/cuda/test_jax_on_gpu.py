"""Kernels inside programs of JAX on an NVIDIA GPU: skipped where JAX has none."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from gemm_program import gemm_program
from scale_program import scale_program

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.target.device import cuda_devices

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other tests need memory, too
jax = pytest.importorskip("jax", reason="arrays of JAX")
jnp = jax.numpy
if not cuda_devices() or find_compiler() is None:
    pytest.skip("needs an NVIDIA GPU and a C compiler", allow_module_level=True)
try:
    GPUS = jax.devices("cuda")
except RuntimeError:
    pytest.skip("JAX has no CUDA devices", allow_module_level=True)
custom_call = tilelang.jax.custom_call
ARCH = cuda_devices()[0]


@T.prim_func
def add_program(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32"), t: T.int32):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            C[i] = C[i] + A[i] + t


@T.prim_func
def kept_program(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
    kept = T.alloc_global((1024,), "float32")
    with T.Kernel(8, threads=128) as bx:
        for i in T.Parallel(128):
            kept[bx * 128 + i] = A[bx * 128 + i] * 2
    with T.Kernel(8, threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = kept[1023 - bx * 128 - i] + 1


def product(dtype: str, size: int = 512) -> Any:
    m = T.dynamic("m")
    return gemm_program(m, size, size, (128, 128, 64), 3, 256, dtype, dtype)


def copy_program(dtype: str) -> Any:
    @T.prim_func
    def move(A: T.Tensor((256,), dtype), B: T.Tensor((256,), dtype)):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    return move


def compiled(program: Any, **options: Any) -> Any:
    return custom_call(tilelang.compile(program, target="cuda", **options))


def drawn(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def test_a_kernel_is_a_part_of_a_traced_program() -> None:
    call = compiled(scale_program)
    for rows in (5, 100):  # sizes are dynamic in the program
        x = drawn(rows, 4)
        found = jax.jit(lambda x: call(x * 2, 3.0) + 1)(x)
        assert found.devices() == {GPUS[0]}
        np.testing.assert_allclose(found, np.asarray(x) * 6 + 1, rtol=1e-6)
    np.testing.assert_array_equal(call(drawn(7, 4), 2.0), drawn(7, 4) * 2)  # without jit, too


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_tensor_maps_are_created_for_xla_buffers(dtype: str) -> None:
    kernel = tilelang.compile(product(dtype), out_idx=-1, target="cuda")
    if ARCH == "sm_90a":
        assert "tl_tensor_map" in kernel.get_kernel_source()
    call = custom_call(kernel)
    for rows in (128, 1000):
        a, b = drawn(rows, 512, dtype=dtype), drawn(512, 512, dtype=dtype, seed=1)
        found = jax.jit(lambda a, b: call(a, b).astype("float32"))(a, b)
        want = np.asarray(a, np.float32) @ np.asarray(b, np.float32)
        np.testing.assert_allclose(found, want, rtol=2e-2, atol=0.5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats(dtype: str) -> None:
    x = drawn(256, dtype=dtype)
    found = jax.jit(compiled(copy_program(dtype), out_idx=-1))(x)
    assert found.dtype == x.dtype and bool((found == x).all())


def test_what_a_kernel_writes_comes_back_and_the_argument_stays() -> None:
    call = compiled(add_program)
    a, c = drawn(64), jnp.ones(64)
    found = jax.jit(lambda a, c: (call(a, c, 5), c))(a, c)
    np.testing.assert_allclose(found[0], np.asarray(a) + 6, rtol=1e-6)
    np.testing.assert_array_equal(found[1], np.ones(64))
    given = jax.jit(lambda a, c: call(a, c, 5), donate_argnums=1)(a, c)
    np.testing.assert_array_equal(given, found[0])


def test_numbers_may_be_arrays_of_the_program() -> None:
    call, x = compiled(scale_program), drawn(9, 4)
    run = jax.jit(lambda x, s: call(x, s * 2))
    np.testing.assert_array_equal(run(x, 1.5), x * 3)
    np.testing.assert_array_equal(run(x, jnp.float32(0.5)), x)
    add = compiled(add_program)
    found = jax.jit(lambda a, c, t: add(a, c, t))(jnp.ones(64), jnp.ones(64), jnp.int32(-2))
    np.testing.assert_array_equal(found, np.zeros(64))


def test_memory_between_kernels_is_had_for_a_call() -> None:
    call, x = compiled(kept_program, out_idx=-1), drawn(1024)
    run = jax.jit(lambda x: call(call(call(call(call(call(x)))))))
    want = np.asarray(x)
    for _ in range(6):
        want = want[::-1] * 2 + 1
    for _ in range(3):
        np.testing.assert_allclose(run(x), want, rtol=1e-6)


def test_calls_are_in_the_order_of_the_program() -> None:
    """Long products before and behind, and enough calls for XLA to record them as a graph."""
    call = compiled(product("bfloat16"), out_idx=-1)
    a = drawn(512, 512, dtype="bfloat16") / 32
    identity = jnp.eye(512, dtype="bfloat16")

    @jax.jit
    def chain(x: Any) -> Any:
        for _ in range(8):
            x = call(identity @ x, identity)
        return x

    for _ in range(5):
        found = chain(a)
    np.testing.assert_array_equal(found, a)
    add = compiled(add_program)
    loop = jax.jit(lambda c: jax.lax.fori_loop(0, 50, lambda i, c: add(jnp.ones(64), c, 1), c))
    for _ in range(3):
        np.testing.assert_array_equal(loop(jnp.zeros(64)), np.full(64, 100))


def test_a_derivative_and_a_batch() -> None:
    call = custom_call(
        tilelang.compile(scale_program, target="cuda"), backward=lambda s, grad: grad * s
    )
    x = drawn(8, 4)
    gradient = jax.jit(jax.grad(lambda x: (call(x, 3.0) * 2).sum()))(x)
    np.testing.assert_array_equal(gradient, np.full((8, 4), 6))
    many = drawn(3, 8, 4)
    np.testing.assert_array_equal(jax.jit(jax.vmap(lambda x: call(x, 2.0)))(many), many * 2)


def test_a_decorated_function_is_compiled_for_the_gpu() -> None:
    @tilelang.jit
    def doubled(A, times: int = 2):
        n = T.const("n")
        A: T.Tensor[[n], T.float32]
        B = T.empty((n,), "float32")
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * times
        return B

    call = custom_call(doubled)
    first, second = jax.jit(lambda x, y: (call(x), call(y, 3)))(jnp.ones(500), jnp.ones(3))
    assert first.tolist() == [2] * 500 and second.tolist() == [3] * 3


def test_arrays_on_another_device_are_an_error() -> None:
    call = compiled(scale_program)
    on_cpu = jax.device_put(np.ones((4, 4), np.float32), jax.devices("cpu")[0])
    with pytest.raises(Exception, match="is compiled for GPUs, and its arrays are not on one"):
        jax.block_until_ready(jax.jit(lambda x: call(x, 2.0))(on_cpu))
    host = custom_call(tilelang.compile(scale_program, target="cpu"))
    with pytest.raises(Exception, match="is compiled for the CPU, and its arrays are not there"):
        jax.block_until_ready(jax.jit(lambda x: host(x, 2.0))(drawn(4, 4)))


def test_code_for_another_gpu_is_an_error_of_the_program() -> None:
    other = "sm_90a" if ARCH != "sm_90a" else "sm_100a"
    call = custom_call(tilelang.compile(scale_program, target=f"cuda -arch={other}"))
    with pytest.raises(Exception, match="the library has no code for this GPU"):
        jax.block_until_ready(jax.jit(lambda x: call(x, 2.0))(drawn(4, 4)))


@pytest.mark.skipif(len(GPUS) < 2, reason="needs two NVIDIA GPUs")
def test_calls_run_where_their_arrays_are() -> None:
    for device in GPUS[::-1]:
        x = jax.device_put(drawn(40, 4), device)
        found = jax.jit(compiled(scale_program))(x, 3.0)
        assert found.devices() == {device}
        np.testing.assert_array_equal(found, np.asarray(x) * 3)
    mesh = jax.sharding.Mesh(np.array(GPUS), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    x = jax.device_put(drawn(64, 4), jax.sharding.NamedSharding(mesh, spec))
    call = compiled(scale_program)
    each = jax.shard_map(
        lambda x: call(x, 3.0), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
    )
    found = jax.jit(each)(x)
    assert found.devices() == set(GPUS)
    np.testing.assert_array_equal(found, np.asarray(x) * 3)
