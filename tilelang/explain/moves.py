"""Memory accesses of the threads of a lowered kernel, by line of the user's source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from tilelang.errors import Loc
from tilelang.explain.banks import Site, Waves, waves_of
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import VALUE, Effect
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import substitute
from tilelang.records import dataclass
from tilelang.target import Limits
from tilelang.transforms.analysis.loops import values_of


@dataclass(frozen=True)
class Move:
    """One kind of access: ``verb`` is "loads", "stores" or "updates"."""

    verb: str
    buffer: str
    memory: str  # "global" or "shared"
    width: int  # bytes of a thread, or of the whole; 0 where a unit takes them as it needs them
    instruction: str = ""  # the instruction, where it is not a plain load or store
    # By the async proxy (TMA, tensor core), started by one thread or a warpgroup.
    is_whole: bool = False


@dataclass
class Line:
    """The instructions that one line of the program became."""

    loc: Loc
    moves: dict[Move, Waves | None] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)  # instructions with an effect
    lowered: set[str] = field(default_factory=set)  # those that moves and products tell already


Key = tuple[str, int]


def lines_of(launch: S.Launch, limits: Limits, count: bool = True) -> dict[Key, Line]:
    """Accesses and instructions of a lowered kernel, by file and line.

    Args:
        launch: the kernel, through all passes.
        limits: of the machine.
        count: whether the waves of shared memory are counted.
    """
    lines: dict[Key, Line] = {}
    _Walk(launch, lines, count).block(launch.body, launch.loc, {}, Site(launch, limits))
    return lines


class _Walk:
    def __init__(self, launch: S.Launch, lines: dict[Key, Line], count: bool) -> None:
        self.launch = launch
        self.lines = lines
        self.count = count

    def block(self, stmt: S.Stmt, loc: Loc | None, lets: dict[E.Var, E.Expr], site: Site) -> None:
        """``stmt`` with everything in it; statements without a place are where those around
        them are."""
        loc = stmt.loc or loc
        if isinstance(stmt, S.Seq):
            for child in stmt.stmts:
                self.block(child, loc, lets, site)
            return
        if loc is not None:
            self.accesses(stmt, self.lines.setdefault((loc.file, loc.line), Line(loc)), lets, site)
        if isinstance(stmt, S.Let):
            lets[stmt.var] = substitute(stmt.value, lets)
        if isinstance(stmt, S.If):
            cond = substitute(stmt.cond, lets)
            self.block(stmt.then, loc, lets, replace(site, conds=(*site.conds, cond)))
            if stmt.orelse is not None:
                other = E.unary("lnot", cond)
                self.block(stmt.orelse, loc, lets, replace(site, conds=(*site.conds, other)))
            return
        if isinstance(stmt, S.For):
            site = replace(site, loops=(*site.loops, (stmt.var, _values(stmt))))
        for block in stmt.blocks():
            self.block(block, loc, lets, site)

    def accesses(self, stmt: S.Stmt, line: Line, lets: dict[E.Var, E.Expr], site: Site) -> None:
        """The accesses of the expressions of ``stmt`` itself."""
        for move, buffer, indices, size, lanes in _moves(stmt):
            waves = None
            if move.memory == "shared" and self.count and not move.is_whole:
                address = substitute(_address(buffer, indices), lets)
                waves = waves_of(address, size, site, lanes)
            before = line.moves.get(move)
            line.moves[move] = waves if before is None or waves is None else before + waves
        for call in stmt.calls():
            if call.atom.effect is not Effect.NONE:
                name = _name(call)
                line.calls[name] = line.calls.get(name, 0) + 1
                if call.atom.lowered:
                    line.lowered.add(name)


def _name(call: E.Call) -> str:
    """The name of an instruction in a report."""
    if call.atom.lowered and call.attr("shape") is not None:
        return f"{call.op}.{call.attr('shape')}.{call.attr('a')}"
    return call.op


MovedAccess = tuple[Move, Buffer, tuple[E.Expr, ...], int, int | None]


def _moves(stmt: S.Stmt) -> Iterator[MovedAccess]:
    """Each access: what it is, buffer, indices, bytes of a lane, lanes that name addresses."""
    for access in effects.accesses(stmt):
        plain = access.kind is effects.Kind.PLAIN and isinstance(access.by, E.Load | S.Store)
        if plain and _memory(access.buffer):
            yield _plain("stores" if access.writes else "loads", access.buffer, access.indices)
    for call in stmt.calls():
        yield from _call(call)


def _plain(verb: str, buffer: Buffer, indices: tuple[E.Expr, ...]) -> MovedAccess:
    size = max(1, buffer.dtype.width // 8)
    return Move(verb, buffer.name, _memory(buffer), size), buffer, indices, size, None


def _call(call: E.Call) -> Iterator[MovedAccess]:
    for number, arg in enumerate(call.args):
        if not isinstance(arg, E.AddressOf) or not _memory(arg.buffer):
            continue
        verb = {"r": "loads", "w": "stores"}.get(arg.access, "updates")
        kind = _memory(arg.buffer)
        operand = (*call.atom.operands, *(VALUE,) * len(call.args))[number]
        if operand.space != VALUE.space and not operand.access:
            continue  # a barrier, or the tensor of a map: named, and not accessed by this
        if operand.proxy == "async":
            size = operand.bytes * int(call.attr(operand.times, 1)) if operand.times else 0
            move = Move(verb, arg.buffer.name, kind, size, call.op, is_whole=True)
            yield move, arg.buffer, arg.indices, 0, None
        elif operand.space == "shared" and operand.bytes and not operand.times:
            # A lane names a row of a matrix.
            count = int(call.attr("count", 1))
            name = f"{call.op}.x{count}" + (".trans" if call.attr("trans") else "")
            move = Move(verb, arg.buffer.name, kind, count * 4, name)
            yield move, arg.buffer, arg.indices, operand.bytes, 8 * count
        elif operand.times:
            size = operand.bytes * int(call.attr(operand.times, 1))
            name = call.atom.completes.name.replace("_", ".")
            yield Move(verb, arg.buffer.name, kind, size, name), arg.buffer, arg.indices, size, 32
        else:
            size = max(1, arg.buffer.dtype.bits // 8)
            move = Move(verb, arg.buffer.name, kind, size, call.op)
            yield move, arg.buffer, arg.indices, size, 32


def _memory(buffer: Buffer) -> str:
    """The word "global" or "shared"; empty for registers."""
    if buffer.storage == "global":
        return "global"
    return "shared" if buffer.storage.startswith("shared") else ""


def _address(buffer: Buffer, indices: tuple[E.Expr, ...]) -> E.Expr:
    """Bytes from the start of a shared buffer, which starts at a multiple of 16 bytes."""
    total = E.as_expr(buffer.elem_offset)
    for index, stride in zip(indices, buffer.stride_list()):
        total = E.binary("add", total, E.binary("mul", index, E.as_expr(stride)))
    bits = buffer.dtype.width
    if bits < 8:
        return E.binary("floordiv", total, E.const(8 // bits))
    return E.binary("mul", total, E.const(bits // 8))


def _values(loop: S.For) -> range:
    """The values of a loop variable; of a loop without constant bounds the first alone."""
    if values := values_of(loop):
        return values
    start = int(loop.start.value) if isinstance(loop.start, E.Const) else 0
    return range(start, start + 1)
