"""Legalization: replace target-dependent constructs by the forms that all passes understand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import is_

from tilelang.errors import TileUnsupportedError, at
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr
from tilelang.ir.functions import as_expression
from tilelang.ir.hints import LoopHints
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.levels import HOST, with_known_hints
from tilelang.ir.uniform import leaves
from tilelang.ir.visitor import map_stmts, replace_changed, rewrite_blocks, without_allocations
from tilelang.target.operations import SET_MAX_NREG
from tilelang.transforms.normalize.alignment import limit_views
from tilelang.transforms.normalize.join_digits import join_digits
from tilelang.transforms.normalize.launch_versions import version_aligned_rows
from tilelang.transforms.normalize.overlaps import merge_tensors
from tilelang.transforms.normalize.widen_indices import widen_indices
from tilelang.transforms.rules import Cursor, Phase, rule


def _has_wait(func: S.PrimFunc) -> bool:
    """Whether the program waits for asynchronous copies itself."""
    return any(
        call.atom.waits_for("cp_async")
        or (call.atom.orders is not None and call.atom.orders.group == "cp_async")
        for call in S.calls(func.body)
    )


@rule(S.Stmt)
def strip_hints(stmt: S.Stmt, cursor: Cursor) -> S.Stmt:
    """Drop annotations that no pass reads, and prefetch hints where a core runs the block.

    Programs may put keys of their own on loops and statements. They mean nothing, so that below
    every key is one that a pass knows. A copy of one thread (``T.ptx_cp_async``) is asynchronous
    only in a program that waits for such copies itself. A core that runs a whole block has nothing
    to run ahead with: there a pipelined loop is the serial loop that it means, whatever its stages.
    So is a loop of the host around kernels.
    """
    if isinstance(stmt, S.Attr):
        return stmt.body
    simple: tuple[str, ...] = ("pipelined",) if cursor.context.has("cores") else ()
    if cursor.launch is None:
        simple = ("pipelined", "vectorized")
    if isinstance(stmt, S.For) and stmt.kind in simple:
        return replace(stmt, kind="serial", hints=LoopHints())
    if isinstance(stmt, S.For) and stmt.hints.asynchronous:
        if not cursor.of(_has_wait, cursor.func):
            return replace(stmt, hints=LoopHints())
    return with_known_hints(stmt, "tile")


@rule(E.Call)
def expand_library_calls(call: E.Call, cursor: Cursor) -> E.Expr:
    """Replace calls of known library functions by the operations that they name.

    ``T.call_extern("float16", "__float2half_rz", x)`` names a function of C or CUDA. What the table
    of :mod:`tilelang.ir.functions` knows is computed by the language's own operations, so that it
    runs on every target; other names are left to the target, which has the program's own source.

    Raises:
        TileTypeError: a known function with another number of operands.
        TileUnsupportedError: an operand that is a call with an effect.
    """
    name = str(call.attr("name", "")) if call.atom.by_name else ""
    if not name or re.search(rf"\b{re.escape(name)}\b", cursor.of(_own_source, cursor.func)):
        return call
    expanded = as_expression(call)
    if expanded is None or all(map(E.is_repeatable, call.args)):
        return call if expanded is None else expanded
    raise TileUnsupportedError(
        f"an operand of `{name}` has a side effect",
        expected="a value",
        got=f"`{call!r}`",
        hint="give the operand a name first: x = ...",
    )


def _own_source(func: S.PrimFunc) -> str:
    """The text that the program brings."""
    notes = [func.attr("import_source")]
    for launch in S.find(func.body, S.Launch):
        hints = launch.hints
        notes += [hints.prelude, hints.import_source, hints.cuda_source]
    return "\n".join(note for note in notes if isinstance(note, str))


@rule(S.Launch, needs="cores")
def one_thread_by_default(launch: S.Launch, cursor: Cursor) -> S.Stmt:
    """Give a block one thread if the program does not use the thread index.

    ``T.Kernel`` without ``threads`` leaves the number to the target: a GPU takes what the front end
    wrote down, a core that runs a block alone has no use for more than one. The front end marks
    such launches with the hint ``default_threads`` and takes the mark away as soon as the
    program asks for the number. A body that asks which thread, lane or warp runs it, or in which
    threads tell each other something or count each other, has the number of a GPU everywhere.
    """
    if not launch.hints.default_threads or _is_thread_dependent(launch):
        return launch
    body = map_stmts(launch.body, (S.Parallel, S.Copy), partial(replace_changed, loop_layout=None))
    return replace(
        launch, threads=(1, 1, 1), hints=launch.hints.without("default_threads"), body=body
    )


def _is_thread_dependent(launch: S.Launch) -> bool:
    """Whether the body is about single threads: which one runs, what others have, how many come."""
    threads = set(launch.thread_vars)
    for stmt in S.walk(launch.body):
        if any(not threads.isdisjoint(expr.variables) for expr in stmt.exprs()):
            return True
        with at(stmt.loc):
            if any(map(_is_of_threads, stmt.calls())):
                return True
    return False


def _is_of_threads(call: E.Call) -> bool:
    expanded = as_expression(call) if call.atom.by_name else call
    return expanded is not None and any(
        node.atom.exchanges or node.atom.signals or node.atom.per_thread
        for node in E.walk(expanded)
        if isinstance(node, E.Call)
    )


@rule(S.Launch, needs="simt")
def hoist_workspaces(launch: S.Launch, cursor: Cursor) -> list[S.Stmt]:
    """Move global workspaces of a kernel to its launch.

    ``T.alloc_global`` inside ``T.Kernel`` is memory that all blocks of the launch share. It is
    allocated before the launch, as those outside of kernels are.

    Raises:
        TileUnsupportedError: an extent that only the kernel knows.
    """
    allocs = S.find(launch.body, S.Alloc)
    workspaces = [alloc for alloc in allocs if alloc.buffer.storage == "global"]
    known = S.bound(launch)
    for alloc in workspaces:
        extents = [extent for extent in alloc.buffer.shape if isinstance(extent, Expr)]
        inner = [extent for extent in extents if not known.isdisjoint(extent.variables)]
        if inner:
            raise TileUnsupportedError(
                f"the size of the workspace `{alloc.buffer.name}` depends on values of the kernel",
                expected="extents that are known before the launch",
                got=f"`{inner[0]!r}`",
                hint="allocate the most that any block needs",
                loc=alloc.loc,
            )
    body = without_allocations(launch.body, {alloc.buffer.data for alloc in workspaces})
    return [*workspaces, launch.with_body(body)]


SETTING = f"T.{SET_MAX_NREG.name}"
# What hints do, as their rows say.
_OFF, _SETS = "leave registers", "set registers"
_COUNTS = {"registers of producers": 0, "registers of consumers": 1}


@rule(S.Launch, needs="simt")
def apply_register_hints(launch: S.Launch, cursor: Cursor) -> S.Launch:
    """Attach register counts of warpgroups to the branches that they apply to.

    ``T.no_set_max_nreg`` and ``T.disable_warp_group_reg_alloc`` take every ``T.set_max_nreg`` out
    of their kernel. ``T.annotate_producer_reg_dealloc(n)`` and ``T.annotate_consumer_reg_alloc(n)``
    give the number to those that lower and raise. In a kernel without any they are stated in its
    schedule. Where that has one role the hints do nothing, and ``explain`` has a note about that.

    It relies on nothing, and runs before any pass that duplicates kernels or statements.
    """
    calls = [stmt.value for stmt in S.find(launch.body, S.Eval) if isinstance(stmt.value, E.Call)]
    hints = [call for call in calls if _kind(call) == _OFF or _kind(call) in _COUNTS]
    if not hints:
        return launch
    settings = [call for call in calls if _kind(call) == _SETS]
    off = next((call.op for call in hints if _kind(call) == _OFF), None)
    counts = {_COUNTS[_kind(call)]: call.args[0] for call in hints if _kind(call) in _COUNTS}
    used = {call.args[1].__index__() for call in settings}
    names = ", ".join(dict.fromkeys(f"T.{call.op}" for call in hints))
    if off is not None and settings:
        note = f"{len(settings)} {SETTING} are ignored because of T.{off}"
    elif off is None and used & counts.keys():
        note = f"{names}: the numbers of {SETTING}"
    else:
        note = f"{names}: no effect, as there is no {SETTING} to act on"
    body = map_stmts(launch.body, S.Eval, partial(_apply_hint, off is not None, counts))
    schedule = launch.schedule
    if not settings:
        registers = (0, 0) if off else (_number(counts.get(1)), _number(counts.get(0)))
        schedule = replace(schedule or Schedule(), registers=registers)
    noted = replace(launch.hints, register_note=note)
    return replace(launch, body=body, hints=noted, schedule=schedule)


def _kind(call: E.Call) -> str:
    return call.atom.semantics


def _number(count: E.Expr | None) -> int | None:
    return None if count is None else count.__index__()


def _apply_hint(off: bool, counts: dict[int, E.Expr], stmt: S.Eval) -> S.Stmt:
    """``stmt``, or nothing, or with another number of registers; the hints have done their work."""
    call = stmt.value
    if not isinstance(call, E.Call):
        return stmt
    sets = _kind(call) == _SETS
    if _kind(call) in (_OFF, *_COUNTS) or (sets and off):
        return S.Seq(stmts=(), loc=stmt.loc)
    count = counts.get(call.args[1].__index__()) if sets else None
    if count is None:
        return stmt
    hint = E.Call(call.atom, (count, call.args[1]), call.dtype, call.attrs)
    return S.Eval(value=hint, loc=stmt.loc)


@rule(S.PrimFunc, needs="simt")
def refuse_longer_lifetimes(func: S.PrimFunc, cursor: Cursor) -> S.PrimFunc:
    """Reject workspaces of kernels that are allocated outside of them.

    Raises:
        TileUnsupportedError: a kernel uses it.
    """
    _check_lifetimes(_host_statements(func.body), list(S.find(func.body, S.Launch)))
    return func


@rule(S.PrimFunc, where=lambda func, _: S.holds(func.body, S.Assert, S.If))
def assume_host_checks(func: S.PrimFunc, cursor: Cursor) -> S.PrimFunc:
    """Assume in each kernel what the host has checked: assertions before it, `if`s around it."""
    return func.with_body(_assuming(func.body, []))


def _assuming(stmt: S.Stmt, known: list[S.Assert]) -> S.Stmt:
    """``stmt`` of the host with the facts ``known``, which hold there, in its kernels."""
    if isinstance(stmt, S.Launch):
        buffers = {access.buffer for access in effects.accesses(stmt, nested=True)}
        sizes = [E.as_expr(n) for b in buffers for n in (*b.shape, *b.stride_list())]
        used = {var for size in sizes for var in size.variables}
        facts = [fact for fact in known if used.issuperset(fact.cond.variables)]
        return stmt.with_body(S.seq(*facts, stmt.body)) if facts else stmt
    if isinstance(stmt, S.If):
        truth, otherwise = (S.Assert(cond=c, assumed=True) for c in (stmt.cond, ~stmt.cond))
        then = _assuming(stmt.then, [*known, truth])
        orelse = stmt.orelse and _assuming(stmt.orelse, [*known, otherwise])
        return replace_changed(stmt, then=then, orelse=orelse)
    if not isinstance(stmt, S.Seq):
        return rewrite_blocks(stmt, lambda block: _assuming(block, known))
    stmts = []
    for inner in stmt.stmts:
        stmts.append(_assuming(inner, known))
        if isinstance(inner, S.Assert):
            known = [*known, replace(inner, assumed=True)]
    return stmt if all(map(is_, stmts, stmt.stmts)) else S.seq(*stmts)


@rule(S.PrimFunc, needs="cores")
def wrap_host_statements(func: S.PrimFunc, cursor: Cursor) -> S.PrimFunc:
    """Wrap work outside of all kernels in a kernel of one block and one thread.

    On a target whose cores run the host code as well, a program may compute outside ``T.Kernel``:
    loops, stores, tile operations. The statements between two kernels are one such kernel;
    declarations, assertions, and values that kernels use later stay what they are.

    Raises:
        TileUnsupportedError: memory made outside kernels is used by several of them.
    """
    if not any(map(_is_work, _host_statements(func.body))):
        return func
    return replace(func, body=_wrapped(func.body))


def _host_statements(stmt: S.Stmt) -> list[S.Stmt]:
    """``stmt`` and the statements in it that are in no kernel."""
    if isinstance(stmt, S.Launch):
        return []
    return [stmt, *(child for block in stmt.blocks() for child in _host_statements(block))]


def _is_work(stmt: S.Stmt) -> bool:
    """Whether a statement by itself is one that kernels are made of."""
    return type(stmt) not in HOST or (isinstance(stmt, S.Alloc) and stmt.buffer.storage != "global")


def _has_launch(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` stays with the host: it holds a kernel, or leaves a loop that does."""
    return S.holds(stmt, S.Launch) or leaves(stmt)


def _wrapped(stmt: S.Stmt) -> S.Stmt:
    if isinstance(stmt, S.Launch):
        return stmt
    if not isinstance(stmt, S.Seq):
        if _has_launch(stmt):
            return rewrite_blocks(stmt, _wrapped)
        return _kernel([stmt]) if any(map(_is_work, _host_statements(stmt))) else stmt
    out: list[S.Stmt] = []
    group: list[S.Stmt] = []
    stmts = S.flat(stmt)
    for index, inner in enumerate(stmts):
        if _has_launch(inner) or isinstance(inner, S.Assert) or _is_used(inner, stmts[index + 1 :]):
            out += _as_kernel(group, stmts[index:])
            group = []
            out.append(_wrapped(inner) if _has_launch(inner) else inner)
        else:
            group.append(inner)
    return S.seq(*out, *_as_kernel(group, []))


def _is_used(stmt: S.Stmt, after: Sequence[S.Stmt]) -> bool:
    """Whether ``stmt`` makes something for later kernels: a value, a workspace, a tensor."""
    if isinstance(stmt, S.Let):
        nodes = (node for later in _behind_kernel(after) for node in S.walk(later))
        return any(stmt.var in expr.variables for node in nodes for expr in node.exprs())
    if isinstance(stmt, S.Alloc) and stmt.buffer.storage == "global":
        return True
    return isinstance(stmt, S.View) and stmt.source is not None


def _behind_kernel(stmts: Sequence[S.Stmt]) -> Sequence[S.Stmt]:
    """The statements from the next kernel or assertion on, where the present group has ended."""
    for index, stmt in enumerate(stmts):
        if _has_launch(stmt) or isinstance(stmt, S.Assert):
            return stmts[index:]
    return []


def _as_kernel(group: list[S.Stmt], after: Sequence[S.Stmt]) -> list[S.Stmt]:
    """A group of statements, as a kernel if there is work among them."""
    if not any(_is_work(node) for stmt in group for node in _host_statements(stmt)):
        return group
    _check_lifetimes(group, after)
    return [_kernel(group)]


def _check_lifetimes(outside: Sequence[S.Stmt], after: Sequence[S.Stmt]) -> None:
    """Refuse memory that statements outside kernels make and kernels after them use."""
    used = {id(access.buffer) for stmt in after for access in effects.accesses(stmt, nested=True)}
    for stmt in (stmt for stmt in outside if isinstance(stmt, S.Alloc)):
        if stmt.buffer.storage != "global" and id(stmt.buffer) in used:
            raise TileUnsupportedError(
                f"`{stmt.buffer.name}` is allocated outside of the kernels that use it",
                expected="memory that lives as long as one kernel, or T.alloc_global",
                got=f"{stmt.buffer.storage} memory made before and used in a later kernel",
                hint="allocate it in the `with T.Kernel(...)` that uses it",
                loc=stmt.loc,
            )


def _kernel(stmts: list[S.Stmt]) -> S.Launch:
    thread_vars = tuple(E.Var(name, DType("int32")) for name in ("tx", "ty", "tz"))
    return S.Launch(
        grid=(), block_vars=(), thread_vars=thread_vars, threads=(1, 1, 1), body=S.seq(*stmts),
        loc=stmts[0].loc,
    )  # fmt: skip


legalize = Phase(
    strip_hints, expand_library_calls, limit_views, merge_tensors, one_thread_by_default,
    hoist_workspaces, apply_register_hints, widen_indices, join_digits, refuse_longer_lifetimes,
    wrap_host_statements, assume_host_checks, version_aligned_rows,
)  # fmt: skip
