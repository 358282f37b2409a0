"""Control flow: loops, branches, break and continue, conditions."""

from __future__ import annotations

import numpy as np
from tensor_types import F32, I32

import tilelang.language as T

from .registry import F, I, Out, program


@program()
def break_leaves_the_inner_loop_only():
    @T.prim_func
    def f(A: I32[4, 6], B: I32[4]):
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                n = T.alloc_var("int32", 0)
                for j in T.serial(6):
                    if A[i, j] < 0:
                        break
                    n += A[i, j]
                B[i] = n

    a = np.array([[1, 2, 3, -1, 5, 6], [-1] * 6, [1] * 6, [4, 4, 4, 4, 4, -4]], I)
    want = [sum(int(x) for x in row[: np.argmax(row < 0) if (row < 0).any() else 6]) for row in a]
    return f, [a, Out(np.array(want, I))]


@program()
def continue_skips_one_iteration_of_each_of_two_loops():
    @T.prim_func
    def f(A: I32[5, 5], B: I32[5]):
        with T.Kernel(1, threads=1):
            for i in T.serial(5):
                B[i] = -1
                if i % 2 == 1:
                    continue
                total = T.alloc_var("int32", 0)
                for j in T.serial(5):
                    if (A[i, j] & 1) == 0:
                        continue
                    total += A[i, j]
                B[i] = total

    a = np.arange(25, dtype=I).reshape(5, 5)
    want = np.where(np.arange(5) % 2 == 1, -1, np.where(a & 1, a, 0).sum(1)).astype(I)
    return f, [a, Out(want)]


@program()
def break_and_continue_in_one_loop_with_work_between():
    @T.prim_func
    def f(A: I32[10], B: I32[10], N: I32[1]):
        with T.Kernel(1, threads=1):
            n = T.alloc_var("int32", 0)
            for i in T.serial(10):
                B[i] = 0
            for i in T.serial(10):
                if A[i] == 3:
                    continue
                B[i] = A[i] * 2
                if A[i] == 9:
                    break
                n += 1
                B[i] += 1
            N[0] = n

    a = np.array([1, 3, 4, 3, 3, 6, 9, 1, 2, 3], I)
    want, n = np.zeros(10, I), 0
    for i, x in enumerate(a):
        if x == 3:
            continue
        want[i] = 2 * x
        if x == 9:
            break
        n += 1
        want[i] += 1
    return f, [a, Out(want), Out(np.array([n], I))]


@program()
def while_loop_with_break_and_continue():
    @T.prim_func
    def f(N: I32[6], S: I32[6]):
        with T.Kernel(6, threads=1) as b:
            n = T.alloc_var("int32", N[b])
            s = T.alloc_var("int32", 0)
            while True:
                if n == 0 or s > 20:
                    break
                n -= 1
                if n % 3 == 0:
                    continue
                s += n
            S[b] = s

    start = np.array([0, 1, 4, 7, 12, 40], I)
    want = []
    for n in start:
        s = 0
        while n > 0 and s <= 20:
            n -= 1
            s += n if n % 3 else 0
        want.append(s)
    return f, [start, Out(np.array(want, I))]


@program()
def while_over_a_buffer_element():
    @T.prim_func
    def f(A: I32[3], B: I32[1]):
        with T.Kernel(1, threads=1):
            B[0] = 0
            while A[0] < A[1] and B[0] < 100:
                A[0] = A[0] + A[2]
                B[0] += 1

    return f, [Out(np.array([21, 20, 3], I), np.array([0, 20, 3], I)), Out(np.array([7], I))]


@program()
def greatest_common_divisor():
    @T.prim_func
    def f(A: I32[6, 2], G: I32[6]):
        with T.Kernel(6, threads=1) as i:
            x = T.alloc_var("int32", A[i, 0])
            y = T.alloc_var("int32", A[i, 1])
            while y != 0:
                x, y = y, x % y
            G[i] = x

    a = np.array([[12, 18], [17, 5], [100, 75], [0, 4], [4, 0], [270, 192]], I)
    return f, [a, Out(np.gcd(a[:, 0], a[:, 1]).astype(I))]


@program()
def each_thread_searches_by_bisection():
    @T.prim_func
    def f(A: F32[50], Q: F32[64], R: I32[64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            low = T.alloc_var("int32", 0)
            high = T.alloc_var("int32", 50)
            while low < high:
                middle = (low + high) // 2
                if A[middle] < Q[t]:
                    low = middle + 1
                else:
                    high = middle
            R[t] = low

    rng = np.random.default_rng(1)
    a = np.sort(rng.integers(0, 40, 50)).astype(F)
    q = rng.integers(-3, 45, 64).astype(F)
    return f, [a, q, Out(np.searchsorted(a, q).astype(I))]


@program()
def four_nested_branches():
    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                if A[i] > 0:
                    if A[i] % 2 == 0:
                        if A[i] > 20:
                            B[i] = 1
                        else:
                            B[i] = 2
                    elif A[i] % 3 == 0:
                        B[i] = 3
                    else:
                        if A[i] > 10:
                            B[i] = 4
                        else:
                            B[i] = 5
                elif A[i] == 0:
                    B[i] = 6
                else:
                    B[i] = 7

    a = np.random.default_rng(2).integers(-20, 40, 64).astype(I)

    def one(x):
        if x > 0:
            if x % 2 == 0:
                return 1 if x > 20 else 2
            if x % 3 == 0:
                return 3
            return 4 if x > 10 else 5
        return 6 if x == 0 else 7

    return f, [a, Out(np.array([one(x) for x in a], I))]


@program()
def loops_with_steps_and_starts():
    @T.prim_func
    def f(B: I32[6, 20]):
        with T.Kernel(1, threads=1):
            for r in T.serial(6):
                for i in T.serial(20):
                    B[r, i] = 0
            for i in T.serial(3, 17):
                B[0, i] += i
            for i in T.serial(3, 17, 4):
                B[1, i] += i
            for i in range(17, 3, -4):
                B[2, i] += i
            for i in range(5, 5):
                B[3, i] += 1
            for i in range(7, 2):
                B[4, i] += 1
            for i in T.serial(19, -1, -1):
                B[5, i] = 19 - i

    want = np.zeros((6, 20), I)
    for i in range(3, 17):
        want[0, i] = i
    for i in range(3, 17, 4):
        want[1, i] = i
    for i in range(17, 3, -4):
        want[2, i] = i
    want[5] = 19 - np.arange(20)
    return f, [Out(want)]


@program()
def loop_bounds_loaded_from_memory():
    @T.prim_func
    def f(P: I32[5], V: F32[10], S: F32[4]):
        with T.Kernel(4, threads=32) as r:
            s = T.alloc_var("float32", 0.0)
            for j in T.serial(P[r], P[r + 1]):
                s += V[j]
            S[r] = s

    p = np.array([0, 3, 3, 9, 10], I)
    v = np.arange(1, 11, dtype=F)
    return f, [p, v, Out(np.array([v[p[i] : p[i + 1]].sum() for i in range(4)], F))]


@program()
def a_triangular_loop():
    @T.prim_func
    def f(B: I32[8, 8]):
        with T.Kernel(1, threads=1):
            for i in T.serial(8):
                for j in T.serial(i, 8):
                    B[i, j] = i * 10 + j
                for j in T.serial(i):
                    B[i, j] = -1

    i, j = np.mgrid[:8, :8]
    return f, [Out(np.where(j >= i, i * 10 + j, -1).astype(I))]


@program()
def a_conditional_expression_reads_one_side_only():
    @T.prim_func
    def f(A: I32[8], B: I32[16]):
        with T.Kernel(1, threads=16):
            t = T.get_thread_binding()
            tile = T.alloc_shared((8,), "int32")
            T.copy(A, tile)
            B[t] = tile[t] * 2 if t < 8 else -1

    a = np.arange(8, dtype=I)
    return f, [a, Out(np.concatenate([a * 2, np.full(8, -1, I)]))]


@program()
def and_and_or_stop_early():
    """The second operand would divide by zero and leave a tile."""

    @T.prim_func
    def f(A: I32[32], B: I32[32]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            tile = T.alloc_shared((8,), "int32")
            for i in T.Parallel(8):
                tile[i] = i % 3
            if t < 8 and tile[t] == 1:
                B[t] = 1
            elif A[t] == 0 or 100 // A[t] > 20:
                B[t] = 2
            else:
                B[t] = 3

    a = (np.arange(32) % 7).astype(I)
    t = np.arange(32)
    quotient = 100 // np.where(a == 0, 1, a)
    want = np.where((t < 8) & (t % 3 == 1), 1, np.where((a == 0) | (quotient > 20), 2, 3))
    return f, [a, Out(want.astype(I))]


@program()
def a_chain_of_comparisons():
    @T.prim_func
    def f(A: I32[16], B: I32[16]):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(16):
                B[i] = T.if_then_else(3 < A[i] <= i, 1, 0) + T.if_then_else(
                    not (0 <= A[i] < 9), 10, 0
                )

    a = np.array([4, 1, -3, 8, 4, 4, 9, 12, 5, 8, 2, 10, 9, 3, 3, 15], I)
    i = np.arange(16)
    want = ((3 < a) & (a <= i)).astype(I) + 10 * ~((a >= 0) & (a < 9))
    return f, [a, Out(want.astype(I))]


@program()
def conditions_known_while_tracing_leave_nothing():
    flag, size = False, 4

    @T.prim_func
    def f(A: I32[4], B: I32[4]):
        with T.Kernel(1, threads=4):
            for i in T.Parallel(4):
                if flag:
                    B[i] = A[i + 100, 3]
                elif size == 4:
                    v = A[i]
                else:
                    v = A
                B[i] = v + 1 if size > 3 else B

    a = np.arange(4, dtype=I)
    return f, [a, Out(a + 1)]


@program()
def an_early_exit_of_whole_blocks():
    @T.prim_func
    def f(A: F32[4, 32], N: I32[1], B: F32[4, 32]):
        with T.Kernel(4, threads=32) as b:
            if b >= N[0]:
                T.thread_return()
            tile = T.alloc_shared((32,), "float32")
            T.copy(A[b, 0], tile)
            for i in T.Parallel(32):
                B[b, i] = tile[31 - i]

    a = np.arange(128, dtype=F).reshape(4, 32)
    want = np.full((4, 32), 9, F)
    want[:2] = a[:2, ::-1]
    return f, [a, np.array([2], I), Out(want, np.full((4, 32), 9, F))]


@program()
def unrolled_and_vectorised_loops_are_serial():
    @T.prim_func
    def f(A: I32[8], B: I32[8], C: I32[8]):
        with T.Kernel(1, threads=1):
            B[0] = A[0]
            for i in T.unroll(1, 8):
                B[i] = B[i - 1] + A[i]
            for i in T.vectorized(8):
                C[i] = A[i] * 2

    a = np.arange(3, 11, dtype=I)
    return f, [a, Out(np.cumsum(a).astype(I)), Out(a * 2)]


@program()
def a_serial_loop_where_iterations_depend_through_shared_memory():
    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "int32")
            T.copy(A, s)
            for k in T.serial(6):
                v = T.alloc_fragment((64,), "int32")
                for i in T.Parallel(64):
                    v[i] = s[i]
                    if i >= (1 << k):
                        v[i] += s[i - (1 << k)]
                for i in T.Parallel(64):
                    s[i] = v[i]
            T.copy(s, B)

    a = np.arange(64, dtype=I) % 5
    return f, [a, Out(np.cumsum(a).astype(I))]


@program()
def a_sequence_of_branches_on_the_block():
    @T.prim_func
    def f(A: F32[3, 16], B: F32[3, 16]):
        with T.Kernel(3, threads=16) as b:
            x = T.alloc_fragment((16,), "float32")
            if b == 0:
                T.copy(A[0, 0], x)
            elif b == 1:
                T.fill(x, 5.0)
            else:
                for i in T.Parallel(16):
                    x[i] = A[2, i] * A[1, i]
            T.copy(x, B[b, 0])

    a = np.arange(48, dtype=F).reshape(3, 16)
    return f, [a, Out(np.stack([a[0], np.full(16, 5, F), a[2] * a[1]]))]


@program()
def membership_and_quotients_with_remainders_as_in_python():
    named = [3, -7, 11]

    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                row, column = divmod(A[i], 5)
                B[i] = row * 100 + column
                if A[i] in named or i in (0, 63):
                    B[i] = 1000
                elif A[i] in range(-4, 2) and i not in range(10, 40, 3):
                    B[i] = 2000

    a = np.random.default_rng(5).integers(-12, 13, 64).astype(I)
    i = np.arange(64)
    want = a // 5 * 100 + a % 5
    second = (a >= -4) & (a < 2) & ~np.isin(i, range(10, 40, 3))
    want = np.where(np.isin(a, named) | np.isin(i, (0, 63)), 1000, np.where(second, 2000, want))
    return f, [a, Out(want.astype(I))]


@program()
def a_branch_changes_its_condition_behind_one_that_does_not():
    @T.prim_func
    def f(B: I32[8]):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            if B[tx] > 0:
                T.evaluate(0)
            if B[tx] > 0:
                B[tx] = B[tx] - 10
                if B[tx] > 0:
                    B[tx] = 100

    b = np.array([1, 20, -3, 5, 30, 0, 8, 11], I)
    return f, [Out(np.where(b > 10, 100, np.where(b > 0, b - 10, b)).astype(I), b)]


@program()
def all_threads_return_from_a_while_loop():
    @T.prim_func
    def f(B: I32[32]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            k = T.alloc_var("int32", 0)
            while True:
                k += 1
                B[tx] = k
                if k > tx:
                    return

    return f, [Out(np.arange(1, 33, dtype=I))]
