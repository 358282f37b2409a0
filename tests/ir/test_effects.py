"""What statements and expressions read and write, for every class of statements and every row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tilelang.ir import expr as E, schedule as H, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.effects import Kind, accesses, pointers, used, written
from tilelang.ir.tables import portable
from tilelang.target.instruction_table import ROWS

I32, F32, HANDLE = DType("int32"), DType("float32"), DType("handle")
ZERO, ONE = E.const(0), E.const(1.0)
YES = E.const(True)


def buffer(name: str, scope: str = "global", rank: int = 1) -> Buffer:
    return Buffer(name, Shape((8,) * rank), F32, scope)


A, B, C = buffer("A"), buffer("B", "shared"), buffer("C", "local.fragment")
ACCUMULATOR = buffer("D", "shared.tmem")
X, Y, Z = (item.whole() for item in (A, B, C))
PROBE = buffer("probe")
READ_PROBE = E.Load(PROBE, (ZERO,))
VAR, OTHER = E.Var("i", I32), E.Var("j", I32)
PIPE = E.Var("pipe", I32)
EMPTY = S.Seq(stmts=())


def shown(node: S.Stmt | E.Expr, nested: bool = False) -> str:
    """Accesses as "A:read B:write/async"."""
    found = []
    for access in accesses(node, nested):
        kind = "" if access.kind is Kind.PLAIN else f"/{access.kind.name.lower()}"
        found.append(f"{access.buffer.name}:{access.mode}{kind}")
    return " ".join(found)


# One statement of each class, and its own accesses.
CASES: dict[type[S.Stmt], tuple[S.Stmt, str]] = {
    S.Seq: (EMPTY, ""),
    S.Let: (S.Let(var=VAR, value=ZERO), ""),
    S.Alloc: (S.Alloc(buffer=B), "B:name"),
    S.View: (S.View(buffer=B), "B:name"),
    S.Store: (S.Store(buffer=A, indices=(ZERO,), value=ONE), "A:write"),
    S.For: (S.For(var=VAR, start=ZERO, stop=ZERO, step=ZERO, body=EMPTY), ""),
    S.Parallel: (S.Parallel(vars=(VAR,), extents=(ZERO,), body=EMPTY), ""),
    S.While: (S.While(cond=YES, body=EMPTY), ""),
    S.If: (S.If(cond=YES, then=EMPTY), ""),
    S.Eval: (S.Eval(value=ZERO), ""),
    S.Assert: (S.Assert(cond=YES), ""),
    S.Break: (S.Break(), ""),
    S.Continue: (S.Continue(), ""),
    S.ThreadReturn: (S.ThreadReturn(), ""),
    S.Attr: (S.Attr(key="k", body=EMPTY), ""),
    S.Launch: (S.Launch(grid=(ZERO,), block_vars=(VAR,), thread_vars=(OTHER,), body=EMPTY), ""),
    S.Copy: (S.Copy(src=X, dst=Y), "A:read B:write"),
    S.Fill: (S.Fill(dst=Y, value=ONE), "B:write"),
    S.Gemm: (S.Gemm(a=X, b=Y, c=Z, clear=YES), "A:read B:read C:update"),
    S.Reduce: (S.Reduce(src=Y, dst=Z, kind="sum", dim=0), "B:read C:update"),
    S.Scan: (S.Scan(src=Y, dst=Z, kind="sum", dim=0), "B:read C:write"),
    S.ReducerInit: (S.ReducerInit(reducer=Z), "C:write"),
    S.ReducerUpdate: (
        S.ReducerUpdate(buffer=C, indices=(ZERO,), value=ONE, op="sum"),
        "C:update",
    ),
    S.ReducerFinalize: (S.ReducerFinalize(reducer=Z, dst=X, op="sum"), "C:update A:write"),
    S.AtomicTile: (S.AtomicTile(src=Z, dst=X, op="add"), "C:read A:update"),
    S.Transpose: (S.Transpose(src=X, dst=Y), "A:read B:write"),
    S.Gather: (
        S.Gather(src=X, dst=Y, vars=(), value=E.const(0, X.dtype)),
        "A:read B:write",
    ),
    S.Im2col: (
        S.Im2col(src=X, dst=Y, nhw_step=ZERO, c_step=ZERO, kernel=1, stride=1, dilation=1, pad=0),
        "A:read B:write",
    ),
    S.PrintTile: (S.PrintTile(src=Y), "B:read"),
    S.HardwareOp: (
        S.HardwareOp(name="x", needs="tcgen05", reads=(X, Y), writes=(ACCUMULATOR.whole(),)),
        "A:read B:read D:update/tensor",
    ),
    H.Pipeline: (
        H.Pipeline(pipe=PIPE, stages=2, tiles=(B.data,), mechanism="plain", body=EMPTY),
        "",
    ),
    H.Run: (H.Run(pipe=PIPE, first=VAR, count=ONE, body=EMPTY), ""),
    H.Acquire: (H.Acquire(pipe=PIPE, number=ZERO), ""),
    H.Commit: (H.Commit(pipe=PIPE, number=ZERO), ""),
    H.Wait: (H.Wait(pipe=PIPE, number=ZERO), ""),
    H.Release: (H.Release(pipe=PIPE, number=ZERO), ""),
    H.Role: (H.Role(name="producer", first=0, count=32, body=EMPTY), ""),
    H.Roles: (H.Roles(branches=(EMPTY,)), ""),
    H.Fence: (H.Fence(source="generic", target="async"), ""),
    H.WaitProducts: (H.WaitProducts(newer=1, sums=(Y,)), "B:update"),
}  # fmt: skip


def _classes(base: type[S.Stmt]) -> Iterator[type[S.Stmt]]:
    """The classes of statements of the IR that have no further ones below them."""
    below = [cls for cls in base.__subclasses__() if cls.__module__.startswith("tilelang.ir.")]
    for cls in below:
        yield from _classes(cls)
    if not below:
        yield base


@pytest.mark.parametrize("cls", CASES, ids=lambda cls: cls.__name__)
def test_accesses_of_a_thread_to_its_elements(cls: type[S.Stmt]) -> None:
    stmt, expected = CASES[cls]
    assert shown(stmt) == expected


def test_every_class_of_statements_has_a_case() -> None:
    assert set(CASES) == set(_classes(S.Stmt))


def _with_probe() -> Iterator[Any]:
    """Each statement with a load in each field that may hold an expression, and in regions."""
    for cls, (stmt, _) in CASES.items():
        for name, role in cls.role_table().items():
            value = getattr(stmt, name)
            if role == "expr":
                made: Any = READ_PROBE
            elif role == "exprs":
                made = (READ_PROBE,)
            elif isinstance(value, Region):
                made = Region(value.buffer, (READ_PROBE,), (1,))
            elif name in ("annotations", "options"):
                made = (("note", (1, READ_PROBE)),)
            elif role == "attr" and cls is S.Attr and name != "key":
                made = READ_PROBE
            else:
                continue
            yield pytest.param(replace(stmt, **{name: made}), id=f"{cls.__name__}.{name}")


@pytest.mark.parametrize("stmt", list(_with_probe()))
def test_expressions_of_every_field_are_evaluated(stmt: S.Stmt) -> None:
    assert "probe:read" in shown(stmt).split()


def _with_block() -> Iterator[Any]:
    inner = S.Store(buffer=PROBE, indices=(ZERO,), value=ONE)
    for cls, (stmt, _) in CASES.items():
        for name, role in cls.role_table().items():
            if role == "block":
                made = (inner,) if cls in (S.Seq, H.Roles) else inner
                yield pytest.param(replace(stmt, **{name: made}), id=f"{cls.__name__}.{name}")


@pytest.mark.parametrize("stmt", list(_with_block()))
def test_nested_statements_count_on_request(stmt: S.Stmt) -> None:
    assert "probe" not in shown(stmt)
    assert shown(stmt, nested=True).endswith("probe:write")


def test_names_of_storage_in_annotations_are_no_accesses() -> None:
    assert used(CASES[H.Pipeline][0]) == set()


def test_first_values_of_variables_are_writes() -> None:
    assert shown(S.Alloc(buffer=C, init=ONE)) == "C:write"


def test_asynchronous_operations() -> None:
    assert shown(S.Copy(src=X, dst=Y, mode="async")) == "A:read B:write/async"
    assert shown(S.Copy(src=X, dst=Y, mode="tma")) == "A:read/async B:write/async"
    late = S.Gemm(a=X, b=Y, c=Z, clear=YES, asynchronous=True)
    assert shown(late) == "A:read/async B:read/async C:update/async"


# -- rows ------------------------------------------------------------------------------------------
def _call(op: str, *args: E.Expr) -> E.Call:
    return E.Call(ROWS[op], args, HANDLE)


def _places(op: str, access: str) -> tuple[list[Buffer], E.Call]:
    """A call of ``op`` with an address for each operand that it may have, at most four."""
    row = ROWS[op]
    count = 4 if row.high < 0 else row.high
    buffers = [buffer(f"P{at}") for at in range(count)]
    return buffers, _call(op, *(E.AddressOf(item, (ZERO,), access) for item in buffers))


@pytest.mark.parametrize("op", [op for op, row in ROWS.items() if row.reads or row.writes])
def test_rows_that_declare_operands(op: str) -> None:
    """A row holds against what the pointer claims."""
    row = ROWS[op]
    for access in ("r", "w", "rw"):
        buffers, call = _places(op, access)
        claimed = {"r": "read", "w": "write", "rw": "update"}[access]
        said = {(True, False): "read", (False, True): "write", (True, True): "update"}
        modes = [
            said.get((at in row.reads, at in row.writes), claimed) for at in range(len(buffers))
        ]
        assert [access.mode for access in accesses(call)] == modes
        assert [access.buffer for access in accesses(call)] == buffers
        assert all(access.by is call for access in accesses(call))


@pytest.mark.parametrize(
    "op", [op for op, row in ROWS.items() if not (row.reads or row.writes) and row.high != 0]
)
def test_rows_that_declare_none(op: str) -> None:
    """What the pointer claims holds; one that claims nothing may do both."""
    row = ROWS[op]
    kind = Kind.NAMED if row.effect is Effect.NONE else Kind.POINTER
    kind = Kind.ASYNC if row.own_order else kind
    for access, mode in (("r", "read"), ("w", "write"), ("rw", "update"), ("3", "update")):
        buffers, call = _places(op, access)
        assert [(a.buffer, a.mode, a.kind) for a in accesses(call)] == [
            (item, mode, kind) for item in buffers
        ]


def test_elements_are_addresses_where_a_row_declares_them() -> None:
    element = E.Load(A, (READ_PROBE,))
    assert shown(_call("atomic_add", element, element)) == "probe:read A:update/pointer A:read"
    assert shown(_call("any_of", E.RegionArg(X))) == "A:read"
    assert shown(_call("print", E.RegionArg(X))) == "A:read"


def test_what_is_accessed() -> None:
    (access,) = accesses(_call("call_extern", E.AddressOf(A, (VAR,), "w", E.const(4))))
    assert isinstance(access.where, Region)
    assert access.region.extents == (4,) and access.indices == (VAR,)
    (access,) = accesses(_call("call_extern", E.AddressOf(A, (VAR,))))
    assert access.region.is_whole and access.indices == (VAR,)
    (access,) = accesses(E.Load(A, (VAR,)))
    assert access.region.mins == (VAR,) and access.region.extents == (1,)
    (access,) = accesses(S.Alloc(buffer=A))
    assert access.region.is_whole and access.indices == (ZERO,)


# -- calls of unknown functions --------------------------------------------------------------------
EXTERN = S.Eval(value=_call("call_extern", E.StringImm("f"), E.AddressOf(A, (ZERO,))))


def test_external_calls_read_and_write_what_they_get_the_address_of() -> None:
    assert shown(EXTERN) == "A:update/pointer"
    assert written(EXTERN) == used(EXTERN) == {A.data}
    assert written(S.For(var=VAR, start=ZERO, stop=ZERO, step=ZERO, body=EXTERN)) == {A.data}
    assert written(_call("call_extern", E.AddressOf(A, (ZERO,), "r"))) == set()
    assert used(_call("call_extern", E.AddressOf(A, (ZERO,), "r"))) == {A.data}


def test_addresses_that_get_names() -> None:
    pointer = E.Var("p", HANDLE)
    assert shown(S.Let(var=pointer, value=E.AddressOf(A, (ZERO,)))) == "A:update/named"
    assert shown(S.Let(var=pointer, value=E.AddressOf(A, (ZERO,), "r"))) == "A:read/named"
    assert shown(S.View(buffer=B, source=E.AddressOf(A, (ZERO,)))) == "A:update/named B:name"


def test_raw_pointers() -> None:
    def masked(mask: E.Expr) -> E.Call:
        return _call("tvm_access_ptr", A.data, ZERO, ZERO, mask)

    modes = [list(pointers(masked(E.const(mask)))) for mask in (1, 2, 3)]
    assert modes == [[(A.data, mode)] for mode in ("read", "write", "update")]
    assert written(masked(VAR)) == {A.data}
    assert written(_call("call_extern", A.data)) == {A.data}
    assert written(S.Let(var=E.Var("p", HANDLE), value=A.data)) == {A.data}
    assert list(pointers(_call("ldg", A.data))) == [(A.data, "read")]
    null = E.Call(portable("isnullptr"), (A.data,), DType("bool"))
    assert (written(null), used(null)) == (set(), {A.data})
    assert list(pointers(E.Load(A, (VAR,)))) == []


def test_effects_without_results_write_nothing() -> None:
    assert ROWS["create_tma_descriptor"].effect is Effect.NONE
    assert written(_call("create_tma_descriptor", A.data)) == set()
