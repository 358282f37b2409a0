"""Macros, closures, helpers, eager and lazy functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilelang
import tilelang.language as T

from .registry import F, I, Out, program


@program()
def a_macro_expanded_with_different_constants():
    @T.macro
    def scaled(src, dst, factor, shift: int = 0):
        for i in T.Parallel(8):
            dst[i] = src[i] * factor + shift

    @T.prim_func
    def f(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            scaled(A, B, 3)
            scaled(B, C, factor=2, shift=1)

    a = np.arange(8, dtype=I)
    return f, [a, Out(a * 3), Out(a * 6 + 1)]


@program()
def expressions_are_passed_to_macros_by_value():
    @T.macro
    def twice(x, out):
        out[0] = x
        out[1] = x + out[0]

    @T.prim_func
    def f(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            twice(A[0] + A[1], A)

    return f, [Out(np.array([9, 18], I), np.array([4, 5], I))]


@program()
def a_variable_passed_by_value_and_by_reference():
    @T.macro
    def by_value(v):
        v = v + 1

    @T.macro
    def by_reference(v: T.Ref):
        v = v + 10

    @T.prim_func
    def f(B: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=1):
            v = T.alloc_var("int32", 5)
            by_value(v)
            B[0] = v
            by_reference(v)
            B[1] = v
            by_reference(B[1])
            B[2] = B[1] - v

    return f, [Out(np.array([5, 25, 10], I))]


@program()
def the_index_of_a_reference_is_evaluated_at_the_call():
    @T.macro
    def fill_two(place: T.Ref, index: T.Ref):
        index = index + 1
        place = 7
        index = index + 1
        place = place + index

    @T.prim_func
    def f(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                B[i] = 0
            k = T.alloc_var("int32", 1)
            fill_two(B[k], k)

    return f, [Out(np.array([0, 10, 0, 0], I))]


@program()
def a_macro_that_returns_a_tuple_and_allocates():
    @T.macro
    def extremes(tile, n: int):
        low = T.alloc_fragment((1,), "int32")
        high = T.alloc_fragment((1,), "int32")
        T.reduce_min(tile, low)
        T.reduce_max(tile, high)
        return low, high

    @T.prim_func
    def f(A: T.Tensor((2, 20), "int32"), B: T.Tensor((2, 2), "int32")):
        with T.Kernel(2, threads=32) as b:
            t = T.alloc_fragment((20,), "int32")
            T.copy(A[b, 0:20], t)
            low, high = extremes(t, 20)
            T.copy(low, B[b, 0])
            T.copy(high, B[b, 1])

    a = np.random.default_rng(0).integers(-99, 99, (2, 20)).astype(I)
    return f, [a, Out(np.stack([a.min(1), a.max(1)], 1))]


@program()
def a_macro_that_calls_itself_while_tracing():
    @T.macro
    def tree_sum(tile, n):
        if n > 1:
            for i in T.Parallel(n // 2):
                tile[i] = tile[i] + tile[i + n // 2]
            tree_sum(tile, n // 2)

    @T.prim_func
    def f(A: T.Tensor((64,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), "float32")
            T.copy(A, s)
            tree_sum(s, 64)
            B[0] = s[0]

    a = np.arange(64, dtype=F)
    return f, [a, Out(np.array([a.sum()], F))]


@program()
def lambdas_as_arguments_of_macros():
    @T.macro
    def mapped(tile, n, function):
        for i in T.Parallel(n):
            tile[i] = function(tile[i], i)

    @T.prim_func
    def f(A: T.Tensor((10,), "int32"), B: T.Tensor((10,), "int32")):
        with T.Kernel(1, threads=32):
            t = T.alloc_fragment((10,), "int32")
            T.copy(A, t)
            mapped(t, 10, lambda x, i: x * x - i)
            mapped(t, 10, lambda x, i: T.max(x, 3))
            T.copy(t, B)

    a = np.arange(-4, 6, dtype=I)
    return f, [a, Out(np.maximum(a * a - np.arange(10, dtype=I), 3))]


@program()
def plain_helpers_build_expressions_and_lists():
    def horner(coefficients, x):
        result = coefficients[0]
        for c in coefficients[1:]:
            result = result * x + c
        return result

    table = [2, -3, 5, 7]

    @T.prim_func
    def f(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(16):
                B[i] = horner(table, A[i]) + sum([A[i] * c for c in table])

    a = np.arange(-8, 8, dtype=I)
    return f, [a, Out((((2 * a - 3) * a + 5) * a + 7 + a * 11).astype(I))]


@program()
def two_kernels_from_one_factory():
    def make(n, op):
        @T.prim_func
        def f(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = op(A[i], n)

        return f

    def run(options: dict[str, Any]) -> None:
        a = np.arange(12, dtype=I)
        kernels = [
            tilelang.compile(make(12, lambda x, n: x + n), **options),
            tilelang.compile(make(7, lambda x, n: x * n), **options),
        ]
        b, c = np.zeros(12, I), np.zeros(7, I)
        kernels[1](a[:7].copy(), c)
        kernels[0](a, b)
        Out(a + 12).check("first", b)
        Out(a[:7] * 7).check("second", c)

    return run


class Counter:
    """A helper with a macro as method."""

    def __init__(self, step: int) -> None:
        self.step = step

    @T.macro
    def count(self, place):
        place[0] = place[0] + self.step


@program()
def methods_as_macros():
    small, large = Counter(1), Counter(100)

    @T.prim_func
    def f(B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(3):
                small.count(B)
            large.count(B)

    return f, [Out(np.array([103], I), np.array([0], I))]


@program()
def names_of_macros_and_callers_do_not_meet():
    @T.macro
    def inner(x, out, k):
        i = x * 2
        t = i + 1
        out[k] = t

    @T.prim_func
    def f(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            i = 50
            t = T.alloc_var("int32", 9)
            inner(t, B, 0)
            B[1] = i
            B[2] = t
            for x in T.serial(1):
                inner(x + i, B, 3)

    return f, [Out(np.array([19, 50, 9, 101], I))]


@program()
def an_eager_function_for_several_sizes():
    def run(options: dict[str, Any]) -> None:
        @tilelang.jit(**options)
        def scale(A, factor: T.float32, block: int = 32):
            n = T.const("n")
            A: T.Tensor[[n], T.float32]
            B = T.empty((n,), T.float32)
            C = T.empty((n, 2), T.float32)
            with T.Kernel(T.ceildiv(n, block), threads=32) as b:
                for i in T.Parallel(block):
                    B[b * block + i] = A[b * block + i] * factor
                for i, j in T.Parallel(block, 2):
                    C[b * block + i, j] = A[b * block + i] + j
            return B, C

        for n, block in ((100, 32), (7, 32), (64, 16)):
            a = np.arange(n, dtype=F)
            b, c = scale(a, 2.5, block=block)
            Out(a * F(2.5)).check(f"B of {n}", np.asarray(b))
            Out(a[:, None] + np.arange(2, dtype=F)).check(f"C of {n}", np.asarray(c))

    return run


@program()
def a_lazy_function_with_free_and_constant_extents():
    def run(options: dict[str, Any]) -> None:
        @tilelang.lazy_jit(**options)
        def sums(A: T.Tensor[[T.dyn["m"], int], T.float32]):
            m, n = A.shape
            C = T.empty((m,), T.float32)
            with T.Kernel(m, threads=32) as row:
                tile = T.alloc_fragment((1, n), "float32")
                total = T.alloc_fragment((1,), "float32")
                T.copy(A[row, 0], tile)
                T.reduce_sum(tile, total, dim=1)
                T.copy(total, C[row])
            return C

        for shape in ((3, 20), (5, 20), (1, 7)):
            a = np.arange(shape[0] * shape[1], dtype=F).reshape(shape)
            Out(a.sum(1)).check(str(shape), np.asarray(sums(a)))

    return run


@program()
def dtypes_as_parameters_of_a_factory():
    def run(options: dict[str, Any]) -> None:
        @tilelang.jit(**options)
        def make(n: int, dtype: str):
            @T.prim_func
            def f(A: T.Tensor((n,), dtype), B: T.Tensor((n,), "float32")):
                with T.Kernel(1, threads=32):
                    for i in T.Parallel(n):
                        B[i] = A[i] + 1

            return f

        for dtype in ("int8", "float16", "uint8", "int64"):
            a = np.arange(100, 120).astype(dtype)
            b = np.zeros(20, F)
            make(20, dtype)(a, b)
            Out((np.arange(100, 120) + 1).astype(F)).check(dtype, b)

    return run


@program()
def a_kernel_frame_inside_a_macro():
    @T.macro
    def stage(src, dst, n, k):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            for i in T.Parallel(32):
                dst[b * 32 + i] = src[b * 32 + i] * k + 1

    @T.prim_func
    def f(A: T.Tensor((70,), "int32"), B: T.Tensor((70,), "int32"), C: T.Tensor((70,), "int32")):
        stage(A, B, 70, 2)
        stage(B, C, 70, 3)

    a = np.arange(70, dtype=I)
    return f, [a, Out(2 * a + 1), Out(3 * (2 * a + 1) + 1)]


@program()
def trace_time_loops_by_comprehension():
    @T.prim_func
    def f(A: T.Tensor((5,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=1):
            places = [A[i] for i in range(5) if i != 2]
            total = places[0]
            B[0] = sum(p * (k + 1) for k, p in enumerate(places)) + total

    a = np.array([3, 1, 4, 1, 5], I)
    return f, [a, Out(np.array([3 + 2 + 3 + 20 + 3], I))]


@program()
def buffers_kept_in_lists_and_dictionaries():
    @T.prim_func
    def f(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=16):
            tiles = [T.alloc_fragment((16,), "float32") for _ in range(3)]
            named = {"in": tiles[0], "out": tiles[2]}
            T.copy(A, named["in"])
            for i in T.Parallel(16):
                tiles[1][i] = named["in"][i] + 1
                named["out"][i] = tiles[1][i] * tiles[0][i]
            T.copy(tiles[-1], B)

    a = np.arange(16, dtype=F)
    return f, [a, Out(a * (a + 1))]


@program()
def globals_and_closures_of_all_kinds():
    class Config:
        width = 3

    scale = np.float32(0.5)
    offsets = (10, 20, 30)

    @T.prim_func
    def f(A: T.Tensor((Config.width, len(offsets)), "float32"), B: T.Tensor((3, 3), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(Config.width, len(offsets)):
                B[i, j] = (
                    A[i, j] * float(scale) + offsets[1] + (offsets[2] if Config.width == 3 else 0)
                )

    a = np.arange(9, dtype=F).reshape(3, 3)
    return f, [a, Out(a * F(0.5) + 50)]


@program()
def macros_from_a_factory_hold_their_own_constants():
    def adder(n):
        @T.macro
        def add(x):
            return x + n

        return add

    one, ten = adder(1), adder(10)

    @T.prim_func
    def f(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=4):
            t = T.get_thread_binding()
            x = one(A[t])
            y = ten(x)
            B[t] = y * 100 + x

    a = np.arange(4, dtype=I)
    return f, [a, Out((a + 11) * 100 + a + 1)]


@program()
def a_macro_with_branches_and_loops_of_the_device():
    @T.macro
    def power(x, n, out, i):
        result = T.alloc_var("int32", 1)
        base = T.alloc_var("int32", x)
        rest = T.alloc_var("int32", n)
        while rest > 0:
            if rest % 2 == 1:
                result *= base
            base *= base
            rest //= 2
        out[i] = result

    @T.prim_func
    def f(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            t = T.get_thread_binding()
            power(A[t], t, B, t)
            power(A[t], 3, C, t)

    a = np.array([1, 2, 3, -2, 5, -1, 2, 3], I)
    return f, [a, Out(a ** np.arange(8, dtype=I)), Out(a**3)]


@program()
def variables_that_macros_return_are_stored_in_variables():
    @T.macro
    def gcd_steps(x, y):
        a = T.alloc_var("int32", x)
        b = T.alloc_var("int32", y)
        steps = T.alloc_var("int32", 0)
        while b != 0:
            a, b = b, a % b
            steps += 1
        return a, steps

    @T.macro
    def twice(x):
        doubled = T.alloc_var("int32", x)
        doubled += doubled
        return doubled

    @T.prim_func
    def f(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            t = T.get_thread_binding()
            divisor = T.alloc_var("int32", 1)
            steps = T.alloc_var("int32", -1)
            if A[t] > 6:
                divisor, steps = gcd_steps(A[t], 12)
            for _ in T.serial(2):
                if steps < 3:
                    steps = twice(steps)
            B[t] = divisor
            C[t] = steps

    a = np.array([18, 3, 7, 24, 10, 1, 36, 15], I)
    divisors, steps = np.ones(8, I), np.full(8, -1, I)
    for i, value in enumerate(a):
        if value > 6:
            x, y, steps[i] = int(value), 12, 0
            while y:
                x, y = y, x % y
                steps[i] += 1
            divisors[i] = x
        for _ in range(2):
            steps[i] *= 2 if steps[i] < 3 else 1
    return f, [a, Out(divisors), Out(steps)]
