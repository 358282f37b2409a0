"""The register layout of a loop whose fragments carry their layouts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter

from tilelang.errors import InternalError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.analysis.loops import static_extents
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts import access as A
from tilelang.transforms.layouts.loops import free_mapping, needs_single_thread


def mapping_by(
    loop: S.Parallel, extents: tuple[int, ...], touched: tuple[A.Access, ...],
    layout_of: Callable[[Buffer], RegisterLayout | None], threads: int,
    free: Callable[[], RegisterLayout],
) -> RegisterLayout | None:  # fmt: skip
    """The register layout that the known fragments of a loop require; None if they require none.

    The program's own ``loop_layout`` decides first, then fragments that the loop writes, then
    those with the fewest copies and the most dimensions; a reducer takes contributions in the
    threads that hold it, and asks for nothing. Copies are none for iterations that one thread alone
    may run. A loop that moves memory and only reads fragments keeps the mapping that is best for
    memory, ``free``, where these have the layouts that it needs.
    """
    if loop.loop_layout is not None:
        layout = loop.loop_layout
        if isinstance(layout, RegisterLayout):
            return layout
        return RegisterLayout.from_fragment(layout, threads)
    known = [
        (access, layout) for access in touched if (layout := layout_of(access.buffer)) is not None
    ]
    known.sort(key=lambda pair: (not A.sets_all_copies(pair[0]), pair[1].replication,
                                 -len(pair[0].indices)))  # fmt: skip
    for access, layout in known:
        mapping = A.mapping_from_layout(access, layout, loop, extents)
        if mapping is not None and not (mapping.is_replicated and needs_single_thread(loop)):
            names = set[E.Var]().union(*(index.variables for index in access.indices))
            if all(var in names or extent == 1 for var, extent in zip(loop.vars, extents)):
                return mapping
            spread = free()
            fit = all(
                not A.sets_all_copies(access) and A.registers_of(access, layout, loop, spread)
                for access, layout in known
            )
            run = spread.modes[-1][-1:]
            width = run[0].extent if run and run[0].kind == "register" else 1
            return spread if fit else A.mapping_from_layout(access, layout, loop, extents, width)
    return None


def known_mapping(loop: S.Parallel, threads: int, bounds: Bounds) -> RegisterLayout:
    """The mapping of a loop after inference: its own, that of its fragments, or a free one."""
    extents = static_extents(loop)
    if extents is None:
        raise InternalError("a loop of constant extents is needed")
    touched = tuple(a for a in A.accesses(loop) if a.buffer.storage == FRAGMENT)
    free = partial(free_mapping, loop, extents, threads, bounds)
    known = attrgetter("attrs.register_layout")
    return mapping_by(loop, extents, touched, known, threads, free) or free()
