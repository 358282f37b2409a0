"""Which values differ between the threads of a block."""

from __future__ import annotations

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.ir.uniform import Varying, has_divergent_exit


def analysed(func: S.PrimFunc, broadcasts: bool = False) -> tuple[Varying, dict[str, bool]]:
    """The analysis of the only launch, and which names (lets and allocated buffers) differ."""
    (launch,) = (node for node in S.walk(func.body) if isinstance(node, S.Launch))
    varying = Varying(launch, broadcasts=broadcasts)
    found = {}
    for node in S.walk(launch.body):
        if isinstance(node, S.Let):
            found[node.var.name] = node.var in varying.names
        elif isinstance(node, S.Alloc):
            found[node.buffer.name] = node.buffer.data in varying.names
        elif isinstance(node, S.For):
            found[node.var.name] = node.var in varying.names
    return varying, found


def test_names_differ_by_what_is_bound_to_them() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(4, threads=32) as bx:
            mine = T.get_thread_binding() * 2
            next_one = mine + 1
            block = bx * 2 + n
            loaded = A[block]
            own = A[next_one]
            A[0] = loaded + own
            count = T.alloc_var("int32", 0)
            steady = T.alloc_var("int32", 0)
            for k in T.serial(T.get_thread_binding()):
                count = count + 1
            for m in T.serial(n):
                steady = steady + 1

    assert analysed(kernel)[1] == {
        "mine": True, "next_one": True, "block": False, "loaded": False, "own": True,
        "count": True, "steady": False, "k": True, "m": False,
    }  # fmt: skip


def test_private_storage_differs_by_what_is_written_to_it() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int8"), n: T.int32):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            by_value = T.alloc_local((4,), "int32")
            by_index = T.alloc_local((4,), "int32")
            by_condition = T.alloc_local((4,), "int32")
            same = T.alloc_local((4,), "int32")
            shared = T.alloc_shared((32,), "int32")
            by_value[0] = tx
            by_index[tx % 4] = n
            if tx < 4:
                by_condition[0] = n
            if n < 4:
                same[0] = n
            shared[tx] = tx
            early = T.alloc_local((1,), "int32")
            late = T.alloc_local((1,), "int32")
            for k in T.serial(4):
                early[0] = late[0] + 1
                late[0] = tx
            outer = T.alloc_local((1,), "int32")
            for i in T.Parallel(64):
                inner = T.alloc_local((1,), "int32")
                outer[0] = 1
                inner[0] = i
            by_operand = T.alloc_local((1,), "int32")
            by_branch = T.alloc_local((1,), "int32")
            by_extern = T.alloc_local((1,), "int32")
            steady = T.alloc_local((1,), "int32")
            T.dp4a(A[tx], A[0], by_operand[0])
            if tx < 4:
                T.dp4a(A[0], A[4], by_branch[0])
            T.call_extern("void", "set", T.address_of(by_extern[0]), tx)
            T.dp4a(A[0], A[4], steady[0])

    found = analysed(kernel)[1]
    assert {name for name, differs in found.items() if not differs} == {
        "same", "shared", "k", "inner", "steady",
    }  # fmt: skip
    assert len(found) == 14


def test_a_view_differs_with_its_storage_and_atomics_are_effects_of_every_thread() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((4,), "int32")
            other = T.view(own, (2, 2))
            own[0] = T.get_thread_binding()
            A[0] = other[0, 0]
            T.atomic_add(A[0], 1)
            A[1] = A[2]

    varying, _ = analysed(kernel)
    first, second = (s for s in S.find(kernel.body, S.Store) if s.buffer.storage == "global")
    assert varying.varies(first.value)
    assert varying.touches(first) and not varying.touches(second)
    (atomic,) = S.find(kernel.body, S.Eval)
    assert varying.has_effect(atomic.value) and not varying.has_effect(second.value)


def test_divergent_exits_exclude_those_of_inner_loops() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                if T.get_thread_binding() < 3:
                    T.loop_break()
            for j in T.serial(4):
                if n < 3:
                    break
            for k in T.serial(4):
                for m in T.serial(4):
                    if T.get_thread_binding() < 3:
                        break

    varying, _ = analysed(kernel)
    loops = {n.var.name: n for n in S.walk(kernel.body) if isinstance(n, S.For)}
    found = {name: has_divergent_exit(loop.body, varying) for name, loop in loops.items()}
    assert found == {"i": True, "j": False, "k": False, "m": True}


def test_broadcast_values_may_count_as_uniform() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=64):
            tx = T.get_thread_binding()
            first = T.shfl_sync(A[tx], 0)
            greatest = T.warp_reduce_max(A[tx])
            later = first + tx
            kept = T.alloc_var("int32")
            kept = greatest
            A[0] = first + greatest + later + kept

    differs = dict.fromkeys(("first", "greatest", "later", "kept"), True)
    assert analysed(kernel)[1] == differs
    same = dict.fromkeys(("first", "greatest", "kept"), False)
    assert analysed(kernel, broadcasts=True)[1] == {**differs, **same}
