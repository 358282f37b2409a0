"""Side effects: what statements and expressions read and write, for every analysis.

It follows from the tags of the fields of statements and from the rows of intrinsics. An operand
that a row declares is read or written as the row says, regardless of the pointer. For a
pointer given to anything else (an external function, an intrinsic of the hardware) the program's
own declaration holds, and a pointer without one may do both. A pointer that gets a name, or is
computed with, may be used at any later time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields
from enum import Enum
from functools import cache, lru_cache
from itertools import chain
from typing import TypeAlias

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Region, as_extent
from tilelang.ir.hints import Hints
from tilelang.ir.tables import UNKNOWN_POINTER
from tilelang.records import dataclass

READ, WRITE, UPDATE, NAME = "read", "write", "update", "name"
REFERENCES = (E.Load, E.AddressOf, E.RegionArg)  # expressions that name memory
_DECLARED = {"r": READ, "w": WRITE}  # access of a pointer; anything else may do both
_BY_ROLE = {"read": READ, "write": WRITE, "update": UPDATE}
_MASKS = {1: READ, 2: WRITE}  # of `UNKNOWN_POINTER`
_QUIET = (Effect.NONE, Effect.HINT)

Where: TypeAlias = "tuple[E.Expr, ...] | Region | None"


class Kind(Enum):
    """By which proxy, and when, memory is accessed."""

    PLAIN = 0  # by the executing threads, finished with the statement
    POINTER = 1  # a call does it through an address: from ``where`` on, of unknown size
    NAMED = 2  # the address gets a name or is computed with: accesses may follow later
    ASYNC = 3  # by the async proxy (TMA, tensor core); something waits for it
    TENSOR = 4  # in tensor memory, by its own instructions


@dataclass(frozen=True, eq=False)
class Access:
    """One access of ``buffer``.

    ``where``: the indices of an element (of the first one for pointers), a region, or None for all
    of it. ``mode``: "read", "write", "update" (both), or "name" (allocated or viewed here). ``by``:
    the statement, or the load, call or address in it. ``proxy``: "generic" for accesses by
    threads, "async" for those by TMA and tensor cores, which need a proxy fence (PTX,
    "Proxies").
    """

    buffer: Buffer
    where: Where
    mode: str
    kind: Kind
    by: S.Stmt | E.Expr
    proxy: str = "generic"

    @property
    def data(self) -> E.Var:
        """The storage; views of one storage are one."""
        return self.buffer.data

    @property
    def reads(self) -> bool:
        """Whether old contents may matter."""
        return self.mode in (READ, UPDATE)

    @property
    def writes(self) -> bool:
        """Whether contents may change."""
        return self.mode in (WRITE, UPDATE)

    @property
    def indices(self) -> tuple[E.Expr, ...]:
        """Indices of the first element."""
        if isinstance(self.where, Region):
            return self.where.mins
        return (E.const(0),) * self.buffer.ndim if self.where is None else self.where

    @property
    def region(self) -> Region:
        """The accessed region, as far as it is known; all of the memory behind a pointer."""
        if isinstance(self.where, Region):
            return self.where
        if self.where is None or self.kind is not Kind.PLAIN:
            return self.buffer.whole()
        return Region(self.buffer, self.where, (1,) * len(self.where))


def accesses(node: S.Stmt | E.Expr, nested: bool = False) -> Iterator[Access]:
    """The accesses of an expression, or of a statement itself (with ``nested``: of everything in
    it, in program order): first those of its expressions, then its own."""
    if isinstance(node, E.Expr):
        return iter(_in_expr(node))
    if not nested:
        return iter(_stmt_accesses(node))
    return chain.from_iterable(map(_stmt_accesses, S.walk(node)))


@lru_cache(maxsize=1024)  # several passes ask, and most statements outlive a pass
def _stmt_accesses(stmt: S.Stmt) -> tuple[Access, ...]:
    return (*chain.from_iterable(map(_in_expr, expressions(stmt))), *own(stmt))


def own(stmt: S.Stmt) -> Iterator[Access]:
    """The accesses of the fields of ``stmt`` itself, without those of its expressions."""
    for name, mode in _tagged(type(stmt)):  # type: ignore[arg-type]  # classes hash
        value = getattr(stmt, name)
        for operand in value if isinstance(value, tuple) else (value,):
            if isinstance(operand, Region):
                kind, proxy = _kind_of(stmt, mode, operand.buffer), _proxy(stmt, name)
                yield Access(operand.buffer, operand, mode, kind, stmt, proxy)
            elif isinstance(operand, Buffer):
                first = isinstance(stmt, S.Alloc) and stmt.init is not None
                where = getattr(stmt, "indices", None)
                yield Access(
                    operand, where, WRITE if first else mode, _kind_of(stmt, mode, operand), stmt
                )


def expressions(stmt: S.Stmt) -> list[E.Expr]:
    """The expressions that ``stmt`` itself evaluates, those of its hints included (there, a
    storage is only a name)."""
    exprs = stmt.exprs()
    for value in stmt.parts("attr"):
        value = value.stated if isinstance(value, Hints) else value
        if isinstance(value, (E.Expr, tuple)):
            exprs += [expr for expr in E.exprs_in(value) if not expr.dtype.is_handle]
    return exprs


# -- storage --
def written(node: S.Stmt | E.Expr, nested: bool = True) -> set[E.Var]:
    """The storage that ``node`` may write, through raw pointers too."""
    accessed = {access.data for access in accesses(node, nested) if access.writes}
    accessed.update(var for var, mode in pointers(node, nested) if mode in (WRITE, UPDATE))
    return accessed


def used(node: S.Stmt | E.Expr, nested: bool = True) -> set[E.Var]:
    """The storage that ``node`` names in any way, by raw pointers too."""
    accessed = {access.data for access in accesses(node, nested)}
    accessed.update(var for var, _ in pointers(node, nested))
    return accessed


def pointers(node: S.Stmt | E.Expr, nested: bool = False) -> Iterator[tuple[E.Var, str]]:
    """Raw pointers (``A.data``, parameters that are handles), and what is done through them."""
    if isinstance(node, E.Expr):
        return _raw(node)
    if not nested:
        return iter(_raw_of_stmt(node))
    return chain.from_iterable(map(_raw_of_stmt, S.walk(node)))


@lru_cache(maxsize=1024)
def _raw_of_stmt(stmt: S.Stmt) -> tuple[tuple[E.Var, str], ...]:
    return tuple(chain.from_iterable(map(_raw, expressions(stmt))))


def _raw(expr: E.Expr) -> Iterator[tuple[E.Var, str]]:
    if not any(var.dtype.is_handle for var in expr.variables):
        return
    for node in E.walk(expr):
        if isinstance(node, E.Call):
            declared = dict(operands(node))
            for at, arg in enumerate(node.args):
                if isinstance(arg, E.Var) and arg.dtype.is_handle:
                    yield arg, declared.get(at) or _pointer_effect(node)
        elif not isinstance(node, REFERENCES):
            for child in node.children():
                if isinstance(child, E.Var) and child.dtype.is_handle:
                    yield child, UPDATE
    if isinstance(expr, E.Var):
        yield expr, UPDATE


def _pointer_effect(call: E.Call) -> str:
    """The effect of ``call`` through a raw pointer of which its row says nothing."""
    if call.atom is UNKNOWN_POINTER:
        mask = call.args[3]
        return _MASKS.get(int(mask.value), UPDATE) if isinstance(mask, E.Const) else UPDATE
    return NAME if call.atom.effect in _QUIET else UPDATE


def is_steady(
    expr: E.Expr, overwritten: Collection[E.Var], private: Collection[E.Var] = ()
) -> bool:
    """Whether every thread sees one value of ``expr`` whenever it reaches it: it reads elements of
    global memory and ``private`` storage only, none of them ``overwritten``, and does nothing."""
    if any(call.atom.effect is not Effect.NONE for call in E.find(expr, E.Call)):
        return False
    return all(
        isinstance(access.by, E.Load)
        and (access.data in private or access.buffer.storage == "global")
        and access.data not in overwritten
        for access in accesses(expr)
    )


# -- what rows and tags say --
def operands(call: E.Call) -> Iterator[tuple[int, str]]:
    """(position, mode) of the operands of ``call`` whose memory its row declares."""
    row = call.atom
    for at in range(len(call.args)):
        if at in row.writes:
            yield at, UPDATE if at in row.reads else WRITE
        elif at in row.reads:
            yield at, READ


@cache
def _tagged(cls: type[S.Stmt]) -> tuple[tuple[str, str], ...]:
    """(field, mode) of the fields that are memory: reads before writes."""
    modes = {
        spec.name: spec.metadata.get("mode") or _BY_ROLE.get(spec.metadata["role"])
        for spec in fields(cls)
    }
    tagged = [(name, mode) for name, mode in modes.items() if mode is not None]
    return tuple(sorted(tagged, key=lambda pair: pair[1] != READ))


def _kind_of(node: S.Stmt | E.Call, mode: str, buffer: Buffer) -> Kind:
    if buffer.storage == "shared.tmem":
        return Kind.TENSOR
    if isinstance(node, E.Call):
        row = node.atom
        if row.own_order:
            return Kind.ASYNC
        return Kind.NAMED if row.effect is Effect.NONE else Kind.POINTER  # computed with
    late = uses_tma(node) or (isinstance(node, S.COPIES) and node.mode == "async" and mode == WRITE)
    return Kind.ASYNC if late or getattr(node, "asynchronous", False) else Kind.PLAIN


def uses_tma(stmt: S.Stmt) -> bool:
    """Whether TMA moves a tile there, or is going to."""
    if isinstance(stmt, (S.AtomicTile, S.Im2col)) and stmt.hints.complete:
        return True
    return isinstance(stmt, S.COPIES) and stmt.mode in ("tma", "cluster")


def _proxy(stmt: S.Stmt, field: str) -> str:
    """How the field ``field`` of a tile operation is accessed."""
    if isinstance(stmt, S.Gemm) and stmt.plan is not None:
        return str(stmt.plan.proxy(field))
    return "async" if uses_tma(stmt) else "generic"


# -- expressions --
def _in_expr(expr: E.Expr) -> list[Access]:
    accesses_in: list[Access] = []
    if E.holds(expr, *REFERENCES):
        _visit(expr, set(), accesses_in)
    return accesses_in


def _visit(node: E.Expr, seen: set[E.Expr], accesses_in: list[Access]) -> None:
    """Enter the accesses of ``node``, operands first, each distinct node once."""
    if node in seen or not E.holds(node, *REFERENCES):
        return
    seen.add(node)
    call = node if isinstance(node, E.Call) else None
    declared = {} if call is None else dict(operands(call))
    for at, child in enumerate(node.children()):
        # A call gets the memory that these name, not a value.
        if call is not None and isinstance(child, REFERENCES if at in declared else E.AddressOf):
            for part in child.children():
                _visit(part, seen, accesses_in)
            accesses_in.append(_operand(call, child, declared.get(at), at))
        else:
            _visit(child, seen, accesses_in)
    if isinstance(node, E.Load):
        accesses_in.append(Access(node.buffer, node.indices, READ, Kind.PLAIN, node))
    elif isinstance(node, E.RegionArg):
        accesses_in.append(Access(node.region.buffer, node.region, READ, Kind.PLAIN, node))
    elif isinstance(node, E.AddressOf):
        accesses_in.append(Access(node.buffer, _pointed(node), _declared(node), Kind.NAMED, node))


def _operand(call: E.Call, target: E.Expr, declared: str | None, at: int) -> Access:
    """The access of ``call`` to the memory that its operand ``at`` names; ``declared``: what its
    row says."""
    if isinstance(target, E.RegionArg):
        return Access(target.region.buffer, target.region, declared or READ, Kind.PLAIN, call)
    assert isinstance(target, (E.Load, E.AddressOf))
    mode = declared or (_declared(target) if isinstance(target, E.AddressOf) else READ)
    where = _pointed(target) if isinstance(target, E.AddressOf) else target.indices
    rows = call.atom.operands
    proxy = rows[at].proxy if at < len(rows) else "generic"
    return Access(target.buffer, where, mode, _kind_of(call, mode, target.buffer), call, proxy)


def _declared(target: E.AddressOf) -> str:
    return _DECLARED.get(target.access, UPDATE)


def _pointed(target: E.AddressOf) -> Where:
    """The memory behind a pointer: its elements in one dimension, else the first."""
    if target.extent is None or len(target.indices) != 1:
        return target.indices
    return Region(target.buffer, target.indices, (as_extent(target.extent),))


def certain(expr: E.Expr) -> Iterator[E.Load | E.Select]:
    """Loads and choices that are evaluated whenever ``expr`` is."""
    if isinstance(expr, (E.Load, E.Select)):
        yield expr
    is_lazy = isinstance(expr, E.Binary) and expr.op in ("land", "lor")
    if isinstance(expr, E.Select) and expr.lazy:  # what both sides evaluate
        is_lazy = True
        yield from filter(set(certain(expr.f)).__contains__, certain(expr.t))
    for child in expr.children()[:1] if is_lazy else expr.children():
        yield from certain(child)


def certain_loads(expr: E.Expr) -> Iterator[E.Load]:
    """Loads that are made whenever ``expr`` is evaluated."""
    return (node for node in certain(expr) if isinstance(node, E.Load))
