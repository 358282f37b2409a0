"""What statements carry besides their meaning: hints of programs, decisions of passes.

One frozen class for each kind of statement; a field that nobody states has its default. Programs
state hints by name (``annotations={...}``). The frontend reads those that mean something, once
(:meth:`Hints.of`). The others stay in ``other`` until the first pass drops them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from tilelang.ir.buffer import Buffer
from tilelang.records import dataclass

Pairs = tuple[tuple[str, object], ...]
Own = TypeVar("Own", bound="Hints")


@dataclass(frozen=True)
class Hints:
    """Base of all hints.

    Attributes:
        other: what the program says and no pass knows.
    """

    program: ClassVar[dict[str, type]] = {}  # what a program may state: field -> its type
    schedule: ClassVar[tuple[str, ...]] = ()  # fields that Thread IR has no use for
    other: Pairs = ()

    @classmethod
    def of(cls: type[Own], pairs: Iterable[tuple[str, object]]) -> Own:
        """The hints of a program."""
        other = []
        known: dict[str, object] = {}
        for name, value in pairs:
            if isinstance(value, cls.program.get(name, ())):
                known[name] = value
            else:
                other.append((name, value))
        return cls(other=tuple(other), **known)

    @cached_property
    def stated(self) -> Pairs:
        """Names and values of the fields that somebody has stated, those of the program alone
        last."""
        values = [(item, getattr(self, item.name)) for item in fields(self)[1:]]
        own = (pair for pair in values if pair[1] is not pair[0].default)
        return (*((item.name, value) for item, value in own), *self.other)

    def __bool__(self) -> bool:
        return bool(self.stated)

    def says_only(self, *names: str) -> bool:
        """Whether nothing but fields of ``names`` is stated."""
        return all(name in names for name, _ in self.stated)

    def without(self: Own, *names: str) -> Own:
        """A copy in which nobody has stated the fields of ``names``; itself where nobody has."""
        left: dict[str, Any] = {item.name: item.default for item in fields(self)}
        left = {name: default for name, default in left.items() if name in names}
        stated = any(getattr(self, name) is not default for name, default in left.items())
        return replace(self, **left) if stated else self

    def canonical(self) -> Pairs:
        """What stands for the hints where programs are compared."""
        return self.stated


@dataclass(frozen=True)
class LoopHints(Hints):
    """Hints of a ``For``.

    Attributes:
        num_stages, order, stage, sync, group: of ``T.Pipelined``.
        explicit, unroll_factor: of ``T.unroll``.
        parallel: iterations are independent: the depth of the loop in its nest.
        reduction: operator and total of each value that the loop reduces to.
        scan: operator and running total.
        asynchronous: a copy of one thread that it waits for later.
        through: "ldg" or "stg", the access that a loop over lanes is.
        threads: it is over the threads of a block; ``alive`` says which of them have returned.
        tiles: it is over tiles of a grid, which have no order.
        pipeline_note: what became of its pipeline.
        counted: how many of the first statements of the body are remainders of the variable that
            the loop counts along instead of dividing.
        vector: it is computed in vectors: bits of the widest value.
        idempotent: it may run an iteration twice.
    """

    program = {
        "num_stages": int, "order": tuple, "stage": tuple, "sync": object, "group": object,
        "explicit": object, "unroll_factor": object,
    }  # fmt: skip
    schedule = ("num_stages", "order", "stage", "sync", "group", "tiles", "pipeline_note")
    num_stages: int | None = None
    order: tuple[object, ...] | None = None
    stage: tuple[object, ...] | None = None
    sync: object = None
    group: object = None
    explicit: object = None
    unroll_factor: object = None
    parallel: int | None = None
    reduction: tuple[tuple[str, Buffer], ...] = ()
    scan: tuple[str, Buffer] | None = None
    asynchronous: bool = False
    through: str = ""
    threads: bool = False
    alive: Buffer | None = None
    tiles: bool = False
    pipeline_note: str | None = None
    counted: int = 0
    vector: int = 0
    idempotent: bool = False


PLAIN_LOOP = LoopHints()
