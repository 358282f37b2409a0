"""Address sharing: common subexpression elimination of addresses that differ by a constant.

The taps of a window are loads at one index plus different constants. If each address is written in
full, a C compiler keeps a pointer for each of them, increments all pointers in every iteration,
spills them, and takes long to compile. So the first address gets a name, and the others are that
name plus a constant, which fits into the instruction.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.linear import Linear
from tilelang.records import dataclass

MANY = 9  # addresses that get a name; sums over eight rows at a time are faster in full


@dataclass(frozen=True, eq=False)
class _Group:
    """Addresses that differ by a constant: the buffer and the indices of the first one, its
    distance from the others' common part, and its name."""

    buffer: Buffer
    indices: tuple[E.Expr, ...]
    distance: int
    name: str


class SharedAddresses:
    """The names of addresses in the body of one loop.

    Attributes:
        lines: statements for the start of the body: the names that its text uses.
    """

    def __init__(self, body: S.Stmt, fresh: Callable[[str], str]) -> None:
        self.lines: dict[str, str] = {}
        self.groups: dict[tuple[object, ...], _Group] = {}
        elements = [
            (access.buffer, access.indices)
            for access in effects.accesses(body, nested=True)
            if isinstance(access.by, (S.Store, E.Load)) and not access.buffer.is_var
        ]
        if len(elements) < MANY:
            return
        bound = S.bound(body)
        groups: dict[tuple[object, ...], dict[int, tuple[Buffer, tuple[E.Expr, ...]]]] = {}
        for element in elements:
            if any(not bound.isdisjoint(x.variables) or E.holds(x, E.Load) for x in element[1]):
                continue
            key, distance = _parts(*element)
            groups.setdefault(key, {}).setdefault(distance, element)
        for key, members in groups.items():
            if len(members) >= MANY:
                distance, (buffer, indices) = next(iter(members.items()))
                self.groups[key] = _Group(buffer, indices, distance, fresh(f"{buffer.name}_at"))

    def of(
        self, buffer: Buffer, indices: tuple[E.Expr, ...],
        text: Callable[[Buffer, tuple[E.Expr, ...]], str],
    ) -> str:  # fmt: skip
        """The pointer to an element; ``text`` prints it in full."""
        if not self.groups:
            return text(buffer, indices)
        key, distance = _parts(buffer, indices)
        group = self.groups.get(key)
        if group is None:
            return text(buffer, indices)
        if group.name not in self.lines:
            first = text(group.buffer, group.indices)
            self.lines[group.name] = f"__auto_type const {group.name} = {first};"
        delta = distance - group.distance
        return f"{group.name} {'-' if delta < 0 else '+'} {abs(delta)}" if delta else group.name


def _parts(buffer: Buffer, indices: tuple[E.Expr, ...]) -> tuple[tuple[object, ...], int]:
    """The base that an element's address shares with others, and its distance in elements."""
    key: list[object] = [buffer]
    distance = 0
    for index, stride in zip(indices, buffer.stride_list()):
        form = Linear.of(index)
        if isinstance(stride, int):
            distance += form.constant * stride
            key.append(frozenset(form.terms))
        else:
            key.append(index)
    return (*key,), distance
