"""Names and variables: what they hold, and when."""

from __future__ import annotations

import numpy as np

import tilelang.language as T

from .registry import F, I, Out, program


@program()
def a_bound_value_keeps_what_it_was():
    @T.prim_func
    def f(A: T.Tensor((4,), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=1):
            x = A[1]
            B[0] = x
            B[1] = x + 1
            x = x * 10
            B[2] = x

    a = np.array([3, 5, 7, 9], I)
    return f, [a, Out(np.array([5, 6, 50], I))]


@program()
def a_value_read_before_its_place_is_overwritten():
    @T.prim_func
    def f(A: T.Tensor((2,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=1):
            x = A[0]
            A[0] = 100
            A[1] = x + A[0]
            B[0] = x

    a = np.array([7, 0], I)
    return f, [Out(np.array([100, 107], I), a), Out(np.array([7], I))]


@program()
def elements_swapped_in_one_assignment():
    @T.prim_func
    def f(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            A[0], A[1] = A[1], A[0]
            A[2], A[3], A[0] = A[0], A[2], A[3]

    # after the first: [2, 1, 3, 4]; then A[2], A[3], A[0] = 2, 3, 4
    return f, [Out(np.array([4, 1, 2, 3], I), np.array([1, 2, 3, 4], I))]


@program()
def variables_swapped_in_a_loop():
    @T.prim_func
    def f(A: T.Tensor((12,), "int64")):
        with T.Kernel(1, threads=1):
            a = T.alloc_var("int64", 0)
            b = T.alloc_var("int64", 1)
            for i in T.serial(12):
                A[i] = a
                a, b = b, a + b

    fib = [0, 1]
    while len(fib) < 12:
        fib.append(fib[-1] + fib[-2])
    return f, [Out(np.array(fib, np.int64))]


@program()
def one_value_assigned_to_several_names():
    @T.prim_func
    def f(A: T.Tensor((3,), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=1):
            v = T.alloc_var("int32", 1)
            x = v = A[0] + 5
            B[0] = x
            B[1] = v
            v += x
            B[2] = B[0] = v

    return f, [np.array([2, 0, 0], I), Out(np.array([14, 7, 14], I))]


@program()
def a_variable_set_in_branches_and_read_after_them():
    @T.prim_func
    def f(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            v = T.alloc_var("int32", 0)
            if A[t] > 5:
                v = A[t] * 2
                if A[t] > 8:
                    v = -v
            else:
                v += 100
            B[t] = v + 1

    a = (np.arange(32) % 11).astype(I)
    return f, [a, Out(np.where(a > 8, -2 * a, np.where(a > 5, 2 * a, 100)).astype(I) + 1)]


@program()
def the_state_of_a_loop_is_carried_in_variables():
    """Names rebound in a loop: the value of the previous iteration, as T.alloc_var gives it."""

    @T.prim_func
    def f(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            previous = T.alloc_var("int32", -1)
            for i in T.serial(8):
                now = A[i]
                B[i] = now - previous
                previous = now

    a = np.array([3, 1, 4, 1, 5, 9, 2, 6], I)
    return f, [a, Out(np.diff(a, prepend=I(-1)).astype(I))]


@program()
def a_flag_set_in_a_branch_of_a_loop():
    @T.prim_func
    def f(A: T.Tensor((3, 8), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(3, threads=1) as b:
            found = T.alloc_var("bool", False)
            for i in T.serial(8):
                if A[b, i] == 2:
                    found = True
            if found:
                B[b] = 1
            else:
                B[b] = 0

    a = np.array([[1] * 8, [1, 2, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 2]], I)
    return f, [a, Out((a == 2).any(1).astype(I))]


@program()
def augmented_assignments_of_every_operator():
    @T.prim_func
    def f(A: T.Tensor((10,), "int32")):
        with T.Kernel(1, threads=1):
            A[0] += 3
            A[1] -= 3
            A[2] *= 3
            A[3] //= 4
            A[4] %= 4
            A[5] &= 6
            A[6] |= 9
            A[7] ^= 5
            A[8] <<= 3
            A[9] >>= 2

    a = np.array([1, 2, 3, -13, -13, 13, 4, 6, 5, -9], I)
    want = np.array([4, -1, 9, -4, 3, 4, 13, 3, 40, -3], I)
    return f, [Out(want, a)]


@program()
def one_place_updated_twice_in_a_statement_sequence():
    @T.prim_func
    def f(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((64,), "float32")
            T.copy(A, x)
            for i in T.Parallel(64):
                x[i] = x[i] + 1
                y = x[i]
                x[i] = y * y
                z = x[i] - y
                B[i] = z + x[i] + y

    a = np.arange(64, dtype=F)
    y = a + 1
    return f, [a, Out((y * y - y) + y * y + y)]


@program()
def a_loop_that_never_runs_leaves_its_variable():
    @T.prim_func
    def f(n: T.int32, B: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            last = T.alloc_var("int32", 77)
            for i in T.serial(n):
                last = i
            B[0] = last
            for i in T.serial(5):
                last = i
            B[1] = last

    return f, [0, Out(np.array([77, 4], I))]


@program()
def a_variable_is_private_to_each_thread():
    @T.prim_func
    def f(B: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=32) as b:
            t = T.get_thread_binding()
            v = T.alloc_var("int32", b * 100)
            for i in T.serial(t + 1):
                v += i
            B[b * 32 + t] = v

    t = np.arange(32)
    one = t * (t + 1) // 2
    return f, [Out(np.concatenate([one, one + 100]).astype(I))]


@program()
def a_variable_allocated_in_a_loop_starts_anew():
    @T.prim_func
    def f(B: T.Tensor((5,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(5):
                v = T.alloc_var("int32", 10)
                for j in T.serial(i):
                    v += 1
                B[i] = v

    return f, [Out(np.arange(10, 15, dtype=I))]


@program()
def variables_cast_what_is_stored():
    @T.prim_func
    def f(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            k = T.alloc_var("int32", 2.9)
            h = T.alloc_var("float16", 0.0)
            for i in T.serial(4):
                h = A[i]
                k = A[i]
                B[i] = h
                C[i] = k

    a = np.array([1.0009, -2.7, 2.7, 1000.4], F)
    return f, [a, Out(a.astype(np.float16).astype(F)), Out(np.trunc(a).astype(I))]


@program()
def a_bound_value_of_a_bound_value_used_many_times():
    @T.prim_func
    def f(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            u = A[t]
            v = u * 3 + u
            w = v - u
            x = w * v + u
            B[t] = x + w + v + u
            A[t] = 0
            C[t] = x - w - v - u

    a = np.arange(64, dtype=I)
    v = 4 * a
    w = v - a
    x = w * v + a
    return f, [Out(a * 0, a), Out(x + w + v + a), Out(x - w - v - a)]
