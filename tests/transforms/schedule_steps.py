"""Programs with a part of their schedules applied, for tests that read what it writes."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.ir.visitor import rewrite_launches
from tilelang.options import Options
from tilelang.target import Context, Target
from tilelang.transforms.schedule.apply import APPLIERS, scheduled
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.tma_copies import host_tensors

PERSISTENT, ROLES = ("persistent", "epilogue"), ("roles", "barriers")


def apply_part(
    func: S.PrimFunc, context: Context, fields: Sequence[tuple[str, ...]] = (ROLES,)
) -> S.PrimFunc:
    """``func`` with its schedule chosen, and ``fields`` of it applied."""
    facts, rows = Facts(host_tensors(func), context), {names: APPLIERS[names] for names in fields}
    return rewrite_launches(func, lambda launch: scheduled(launch, facts, rows))


def apply_all(func: S.PrimFunc, target: Target, options: Options | None = None) -> S.PrimFunc:
    """``func`` behind the pass that schedules it."""
    found: dict[str, S.PrimFunc] = {}
    lower(func, target, options or Options(), found.__setitem__)
    return found["schedule_launches"]


def launch_of(func: S.PrimFunc) -> S.Launch:
    """The only launch of ``func``."""
    (launch,) = S.find(func.body, S.Launch)
    return launch
