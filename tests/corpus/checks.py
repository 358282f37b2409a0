"""Words that check, print or advise: they never change a result."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T

from .registry import F, I, Out, ints, program, rows_of


@program()
def assumptions_in_the_body():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            T.assume(n % 8 == 0)
            T.assume(b >= 0)
            for i in T.Parallel(32):
                T.assume(i < 32)
                if b * 32 + i < n:
                    B[b * 32 + i] = A[b * 32 + i] + n

    def run(options):
        kernel = tilelang.compile(f, **options)
        for size in (8, 40, 64):
            a, b = ints(size), np.zeros(size, F)
            kernel(a, b)
            Out(a + size).check(str(size), b)

    return run


@program()
def assertions_that_hold():
    @T.prim_func
    def f(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=32) as b:
            t = T.get_thread_binding()
            v = A[b * 32 + t]
            T.device_assert(v >= -50, "large enough")
            T.device_assert(v < 50)
            assert v != 1000, "not that one"
            B[b * 32 + t] = v * 2

    a = ints(64, 1, I)
    return f, [a, Out(a * 2)]


@program()
def printing():
    @T.prim_func
    def f(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((4,), "int32")
            s = T.alloc_shared((2, 2), "int32")
            T.copy(A, x)
            T.print(x, msg="tile")
            for i in T.Parallel(4):
                x[i] = x[i] + 1
            for i, j in T.Parallel(2, 2):
                s[i, j] = i * 10 + j
            T.print(s)
            if T.get_thread_binding() == 0:
                T.print(A[0], msg="first")
                T.print(msg="only words")
            T.copy(x, B)

    a = ints(4, 2, I)
    return f, [a, Out(a + 1)]


@program()
def advice_for_caches_and_registers():
    @T.prim_func
    def f(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(4, threads=128) as b:
            T.annotate_l2_hit_ratio({A: 0.5})
            T.annotate_min_blocks_per_sm(2)
            T.annotate_restrict_buffers(A, B)
            s = T.alloc_shared((16, 64), "float32")
            T.copy(A[b * 16, 0], s)
            for i, j in T.Parallel(16, 64):
                B[b * 16 + i, j] = s[i, 63 - j]

    a = ints((64, 64), 3)
    return f, [a, Out(a[:, ::-1].copy())]


@program()
def configurations_of_passes():
    @T.prim_func
    def f(A: T.Tensor((100,), "float32"), B: T.Tensor((100,), "float32")):
        with T.Kernel(4, threads=32) as b:
            s = T.alloc_shared((32,), "float32")
            T.copy(A[b * 32], s)
            for i in T.Parallel(32):
                if b * 32 + i < 100:
                    B[b * 32 + i] = s[31 - i] if b < 3 else s[i]

    a = ints(100, 4)
    want = a.copy()
    want[:96] = a[:96].reshape(3, 32)[:, ::-1].reshape(-1)
    configs = {
        tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True,
        tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True,
        tilelang.PassConfigKey.TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE: True,
        "tl.disable_vectorize_256": True,
    }
    return f, [a, Out(want)], {"pass_configs": configs}


@program()
def no_guards_where_all_is_inside():
    @T.prim_func
    def f(A: T.Tensor((64, 48), "float32"), B: T.Tensor((48, 64), "float32")):
        with T.Kernel(3, 4, threads=64) as (x, y):
            s = T.alloc_shared((16, 16), "float32")
            T.copy(A[y * 16, x * 16], s)
            for i, j in T.Parallel(16, 16):
                B[x * 16 + i, y * 16 + j] = s[j, i]

    a = ints((64, 48), 5)
    configs = {tilelang.PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS: True}
    return f, [a, Out(a.T.copy())], {"pass_configs": configs}


@program()
def fast_mathematics_within_its_tolerance():
    def rows(a):
        return [T.exp(a), 1.0 / a, T.sqrt(a)]

    f = rows_of(rows, T.Tensor((200,), "float32"), T.Tensor((3, 200), "float32"), threads=64)

    a = np.linspace(0.1, 8, 200).astype(F)
    configs = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
    return (
        f,
        [a, Out(np.stack([np.exp(a), 1 / a, np.sqrt(a)]), rtol=1e-5)],
        {"pass_configs": configs},
    )


@program()
def attributes_and_empty_statements():
    @T.prim_func
    def f(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            T.func_attr({"a.key": 1})
            with T.attr("default", "some_key", 1):
                for i in T.Parallel(32):
                    pass
                for i in T.Parallel(32):
                    "a string as a statement"
                    B[i] = A[i] - 1
            T.evaluate(A[0] + 1)

    a = ints(32, 6)
    return f, [a, Out(a - 1)]


@program()
def branches_by_frames():
    @T.prim_func
    def f(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            with T.If(A[t] > 0):
                with T.Then():
                    B[t] = A[t]
                with T.Else():
                    with T.If(A[t] == 0):
                        with T.Then():
                            B[t] = 100
                        with T.Else():
                            B[t] = -A[t]

    a = ints(32, 7, I, -3, 4)
    return f, [a, Out(np.where(a > 0, a, np.where(a == 0, 100, -a)).astype(I))]


@program()
def hints_for_registers_and_fences():
    @T.prim_func
    def f(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            T.disable_warp_group_reg_alloc()
            s = T.alloc_shared((128,), "float32")
            T.copy(A, s)
            T.fence_proxy_async()
            for i in T.Parallel(128):
                B[i] = s[127 - i]

    a = ints(128, 8)
    return f, [a, Out(a[::-1].copy())]
