"""Expressions are interned; rewriting keeps what it does not change; statements declare roles."""

from __future__ import annotations

import gc
import math
import struct
import threading

import pytest
from refusals import refusal

from tilelang.errors import InternalError, TileIndexError, TileTypeError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.tables import portable
from tilelang.ir.visitor import Rewriter, postorder, rebuild, substitute
from tilelang.records import dataclass

I32, F32 = DType("int32"), DType("float32")
A, B = E.Var("a", I32), E.Var("b", I32)
BUF = Buffer("buf", Shape((4, 8)), F32)


# -- interning ------------------------------------------------------------------------------------
def test_equal_expressions_are_the_same_object() -> None:
    assert A + B * 2 is A + B * 2
    assert E.Load(BUF, (A, B)) is E.Load(BUF, (A, B))
    assert E.const(1) is E.const(1)
    assert E.call("exp", A + B) is E.call("exp", A + B)


def test_variables_are_identities() -> None:
    assert E.Var("a", I32) is not A
    assert E.Var("a", I32) + 1 is not A + 1


def test_constants_differ_by_dtype_bits_and_kind() -> None:
    assert E.const(1) is not E.const(1, "int64")
    assert E.const(1) is not E.const(True)
    assert E.const(0.0) is not E.const(-0.0)
    assert math.copysign(1, float(E.const(-0.0))) == -1
    assert E.const(math.nan) is E.const(math.nan)
    other = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
    assert E.Const(other, DType("float64")) is not E.Const(math.nan, DType("float64"))


def test_attributes_are_part_of_a_call() -> None:
    make = [
        E.Call(portable("exp"), (A,), F32, attrs)
        for attrs in ((), (("fast", True),), (("fast", 1),))
    ]
    assert len(set(map(id, make))) == 3


def test_interned_nodes_are_freed() -> None:
    nodes = [E.Var("v", I32) + number for number in range(2, 100)]
    ids = set(map(id, nodes))
    keys = [key for key, entry in E.Expr._table.items() if id(entry()) in ids]
    assert len(keys) == len(nodes)
    del nodes
    gc.collect()
    assert not any(key in E.Expr._table for key in keys)


def test_interning_is_safe_between_threads() -> None:
    found: list[list[E.Expr]] = []

    def work() -> None:
        found.append([A * number + B for number in range(2, 300)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(x is y for other in found[1:] for x, y in zip(found[0], other, strict=True))


def test_an_expression_has_no_python_value() -> None:
    for use in (bool, int, float, list, range):
        with pytest.raises(TileTypeError):
            use(A)
    assert E.const(3).__index__() == 3 and bool(E.const(0)) is False


# -- buffers -------------------------------------------------------------------------------------
def test_shapes_equal_lists_and_tuples_of_the_same_extents() -> None:
    assert BUF.shape == [4, 8] and BUF.shape == (4, 8) and BUF.shape != [4]
    assert Shape((A, 8)) == [A, 8] and Shape((A, 8)) != [B, 8]
    assert Shape((E.const(4),))[0] == 4 and isinstance(Shape((E.const(4),))[0], int)


def test_indexing_gives_elements_regions_and_errors() -> None:
    assert isinstance(BUF[A, 1], E.Load)
    region = BUF[A, 2:6]
    assert isinstance(region, Region) and region.extents == (1, 4)
    assert repr(BUF[-1, 0]) == "buf[3, 0]"
    with pytest.raises(TileIndexError) as caught:
        BUF[A]
    assert str(caught.value) == (
        "too few indices for `buf`\n  expected: 2 indices, for its shape (4, 8)\n"
        f"  got: 1, buf[{A!r}]\n  hint: an element is buf[i, j]; for a tile operand write slices "
        "for the other dimensions, buf[i, :]"
    )


# -- rewriting ------------------------------------------------------------------------------------
def test_rebuilding_without_change_gives_the_same_object() -> None:
    for node in postorder(E.select(A < B, E.Load(BUF, (A, B)), 1.0) + E.cast(A, F32)):
        assert rebuild(node, lambda child: child) is node


def test_substitution_replaces_all_at_once_and_keeps_the_rest() -> None:
    assert repr(substitute(A + B, {A: B, B: A})) == "b + a"
    untouched = E.Load(BUF, (B, B))
    assert substitute(untouched, {A: B}) is untouched
    assert substitute(A * 2 + untouched.indices[0], {A: E.const(3)}).dtype == "int32"
    deep: E.Expr = A
    for _ in range(5000):
        deep = E.Binary("add", deep, B)
    assert substitute(deep, {B: A}) is not deep


def test_children_come_before_parents_and_once() -> None:
    shared = A + B
    order = list(postorder(shared * shared))
    assert [repr(node) for node in order] == ["a", "b", "a + b", "(a + b) * (a + b)"]


def program() -> S.Stmt:
    i = E.Var("i", I32)
    store = S.Store(buffer=BUF, indices=(i, E.const(0)), value=E.const(0.0))
    loop = S.For(var=i, start=E.const(0), stop=A, step=E.const(1), body=store)
    fill = S.Fill(dst=Region(BUF, (A, E.const(0)), (1, 8)), value=E.const(1.0))
    return S.Seq(stmts=(loop, S.If(cond=A < B, then=fill)))


def test_a_rewriter_that_changes_nothing_gives_the_same_object() -> None:
    tree = program()
    assert Rewriter().rewrite(tree) is tree


def test_a_rewriter_rebuilds_only_changed_paths() -> None:
    class Swap(Rewriter):
        def expr(self, expr: E.Expr) -> E.Expr:
            return substitute(expr, {B: A})

    tree = program()
    assert isinstance(tree, S.Seq)
    done = Swap().rewrite(tree)
    assert isinstance(done, S.Seq)
    assert done.stmts[0] is tree.stmts[0] and done.stmts[1] is not tree.stmts[1]
    assert list(done.stmts[1].blocks()) == list(tree.stmts[1].blocks())


# -- statements ----------------------------------------------------------------------------------
def test_effects_derive_from_the_roles_of_fields() -> None:
    whole = BUF.whole()
    gemm = S.Gemm(a=whole, b=whole, c=whole, clear=E.const(False))
    assert list(gemm.regions_read()) == [whole, whole, whole]
    assert list(gemm.regions_written()) == [whole]
    copy = S.Copy(src=Region(BUF, (A, B), (1, 1)), dst=whole)
    assert [item for item in copy.exprs() if isinstance(item, E.Var)] == [A, B]


def test_variables_that_statements_bind_are_those_of_all_in_them() -> None:
    inner = S.Let(var=B, value=E.const(1))
    loop = S.counted(A, 4, S.seq(inner, S.do("sync_threads")))
    assert S.bound(loop) == {A, B} and S.bound(inner) == {B}


def test_a_field_without_a_role_is_an_error() -> None:
    @dataclass(frozen=True, eq=False, kw_only=True, repr=False)
    class Untagged(S.Stmt):
        what: int = 0

    assert refusal(InternalError, Untagged.role_table) == "untagged fields of Untagged: what"


def test_every_statement_class_of_the_ir_is_tagged() -> None:
    def below(cls: type[S.Stmt]) -> list[type[S.Stmt]]:
        return [cls, *(item for sub in cls.__subclasses__() for item in below(sub))]

    checked = [cls for cls in below(S.Stmt) if cls.__module__ == S.__name__]
    assert len(checked) > 25
    for cls in checked:
        assert "loc" not in cls.role_table()
