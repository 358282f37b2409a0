"""Wrong programs: each ends in an error that names the line ending in ``# here``."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T

from .registry import refused

I = np.int32
F = np.float32
SM80 = "cuda -arch=sm_80"


def run(func, *arguments, **options):
    """Interpret a program whose mistake shows only when it runs."""
    tilelang.compile(func, target="cpu", execution_backend="interpret", **options)(*arguments)


@refused("shape")
def copies_of_different_shapes(A: T.Tensor((64, 32), "float32")):
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((32, 64), "float32")
        T.copy(A, s)  # here


@refused("expected: 2")
def too_few_indices(A: T.Tensor((8, 8), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = 1.0  # here


@refused("indices")
def too_many_indices(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        x = A[0, 1]  # here


@refused("list")
def a_loop_over_a_list(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in [1, 2]:  # here
            A[i] = 0


@refused("2 names")
def as_many_names_as_extents(A: T.Tensor((8, 8), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8, 8):  # here
            A[0, 0] = 1


@refused("//")
def a_quotient_of_integers(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = A[i] / 2  # here


@refused("float")
def a_shift_of_a_float(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = A[i] << 2  # here


@refused("float")
def bits_of_a_float(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = A[i] & 3  # here


@refused("T.min")
def the_minimum_of_python(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = min(A[i], 3.0)  # here


@refused("inner")
def a_product_of_unequal_inner_extents(C: T.Tensor((32, 32), "float32")):
    with T.Kernel(1, threads=64):
        a = T.alloc_shared((32, 16), "float16")
        b = T.alloc_shared((32, 32), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        T.gemm(a, b, c)  # here


@refused("C")
def a_product_into_a_wrong_shape(C: T.Tensor((32, 32), "float32")):
    with T.Kernel(1, threads=64):
        a = T.alloc_shared((32, 16), "float16")
        b = T.alloc_shared((16, 32), "float16")
        c = T.alloc_fragment((16, 32), "float32")
        T.gemm(a, b, c)  # here


@refused("float16", "int8")
def a_product_of_different_types(C: T.Tensor((32, 32), "float32")):
    with T.Kernel(1, threads=64):
        a = T.alloc_shared((32, 16), "float16")
        b = T.alloc_shared((16, 32), "int8")
        c = T.alloc_fragment((32, 32), "float32")
        T.gemm(a, b, c)  # here


@refused("shape")
def a_reduction_into_a_wrong_shape(A: T.Tensor((8, 16), "float32")):
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((8, 16), "float32")
        r = T.alloc_fragment((16,), "float32")
        T.copy(A, x)
        T.reduce_sum(x, r, dim=1)  # here


@refused("dim")
def a_reduction_of_a_dimension_that_is_not_there(A: T.Tensor((8, 16), "float32")):
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((8, 16), "float32")
        r = T.alloc_fragment((8,), "float32")
        T.copy(A, x)
        T.reduce_sum(x, r, dim=2)  # here


@refused("integer")
def bits_of_floats_reduced(A: T.Tensor((8, 16), "float32")):
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((8, 16), "float32")
        r = T.alloc_fragment((8,), "float32")
        T.copy(A, x)
        T.reduce_bitor(x, r, dim=1)  # here


@refused("shape")
def a_scan_into_another_shape(A: T.Tensor((8, 16), "float32")):
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((8, 16), "float32")
        y = T.alloc_fragment((16, 8), "float32")
        T.copy(A, x)
        T.cumsum(x, y, dim=1)  # here


@refused("bits")
def a_view_of_another_size(A: T.Tensor((8, 16), "float32")):
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((8, 16), "float32")
        v = T.view(s, (8, 16), "float16")  # here


@refused("127")
def a_view_of_another_number_of_elements(A: T.Tensor((8, 16), "float32")):
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((8, 16), "float32")
        v = T.reshape(s, (127,))  # here


@refused("annotated", "n")
def a_parameter_without_annotation(A: T.Tensor((8,), "float32"), n):  # here
    with T.Kernel(1, threads=32):
        A[0] = n


@refused("float37")
def a_type_that_does_not_exist(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((8,), "float37")  # here


@refused("while")
def a_condition_that_is_always_true(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        while True:  # here
            A[0] = 1


@refused("step")
def a_loop_with_step_zero(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.serial(0, 8, 0):  # here
            A[i] = 1


@refused("slice")
def a_slice_with_a_step(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((4,), "float32")
        T.copy(A[0:8:2], x)  # here


@refused("threads")
def a_negative_number_of_threads(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=-32):  # here
        A[0] = 1


@refused("1024")
def more_threads_than_a_block_has():
    @T.prim_func
    def f(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=2048):  # here
            A[0] = 1

    tilelang.compile(f, target=SM80).get_kernel_source()


@refused("shared memory")
def more_shared_memory_than_there_is():
    @T.prim_func
    def f(A: T.Tensor((512, 512), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((512, 512), "float32")  # here
            T.copy(A, s)
            for i, j in T.Parallel(512, 512):
                A[i, j] = s[j, i]

    tilelang.compile(f, target=SM80).get_kernel_source()


@refused("s[8]")
def an_index_outside_of_a_tile():
    @T.prim_func
    def f(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8,), "float32")
            T.clear(s)
            A[0] = s[8]  # here

    run(f, np.zeros(8, F))


@refused("x")
def a_tile_read_before_it_is_written():
    @T.prim_func
    def f(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8,), "float32")
            for i in T.Parallel(8):
                x[i] += A[i]  # here
            T.copy(x, A)

    run(f, np.zeros(8, F))


@refused("wait")
def a_barrier_that_never_completes():
    @T.prim_func
    def f(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=64):
            b = T.alloc_barrier(64)
            if T.get_thread_binding() < 32:
                T.barrier_arrive(b)
            T.barrier_wait(b, 0)  # here

    run(f, np.zeros(8, F))


@refused("too large")
def an_assertion_of_the_program():
    @T.prim_func
    def f(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.device_assert(A[0] < 1, "too large")  # here
            A[1] = 2

    run(f, np.full(8, 5, F))


@refused("loop")
def a_break_outside_of_a_loop_of_the_program(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            T.loop_break()  # here


@refused("missing")
def a_name_that_does_not_exist(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        A[0] = missing + 1  # here


@refused("x")
def a_name_used_after_its_loop(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.serial(8):
            x = A[i] * 2
        A[0] = x  # here


@refused("alloc_fragmnt")
def a_word_that_does_not_exist(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        x = T.alloc_fragmnt((8,), "float32")  # here


@refused("constant")
def a_tile_with_an_extent_of_the_run():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((n,), "float32")  # here


@refused("order")
def a_memory_order_that_does_not_exist(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=32):
        T.atomic_add(A[0], 1, memory_order="sometime")  # here


@refused("previous")
def the_old_value_of_a_tile(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((8,), "int32")
        T.copy(A, x)
        y = T.atomic_add(B, x, return_prev=True)  # here


@refused("condition")
def a_condition_that_is_a_buffer(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        if A:  # here
            A[0] = 1


@refused("float8_e4m3fn", "float8_e5m2")
def a_sum_of_two_kinds_of_float8(
    A: T.Tensor((8,), "float8_e4m3fn"),
    B: T.Tensor((8,), "float8_e5m2"),
    C: T.Tensor((8,), "float32"),
):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            C[i] = A[i] + B[i]  # here


@refused("1000", "int8")
def a_variable_started_with_a_number_that_does_not_fit(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=32):
        v = T.alloc_var("int8", 1000)  # here
        A[0] = v


@refused("op")
def a_reducer_of_an_unknown_operation(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        r = T.alloc_reducer((8,), "float32", op="median")  # here


@refused("macro")
def a_macro_as_an_operand_of_and():
    @T.macro
    def m(x):
        return x > 0

    @T.prim_func
    def f(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            if A[0] > 1 and m(A[1]):  # here
                A[2] = 1


@refused("T.Ref")
def a_value_where_a_place_is_asked_for():
    @T.macro
    def m(x: T.Ref):
        x = 1

    @T.prim_func
    def f(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            m(A[0] + 1)  # here


@refused("order")
def an_unknown_order_of_blocks(A: T.Tensor((8,), "float32")):
    with T.Kernel(4, 4, threads=32):
        T.use_swizzle(2, order="diagonal")  # here
        A[0] = 1


@refused("try")
def a_statement_that_kernels_do_not_have(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        try:  # here
            A[0] = 1
        except ValueError:
            pass


@refused("T.atomic_add", "int16")
def an_atomic_on_16_bit_integers(B: T.Tensor((3,), "int16")):
    with T.Kernel(1, threads=32):
        T.atomic_add(B[0], 1)  # here


@refused("integer", "bool")
def bits_of_booleans_reduced(A: T.Tensor((8, 16), "bool")):
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((8, 16), "bool")
        r = T.alloc_fragment((8,), "bool")
        T.copy(A, x)
        T.reduce_bitand(x, r, dim=1)  # here


@refused("`r`", "finalize_reducer")
def a_reducer_read_before_it_is_final():
    @T.prim_func
    def f(A: T.Tensor((64,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=64):
            r = T.alloc_reducer((1,), "float32", op="sum")
            T.clear(r)
            for i in T.Parallel(64):
                r[0] += A[i]
            T.copy(r, B)  # here
            T.finalize_reducer(r)

    tilelang.compile(f, target=SM80).get_kernel_source()


@refused("s", "append")
def a_list_that_a_branch_of_the_device_extends(A: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        s = []
        if A[0] > 0:
            s.append(1)  # here
        A[1] = len(s)


@refused("300", "int8")
def a_constant_that_does_not_fit(A: T.Tensor((8,), "int8")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = 300  # here
