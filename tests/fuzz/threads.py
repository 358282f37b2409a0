"""Random statements of one thread: names bound and bound again, ragged loops, roles, exchanges.

Each writes to the private array ``local`` of its kernel, whose numbers keep to its bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .draws import Draw
from .exprs import MANTISSA, Value
from .model import Names, Program, Text

Statement = Callable[[str, str, list[Value]], None]
EXACT_FUNCTIONS = ("fabsf", "floorf", "ceilf", "truncf")


class Host(Protocol):
    """The kernel that the statements are for."""

    draw: Draw
    program: Program
    names: Names
    text: Text
    threads: int
    blocks: int
    width: int
    dtype: str
    mag: float

    def expression(self, text: str, values: list[Value], index: str = "0") -> str:
        """Something within the bounds made of ``text`` and ``values``."""

    def bounded(self, name: str) -> str:
        """``name`` clamped to the bounds."""


class ThreadStatements:
    """Statements for a :class:`Host`."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.draw = host.draw
        self.text = host.text
        self.fresh = host.names.fresh
        self.kinds: tuple[Statement, ...] = (
            self.rebind, self.carry, self.flag, self.count, self.chain, self.ragged,
            self.ragged_while, self.roles, self.wrap_shared, self.wrap_local, self.histogram,
            self.external, self.butterfly,
        )  # fmt: skip

    def _typed(self, text: str, values: list[Value], index: str = "0") -> str:
        return f"T.cast({self.host.expression(text, values, index)}, {self.host.dtype!r})"

    def bind(self, name: str, text: str, dtype: str | None = None) -> None:
        """Bind a name that control flow binds again: a variable, or now and then a plain name.

        A plain name is either right or refused with advice; nothing in between.
        """
        dtype = dtype or self.host.dtype
        if self.draw.chance(0.06):
            self.host.program.features.add("rebinds")
            self.text.add(f"{name} = {text}")
        else:
            self.text.add(f"{name} = T.alloc_var({dtype!r}, init={text})")

    def _at(self) -> int:
        return self.draw.integer(0, self.host.width - 1)

    def _condition(self, tx: str, local: str) -> str:
        limit = self.draw.integer(0, self.host.threads)
        return self.draw.choice(
            (f"{tx} < {limit}", f"{tx} % 3 == 1", f"{local}[0] > 0", "bx == 1", f"{tx} & 4 == 4")
        )

    # -- names bound again ---------------------------------------------------------------------
    def rebind(self, local: str, tx: str, values: list[Value]) -> None:
        """A name that a branch binds again, used after it."""
        name, at = self.fresh("v"), self._at()
        self.bind(name, self._typed(f"{local}[{at}]", values))
        if self.draw.chance(0.3):  # a constant, as in `v = 2`
            self.text.add(f"{name} = T.cast({self.draw.integer(0, 3)}, {self.host.dtype!r})")
        self.text.add(f"if {self._condition(tx, local)}:")
        self.text.add(f"    {name} = {self._typed(name, values)}")
        if self.draw.chance(0.3):
            self.text.add(f"    if {self._condition(tx, local)}:")
            self.text.add(f"        {name} = {self._typed(name, values)}")
        if self.draw.chance(0.4):
            self.text.add("else:")
            self.text.add(f"    {name} = {self._typed(f'{local}[{at}]', values)}")
        self.text.add(f"{local}[{self._at()}] = {name}")

    def carry(self, local: str, tx: str, values: list[Value]) -> None:
        """A value of one iteration that the next one reads."""
        name, width = self.fresh("p"), self.host.width
        self.bind(name, f"{local}[{self._at()}]")
        loop = self.draw.choice((f"T.serial({width})", f"range({width})", f"T.serial({tx} % 4)"))
        ragged = tx in loop
        self.text.add(f"for q in {loop}:")
        if not ragged and self.draw.chance(0.5):
            self.text.add(f"    {local}[q] = {self._typed(name, values, 'q')}")
        source = f"{local}[q]" if not ragged and self.draw.chance(0.5) else name
        self.text.add(f"    {name} = {self._typed(source, values, 'q')}")
        if self.draw.chance(0.2):
            self.text.add(f"    if {self._condition(tx, local)}:")
            self.text.add("        break")
        self.text.add(f"{local}[{self._at()}] = {name}")

    def flag(self, local: str, tx: str, values: list[Value]) -> None:
        """A truth value that a loop sets."""
        name, limit = self.fresh("found"), self.draw.integer(-1, 2)
        self.bind(name, "False", "bool")
        self.text.add(f"for q in range({self.host.width}):")
        self.text.add(f"    if {local}[q] > {limit}:")
        self.text.add(f"        {name} = True")
        if self.draw.chance(0.3):
            self.text.add("        break")
        self.text.add(f"if {name}:" if self.draw.chance(0.7) else f"if not {name}:")
        self.text.add(f"    {local}[{self._at()}] = {self._typed(f'{local}[0]', values)}")

    def count(self, local: str, tx: str, values: list[Value]) -> None:
        """A counter, by a new binding or in place."""
        name = self.fresh("n")
        self.bind(name, "0", "int32")
        self.text.add(f"for q in T.serial({self.host.width}):")
        self.text.add(f"    if {local}[q] > {self.draw.integer(-1, 1)}:")
        self.text.add(f"        {name} {self.draw.choice(('+= 1', '= ' + name + ' + 1'))}")
        counted = [*values, Value(name, "int32", 8)]
        self.text.add(f"{local}[{self._at()}] = {self._typed(f'{local}[0]', counted)}")

    def chain(self, local: str, tx: str, values: list[Value]) -> None:
        """Values bound from bound values, used several times around stores to their sources."""
        first, second, third = (self.fresh("e") for _ in range(3))
        at = self._at()
        self.text.add(f"{first} = {local}[{at}]")
        self.text.add(f"{second} = {self._typed(first, values)}")
        if self.draw.chance(0.6):
            self.text.add(f"{local}[{at}] = {self._typed(second, values)}")
        self.text.add(f"{third} = {self._typed(second, values)}")
        held = [Value(name, self.host.dtype, self.host.mag) for name in (first, second)]
        if self.draw.chance(0.5):
            name = self._shared(self.host.threads)
            self.text.add(f"{name}[{tx}] = {second}")
            self.text.add("T.sync_threads()")
            self.text.add(f"{local}[{self._at()}] = {name}[{self.host.threads - 1} - {tx}]")
        if self.host.dtype in MANTISSA:
            held = []
        self.text.add(f"{local}[{self._at()}] = {self._typed(third, [*values, *held])}")
        self.text.add(f"{local}[{self._at()}] = {first}")

    # -- loops of different lengths --------------------------------------------------------------
    def _shared(self, size: int) -> str:
        name = self.fresh("sh")
        self.text.add(f"{name} = T.alloc_shared(({size},), {self.host.dtype!r})")
        return name

    def ragged(self, local: str, tx: str, values: list[Value]) -> None:
        """Threads divide a tile; they leave the loop at different iterations."""
        threads = self.host.threads
        size = self.draw.integer(threads // 2, 2 * threads + 5)
        name, item, best = self._shared(size), self.fresh("i"), self.fresh("v")
        self.text.add(f"for {item} in T.serial({tx}, {size}, {threads}):")
        scope = [*values, Value(item, "int32", 400)]
        self.text.add(f"    {name}[{item}] = {self._typed(f'{local}[0]', scope)}")
        self.text.add("T.sync_threads()")
        self.text.add(f"{best} = T.alloc_var({self.host.dtype!r}, init={local}[{self._at()}])")
        step = self.draw.integer(7, 40)
        self.text.add(f"for {item} in T.serial({tx} % {step}, {size}, {step}):")
        self.text.add(f"    {best} = T.{self.draw.choice(('max', 'min'))}({best}, {name}[{item}])")
        self.text.add(f"{local}[{self._at()}] = {best}")

    def ragged_while(self, local: str, tx: str, values: list[Value]) -> None:
        """A while loop of another length in each thread."""
        name, at = self.fresh("w"), self._at()
        start = self.draw.choice((f"{tx} % 5", f"{tx} // 16", "2"))
        self.text.add(f"{name} = T.alloc_var('int32', init={start})")
        self.text.add(f"while {name} > 0:")
        scope = [*values, Value(name, "int32", 8)]
        self.text.add(f"    {local}[{at}] = {self._typed(f'{local}[{at}]', scope)}")
        self.text.add(f"    {name} -= 1")

    # -- exchange --------------------------------------------------------------------------------
    def roles(self, local: str, tx: str, values: list[Value]) -> None:
        """Two groups of threads do different work, then read each other's."""
        threads, at = self.host.threads, self._at()
        name = self._shared(threads)
        self.text.add(f"if {tx} < {self.draw.choice((32, 16, threads // 2))}:")
        self.text.add(f"    {name}[{tx}] = {self._typed(f'{local}[{at}]', values)}")
        self.text.add("else:")
        self.text.add(f"    {name}[{tx}] = {self._typed(f'{local}[{at}]', values)}")
        self.text.add("T.sync_threads()")
        self.text.add(f"{local}[{at}] = {name}[{threads - 1} - {tx}]")

    def wrap_shared(self, local: str, tx: str, values: list[Value]) -> None:
        """A shared tile as a ring."""
        name, at = self._shared(self.host.threads), self._at()
        self.text.add(f"{name}[{tx}] = {local}[{at}]")
        self.text.add("T.sync_threads()")
        self.text.add(
            f"{local}[{at}] = {name}[({tx} - {self.draw.integer(1, self.host.threads)}) % {self.host.threads}]"
        )

    def wrap_local(self, local: str, tx: str, values: list[Value]) -> None:
        """A private array as a ring."""
        back = self.draw.integer(1, self.host.width)
        self.text.add(f"for q in T.serial({self.host.width}):")
        self.text.add(
            f"    {local}[q] = {self._typed(f'{local}[(q - {back}) % {self.host.width}]', values, 'q')}"
        )

    def histogram(self, local: str, tx: str, values: list[Value]) -> None:
        """Rows of shared memory that belong to one thread each, at loaded indices."""
        bins = self.draw.integer(2, 4)
        name, item, spot = self.fresh("cnt"), self.fresh("i"), self.fresh("e")
        threads, width = self.host.threads, self.host.width
        self.text.add(f"{name} = T.alloc_shared(({threads * bins},), 'int32')")
        self.text.add(f"for {item} in T.serial({bins}):")
        self.text.add(f"    {name}[{tx} * {bins} + {item}] = 0")
        self.text.add(f"for {item} in T.serial({width}):")
        self.text.add(f"    {spot} = T.cast({local}[{item}], 'int32') & {1 if bins < 4 else 3}")
        place = f"{name}[{tx} * {bins} + {spot}]"
        self.text.add(f"    {place} = {place} + 1")
        if self.draw.chance(0.5):
            self.text.add("T.sync_threads()")
        found = [Value(f"{name}[{tx} * {bins} + 1]", "int32", 8)]
        self.text.add(f"{local}[{self._at()}] = {self._typed(f'{local}[0]', found * 3)}")

    def butterfly(self, local: str, tx: str, values: list[Value]) -> None:
        """A maximum over a warp, or one lane's value in all."""
        if self.host.dtype not in ("float32", "int32"):
            return self.external(local, tx, values)
        self.host.program.features.add("warp")
        name, at = self.fresh("y"), self._at()
        self.text.add(f"{name} = {local}[{at}]")
        if self.draw.chance(0.5):
            for by in (16, 8, 4, 2, 1):
                self.text.add(f"{name} = T.max({name}, T.shfl_xor({name}, {by}))")
        else:
            lane = self.draw.integer(0, 31)
            self.text.add(f"{name} = T.shfl_sync(0xFFFFFFFF, {name}, {lane})")
        self.text.add(f"{local}[{at}] = {name}")
        return None

    def external(self, local: str, tx: str, values: list[Value]) -> None:
        """A function of C by its name."""
        at, function = self._at(), self.draw.choice(EXACT_FUNCTIONS)
        made = f'T.call_extern("float32", "{function}", T.cast({local}[{at}], "float32"))'
        name = self.fresh("x")
        self.text.add(f"{name} = T.cast({made}, {self.host.dtype!r})")
        self.text.add(f"{local}[{at}] = {self.host.bounded(name)}")
