"""Values that threads bind: each is computed where it is bound, once, after what it is made of."""

from __future__ import annotations

import numpy as np
from tensor_types import I32

import tilelang.language as T

from .modes import holds

COUNT = 64
BACK = COUNT - 1
NUMBERS = np.arange(COUNT, dtype=np.int32) * 3 % 17
NOTHING = np.zeros(COUNT, np.int32)


def test_let_of_let_used_twice_is_computed_after_its_source() -> None:
    @T.prim_func
    def kernel(A: I32[COUNT], B: I32[COUNT], C: I32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            w = A[tx]
            e = w + 5
            B[tx] = e
            C[tx] = e * 2

    holds(kernel, [NUMBERS, NOTHING, NOTHING], [NUMBERS + 5, (NUMBERS + 5) * 2])


def test_chains_of_values_keep_their_order() -> None:
    @T.prim_func
    def kernel(A: I32[COUNT], B: I32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            i = tx ^ 1
            a = A[i]
            b = a * i
            c = b + A[b % COUNT]
            d = c - a + i
            B[tx] = d * c + b

    i = np.arange(COUNT) ^ 1
    b = NUMBERS[i] * i
    c = b + NUMBERS[b % COUNT]
    holds(kernel, [NUMBERS, NOTHING], [(c - NUMBERS[i] + i) * c + b])


def test_a_bound_value_keeps_the_loaded_element() -> None:
    @T.prim_func
    def kernel(A: I32[COUNT], B: I32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            s[tx] = A[tx]
            old = s[tx]
            twice = old * 2
            s[tx] = twice + 1
            new = s[tx]
            more = new + twice
            s[tx] = more
            B[tx] = s[tx] * 1000 + more + old + new

    old, new = NUMBERS, NUMBERS * 2 + 1
    more = new + old * 2
    holds(kernel, [NUMBERS, NOTHING], [more * 1000 + more + old + new])


def test_values_across_barriers_are_kept_for_each_thread() -> None:
    @T.prim_func
    def kernel(A: I32[COUNT], B: I32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            mine = A[tx]
            part = mine + tx
            s[tx] = part
            T.sync_threads()
            other = s[BACK - tx]
            both = other * 3 + part
            T.sync_threads()
            s[tx] = both
            T.sync_threads()
            B[tx] = s[(tx + 1) % COUNT] + both * mine + part + other

    tx = np.arange(COUNT)
    part = NUMBERS + tx
    both = part[::-1] * 3 + part
    wanted = np.roll(both, -1) + both * NUMBERS + part + part[::-1]
    holds(kernel, [NUMBERS, NOTHING], [wanted])


def test_values_in_loops_and_branches_are_those_of_the_iteration() -> None:
    @T.prim_func
    def kernel(A: I32[COUNT], B: I32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            s[tx] = A[tx]
            base = A[tx] % 5
            for k in T.serial(4):
                near = s[(tx + k) % COUNT]
                w = near * 2
                if w > 8:
                    e = w - near + base
                    s[tx] = e
                    B[tx] += e * k + w
                else:
                    e = w + k
                    B[tx] += e + e * base
                T.sync_threads()

    s, out = NUMBERS.copy(), NOTHING.copy()
    base, tx = NUMBERS % 5, np.arange(COUNT)
    for k in range(4):
        near = s[(tx + k) % COUNT]
        w = near * 2
        taken = w > 8
        s = np.where(taken, w - near + base, s)
        out += np.where(taken, (w - near + base) * k + w, (w + k) * (1 + base))
    holds(kernel, [NUMBERS, NOTHING], [out], ("interpret", "cpu"))


def test_a_value_of_a_uniform_value_and_of_one_of_each_thread() -> None:
    @T.prim_func
    def kernel(A: I32[COUNT], B: I32[COUNT], C: I32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            v = A[tx]
            u = A[7]
            m = u + v
            C[tx] = m
            n = m * u - tx
            B[7] = u
            C[tx] = C[tx] + n + m

    m = NUMBERS[7] + NUMBERS
    first = NOTHING.copy()
    first[7] = NUMBERS[7]
    tx = np.arange(COUNT)
    holds(kernel, [NUMBERS, NOTHING, NOTHING], [first, m + m * NUMBERS[7] - tx + m])
