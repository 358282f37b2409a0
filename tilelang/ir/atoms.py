"""Instruction table entries: operands, effects and ordering of each instruction.

An :class:`Atom` is a row of plain data. Passes read the row of a call (``call.atom``) and never
compare names of instructions. The portable rows are in ``ir/tables.py``, those of one vendor in
``target/``.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from inspect import Parameter, cleandoc
from typing import Any

from tilelang.records import dataclass


class Effect(Enum):
    """Side effects of an intrinsic."""

    NONE = 0  # may be moved, repeated or dropped
    READ = 1  # reads memory through its address arguments
    WRITE = 2  # writes memory through its address arguments
    ATOMIC = 3  # reads and writes memory as one step; happens once per executing thread
    SYNC = 4  # rendezvous, wait, arrival or fence
    OUTPUT = 5  # prints, traps, or does what only the program orders
    HINT = 6  # no effect on results; may be dropped

    @property
    def is_repeatable(self) -> bool:
        """Whether evaluating more than once, with no store between, gives the same as once."""
        return self in (Effect.NONE, Effect.READ, Effect.HINT)


@dataclass(frozen=True)
class Operand:
    """An operand, by its position in the call.

    Attributes:
        role: what the instruction calls it, e.g. "d", "source", "barrier".
        space: where it is: "value", "constant" (known when the kernel is compiled), "registers",
            "shared", "global", "memory" (shared or global), "any", "barrier" (an mbarrier),
            "barrier id" (a hardware barrier), "tensor memory", "map" (of a tensor), "descriptor"
            (the place of one) or "descriptor bits" (its value).
        access: of the memory at the address it is: "r", "w", "rw", or "" for none.
        elements: consecutive elements of the buffer that one thread touches; 0 where the
            instruction counts in bytes.
        bytes: that one thread touches there (for ``ldmatrix`` the row that it names); 0 where the
            elements say it.
        times: the attribute of the call that multiplies ``bytes``.
        tile: of a matrix instruction, the extents of its shape that the warp holds, e.g. "mk".
        width: threads that hold the tile.
        proxy: of its memory accesses: "generic", or "async" for TMA and tensor cores (PTX,
            "Proxies").
        name: of the parameter of ``T.<name>``; the role where it is empty.
        default: of that parameter.
        dtype: that values are converted to.
        many: describes all further operands.
        example: what the smallest program gives; where it is None, the space says it. Of registers
            their number and dtype.
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
    name: str = ""
    default: object = Parameter.empty
    dtype: str = ""
    many: bool = False
    example: object = None

    @property
    def parameter(self) -> str:
        """Its name in programs."""
        return self.name or self.role.replace(" ", "_")


VALUE = Operand("value")
BARRIER = Operand("barrier", "barrier", name="mbarrier")


@dataclass(frozen=True)
class Option:
    """An attribute of the call that programs give by name.

    Attributes:
        default: what it is where it is left out; None and False leave it out of the call.
        choices: what it may be.
        wrong: what an error says of something else, after the name of the instruction.
        kind: "int" or "bool" for what is known when the program is traced.
    """

    name: str
    default: object = None
    choices: tuple[str, ...] = ()
    wrong: str = ""
    kind: str = ""


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


def mbarrier() -> Completion:
    """Over when the barrier that is the operand "barrier" completes its phase."""
    return Completion("mbarrier", "barrier")


def counter(name: str) -> Completion:
    """Over when the hardware's counter ``name`` has come down."""
    return Completion("counter", name)


@dataclass(frozen=True)
class Order:
    """The accesses that an instruction orders.

    Attributes:
        kind: "rendezvous" (arrive and wait), "arrive", "wait", "test" (ask without waiting),
            "expect" (announce bytes), "commit" (close a group), "fence", "init" (of a barrier).
        scope: of its threads: "thread", "warp", "warpgroup", "block", "cluster", "grid",
            "barrier" (threads that name the same barrier), "launches" (kernels after each other).
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

    def is_barrier(self, *scopes: str) -> bool:
        """Whether it is a barrier of one of ``scopes``."""
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
            feature of targets, a name of ``target.features.FEATURES``, e.g. "tma".
        optional: left out where the target lacks it: what it orders does not happen there.
        exchanges: "warp" or "block" where it gives what other threads of it have; no operation of
            shared loops.
        own_order: the program orders what it does through addresses.
        update: the kind of an atomic update. Those of one kind give the same in any order, those
            of two do not.
        moves: "ldg" or "stg" where it names the access by which the bits of its operand move.
        emulated: the interpreter and targets of one core do it in software.
        text: the function of the device headers, of every dialect that has them; its arguments are
            the operands, or follow it, e.g. ``tl_f({1}, {0})``. Attributes of the call are in
            braces: ``{bytes}`` is the value, and one that is True or False gives its name after
            a ``_``, or nothing.
        writer: what writes its text where that takes more, by its name in the dialect's table.
        lowered: made by lowering alone; programs do not write it.
        doc: the documentation of ``T.<name>``; "" where a function of the language is written out.
        ptx: the section of the PTX ISA about it, for the documentation.
        names: what it is called in programs, the usual one first; none for the row's own name.
        strict: further names in programs, whose operands have no defaults.
        options: attributes that programs give.
        check: what its operands have to be besides, by its name in the language's table.
        forms: programs may give the operands in several forms, which its writer distinguishes.
        by_name: calls the function that its attribute "name" says.
        identity: gives its operand; it only states a fact about it.
        displaces: takes each address as a register and a constant.
        exact: its result has the format of its operands, without rounding.
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
    writer: str = ""
    doc: str = ""
    ptx: str = ""
    names: tuple[str, ...] = ()
    strict: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    check: str = ""
    forms: bool = False
    by_name: bool = False
    identity: bool = False
    displaces: bool = False
    exact: bool = False
    semantics: str = ""

    def canonical(self) -> str:
        """The key of the row where programs are compared."""
        return self.name

    @property
    def usual(self) -> str:
        """Its usual name in programs."""
        return self.names[0] if self.names else self.name

    @property
    def elements(self) -> int:
        """Elements that one call accesses at each of its addresses, if it counts in elements."""
        return self.operands[0].elements if self.operands else 0

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Positions of the operands that point to memory that is read."""
        return tuple(at for at, operand in enumerate(self.operands) if "r" in operand.access)

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """Positions of the operands that point to memory that is written."""
        return tuple(at for at, operand in enumerate(self.operands) if "w" in operand.access)

    def is_barrier(self, *scopes: str) -> bool:
        """Whether all threads of one of ``scopes`` wait for each other there."""
        return self.orders is not None and self.orders.is_barrier(*scopes)

    def waits_for(self, group: str) -> bool:
        """Whether the thread waits there for what it started of a completion group."""
        return self.orders is not None and self.orders.waits_for(group)

    @property
    def signals(self) -> bool:
        """Whether groups of threads wait for each other there by counting arrivals."""
        return self.orders is not None and self.orders.signals

    @property
    def is_sync(self) -> bool:
        """Whether threads wait for others or tell them something there, and nothing else."""
        return not self.exchanges and (self.is_barrier("warp", "block", "grid") or self.signals)

    @property
    def may_wait(self) -> bool:
        """Whether a thread may have to wait there until other warps have done something."""
        waits = self.signals and self.orders is not None and self.orders.kind == "wait"
        return waits or (self.is_barrier("block", "grid") and not self.exchanges)


def intrinsic(
    name: str, needs: str, doc: str, *operands: Operand, result: str = "void",
    effect: Effect = Effect.OUTPUT, forms: bool = False, **more: Any,
) -> Atom:  # fmt: skip
    """The row of an instruction that programs write; what it takes follows from its operands."""
    required = sum(operand.default is Parameter.empty and not operand.many for operand in operands)
    open_end = forms or any(operand.many for operand in operands)
    return Atom(
        name, 0 if forms else required, -1 if open_end else len(operands), result, effect=effect,
        operands=operands, needs=needs, doc=cleandoc(doc), forms=forms, **more,
    )  # fmt: skip
