"""Register hints (setmaxnreg) of warpgroups, which act on the instructions of the program.

``T.no_set_max_nreg`` and ``T.disable_warp_group_reg_alloc`` take every ``T.set_max_nreg`` out of
their kernel. ``T.annotate_producer_reg_dealloc(n)`` and ``T.annotate_consumer_reg_alloc(n)`` give
the number to those that lower and raise. In a kernel without any they are stated in its schedule.
Where that has one role the hints do nothing, which a note on the launch says for ``explain``.

It relies on nothing; it stands in front of what copies kernels or their statements.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.visitor import map_stmts, rewrite_launches
from tilelang.target import Context
from tilelang.target.operations import SET_MAX_NREG

SETTING = f"T.{SET_MAX_NREG.name}"
# What hints do, as their rows say.
_OFF, _SETS = "leave registers", "set registers"
_COUNTS = {"registers of producers": 0, "registers of consumers": 1}


def apply_register_hints(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with its register instructions as the hints of each kernel want them."""
    return rewrite_launches(func, _kernel)


def _kernel(launch: S.Launch) -> S.Launch:
    calls = [stmt.value for stmt in S.find(launch.body, S.Eval) if isinstance(stmt.value, E.Call)]
    hints = [call for call in calls if _does(call) == _OFF or _does(call) in _COUNTS]
    if not hints:
        return launch
    settings = [call for call in calls if _does(call) == _SETS]
    off = next((call.op for call in hints if _does(call) == _OFF), None)
    counts = {_COUNTS[_does(call)]: call.args[0] for call in hints if _does(call) in _COUNTS}
    used = {call.args[1].__index__() for call in settings}
    names = ", ".join(dict.fromkeys(f"T.{call.op}" for call in hints))
    if off is not None and settings:
        note = f"{len(settings)} {SETTING} are left out, as T.{off} says"
    elif off is None and used & counts.keys():
        note = f"{names}: the numbers of {SETTING}"
    else:
        note = f"{names}: no effect, as there is no {SETTING} to act on"
    body = map_stmts(launch.body, S.Eval, partial(_followed, off is not None, counts))
    schedule = launch.schedule
    if not settings:
        registers = (0, 0) if off else (_number(counts.get(1)), _number(counts.get(0)))
        schedule = replace(schedule or Schedule(), registers=registers)
    return replace(
        launch, body=body, hints=replace(launch.hints, register_note=note), schedule=schedule
    )


def _does(call: E.Call) -> str:
    return call.atom.semantics


def _number(count: E.Expr | None) -> int | None:
    return None if count is None else count.__index__()


def _followed(off: bool, counts: dict[int, E.Expr], stmt: S.Eval) -> S.Stmt:
    """``stmt``, or nothing, or with another number of registers; the hints have done their work."""
    call = stmt.value
    if not isinstance(call, E.Call):
        return stmt
    sets = _does(call) == _SETS
    if _does(call) in (_OFF, *_COUNTS) or (sets and off):
        return S.Seq(stmts=(), loc=stmt.loc)
    count = counts.get(call.args[1].__index__()) if sets else None
    if count is None:
        return stmt
    hint = E.Call(call.atom, (count, call.args[1]), call.dtype, call.attrs)
    return S.Eval(value=hint, loc=stmt.loc)
