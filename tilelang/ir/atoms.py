"""What one instruction is, said once: its operands, what it does and what it puts in order.

An :class:`Atom` is a row of plain data. Passes ask the row of a call (``call.atom``) and know no
instruction by its name. The portable rows stand in ``ir/tables.py``, those of one vendor in
``target/``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property


class Effect(Enum):
    """What evaluating an intrinsic does besides giving a value."""

    NONE = 0  # may be moved, repeated or dropped
    READ = 1  # reads memory through its address arguments
    WRITE = 2  # writes memory through its address arguments
    ATOMIC = 3  # reads and writes memory as one step; happens once per executing thread
    SYNC = 4  # rendezvous, wait, arrival or fence
    OUTPUT = 5  # prints, traps, or does what only the program orders
    HINT = 6  # no effect on results; may be dropped

    @property
    def repeatable(self) -> bool:
        """Whether evaluating more than once, with no store between, is as good as once."""
        return self in (Effect.NONE, Effect.READ, Effect.HINT)


@dataclass(frozen=True)
class Operand:
    """An operand, by its position in the call.

    Attributes:
        role: what the instruction calls it, e.g. "d", "source", "barrier".
        space: where it is: "value", "registers", "shared", "global", "memory" (shared or global),
            "any", "barrier" (an mbarrier), "barrier id" (a hardware barrier), "tensor memory",
            "descriptor".
        access: of the memory at the address it is: "r", "w", "rw", or "" for none.
        elements: consecutive elements of the buffer that one thread touches; 0 where the
            instruction counts in bytes.
        bytes: that one thread touches there (for ``ldmatrix`` the row that it names); 0 where the
            elements say it.
        times: the attribute of the call that multiplies ``bytes``.
        tile: of a matrix instruction, the extents of its shape that the warp holds, e.g. "mk".
        width: threads that hold the tile.
        proxy: by which way its memory is accessed: "generic", or "async" for a unit beside the
            threads (PTX, "Proxies").
    """

    role: str
    space: str = "value"
    access: str = ""
    elements: int = 0
    bytes: int = 0
    times: str = ""
    tile: str = ""
    width: int = 32
    proxy: str = "generic"


VALUE = Operand("value")
BARRIER = Operand("barrier", "barrier")


@dataclass(frozen=True)
class Completion:
    """When what an instruction started is over.

    ``kind``: "now"; "group" ``name``, whose groups a thread commits and waits for; "mbarrier",
    the operand of role ``name``, which counts; "counter" ``name``, which the hardware lowers.
    """

    kind: str = "now"
    name: str = ""


NOW = Completion()


def group(name: str) -> Completion:
    """Over when the thread has waited for the group it was committed to."""
    return Completion("group", name)


def mbarrier(role: str = "barrier") -> Completion:
    """Over when the barrier that is the operand ``role`` completes its phase."""
    return Completion("mbarrier", role)


def counter(name: str) -> Completion:
    """Over when the hardware's counter ``name`` has come down."""
    return Completion("counter", name)


@dataclass(frozen=True)
class Order:
    """What an instruction puts in order.

    Attributes:
        kind: "rendezvous" (arrive and wait), "arrive", "wait", "test" (ask without waiting),
            "expect" (announce bytes), "commit" (close a group), "fence", "init" (of a barrier).
        scope: who is concerned: "thread", "warp", "warpgroup", "block", "cluster", "grid",
            "barrier" (those who name the same barrier), "launches" (kernels after each other).
        group: the completion group that is committed or waited for.
        proxies: the two sides of a fence.
        expects: whether bytes are announced to a barrier.
        memory: whether memory is ordered, too.
    """

    kind: str
    scope: str
    group: str = ""
    proxies: tuple[str, ...] = ()
    expects: bool = False
    memory: bool = True

    def meets(self, *scopes: str) -> bool:
        """Whether all of one of ``scopes`` wait for each other."""
        return self.kind == "rendezvous" and self.scope in scopes

    def waits_for(self, group: str) -> bool:
        """Whether the thread waits for its copies or products of a completion group."""
        return self.kind == "wait" and self.group == group

    @property
    def signals(self) -> bool:
        """Whether threads wait for others by a barrier that counts their arrivals."""
        return self.scope == "barrier" and self.kind in ("arrive", "wait", "expect")


@dataclass(frozen=True, eq=False)
class Atom:
    """An operation that is called by name.

    Attributes:
        low, high: fewest and most operands; high < 0 means no limit.
        result: "same" (first operand's dtype), "bool", "given" (the call says), or a dtype name.
        takes: "float" (integers become float32), "number", "int", "bool" or "any".
        operands: by position, as far as they are more than values.
        per_thread: the value differs between the threads of a block.
        vote: all threads of the block get the same value, whatever each of them gives.
        needs: "" everywhere, "threads" (thread-level hardware the CPU does not have), or the
            lowest architecture, e.g. "sm_90".
        optional: left out where the target lacks it: what it orders does not happen there.
        exchanges: "warp" or "block" where it gives what other threads of it have; no operation of
            shared loops.
        own_order: the program orders what it does through addresses.
        update: the kind of an atomic update. Those of one kind give the same in any order, those
            of two do not.
        moves: "ldg" or "stg" where it names the access by which the bits of its operand move.
        emulated: the interpreter and targets of one core do it in software.
        text: the function of the device headers, of every dialect that has them. Attributes of the
            call stand in braces: ``{bytes}`` is the value, and one that is True or False gives its
            name behind a ``_``, or nothing. ``{constant}`` is the first operand, which must be one.
        lowered: made by lowering alone; programs do not write it.
        word: its usual name in programs, where that is another one.
        by_name: calls the function that its attribute "name" says.
        identity: gives its operand; it only says something about it.
        displaces: takes each address as a register and a constant.
        semantics: what it does, by its name in the interpreter's table; "" where that is known by
            the row's own name, or by what it orders.
    """

    name: str
    low: int
    high: int
    result: str = "same"
    takes: str = "any"
    effect: Effect = Effect.NONE
    operands: tuple[Operand, ...] = ()
    completes: Completion = NOW
    orders: Order | None = None
    per_thread: bool = False
    vote: bool = False
    needs: str = ""
    optional: bool = False
    exchanges: str = ""
    own_order: bool = False
    update: str = ""
    moves: str = ""
    lowered: bool = False
    emulated: bool = False
    text: str = ""
    word: str = ""
    by_name: bool = False
    identity: bool = False
    displaces: bool = False
    semantics: str = ""

    def canonical(self) -> str:
        """What stands for the row where programs are compared."""
        return self.name

    @property
    def elements(self) -> int:
        """Elements that one call accesses at each of its addresses, if it counts in elements."""
        return self.operands[0].elements if self.operands else 0

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Positions of the operands whose places are read."""
        return tuple(at for at, item in enumerate(self.operands) if "r" in item.access)

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """Positions of the operands whose places are written."""
        return tuple(at for at, item in enumerate(self.operands) if "w" in item.access)

    def meets(self, *scopes: str) -> bool:
        """Whether all threads of one of ``scopes`` wait for each other there."""
        return self.orders is not None and self.orders.meets(*scopes)

    def waits_for(self, group: str) -> bool:
        """Whether the thread waits there for what it started of a completion group."""
        return self.orders is not None and self.orders.waits_for(group)

    @property
    def signals(self) -> bool:
        """Whether groups of threads wait for each other there by counting arrivals."""
        return self.orders is not None and self.orders.signals

    @property
    def synchronises(self) -> bool:
        """Whether threads wait for others or tell them something there, and nothing else."""
        return not self.exchanges and (self.meets("warp", "block", "grid") or self.signals)

    @property
    def may_wait(self) -> bool:
        """Whether a thread may have to wait there until other warps have done something."""
        waits = self.signals and self.orders is not None and self.orders.kind == "wait"
        return waits or (self.meets("block", "grid") and not self.exchanges)
