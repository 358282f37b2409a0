"""Loop fission at barriers: where one core runs the threads of a block one after the other.

Statements end in order, so a barrier that all threads reach together orders nothing that is not
ordered already. The generated code checks that they do reach it together: a thread that waits for
one that runs later would go on too early, so the call ends with an error. Barriers in memory count
their arrivals as they do on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.cpu.loops.privatization import INT, ThreadLoops
from tilelang.errors import TileUnsupportedError, at as located
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.target.features import FEATURES, lowest_with

NAMED = 16  # hardware barriers of a block
PENDING, PHASE, COUNT = range(3)  # of a barrier; the last one of those in memory only

MISSING = "threads wait at this barrier for others that do not reach it"
ALL_HERE = "all threads of the block that have not returned, or none of them"
ENOUGH = "as many threads as the barrier counts"
ZERO = (E.const(0),)


def unsupported_intrinsic(call: E.Call) -> TileUnsupportedError:
    """The error for an operation that exists on other targets only."""
    needs = call.atom.needs
    name = call.attr("name", call.op)
    unknown = call.op == "call_extern"
    otherwise = 'run it with execution_backend="interpret", or compile for a GPU target'
    if unknown:  # to the interpreter as well
        otherwise = "write the function with tile operations, or compile for a GPU target"
    return TileUnsupportedError(
        f"T.{'call_extern(...)' if unknown else name} is not available on the CPU"
        + (f": the function {name!r} is not known" if unknown else ""),
        expected="an operation that runs on any target",
        got=f"one that needs {lowest_with(needs) or 'device source'}",
        hint=f"compile it for a GPU of {lowest_with(needs)} or later; "
        'execution_backend="emulator" runs that code without one'
        if needs in FEATURES  # intrinsics: nothing else knows them
        else otherwise,
    )


def check_intrinsics(launch: S.Launch) -> None:
    """Refuse barriers that operations other than those counted here use.

    Intrinsics that complete a barrier need it as an object in memory, and none is left. The effects
    of unknown functions and of instructions of other targets are not known.
    """
    for stmt in S.walk(launch.body):
        with located(stmt.loc):
            for node in (sub_expr for expr in stmt.exprs() for sub_expr in E.walk(expr)):
                if isinstance(node, E.Call) and not (node.atom.is_sync or node.atom.optional):
                    foreign = node.atom.needs in FEATURES and not node.atom.emulated
                    if foreign or node.atom.by_name or any(map(_is_barrier, node.args)):
                        raise unsupported_intrinsic(node)


def _is_barrier(arg: E.Expr) -> bool:
    return isinstance(arg, (E.AddressOf, E.Load)) and arg.buffer.storage.endswith("barrier")


class Barriers:
    """Writes the barrier operations of one launch."""

    def __init__(self, loops: ThreadLoops) -> None:
        self.loops = loops
        self.states: dict[E.Var, Buffer] = {}  # storage of barriers -> what is known of each
        self.named: Buffer | None = None  # arrivals at the hardware barriers

    def head(self) -> list[S.Stmt]:
        """Statements at the head of the kernel."""
        if self.named is None:
            return []
        variables = tuple(E.Var(name, INT) for name in ("number", "field"))
        clear = S.Store(buffer=self.named, indices=variables, value=E.const(0))
        return [S.Alloc(buffer=self.named), S.nested(variables, self.named.shape, clear)]

    def alloc(self, stmt: S.Alloc) -> list[S.Stmt]:
        """Barriers in memory: arrivals that are missing, phase, arrivals of a phase."""
        buffer = stmt.buffer
        size = int(buffer.shape[0])
        counts = buffer.attrs.arrive_counts or (1,)
        state = Buffer(buffer.name, Shape((size, 3)), INT, "shared")
        self.states[buffer.data] = state
        out: list[S.Stmt] = [S.Alloc(buffer=state, loc=stmt.loc)]
        for barrier in range(size):
            count = int(counts[barrier] if len(counts) > 1 else counts[0])
            for field, value in ((PENDING, count), (PHASE, 0), (COUNT, count)):
                indices = (E.const(barrier), E.const(field))
                out.append(S.Store(buffer=state, indices=indices, value=E.const(value)))
        return out

    def operation(self, stmt: S.Eval, mask: E.Expr | None, masked: bool) -> list[S.Stmt]:
        """The checks and state updates of a barrier operation of the threads that pass ``mask``.

        Args:
            masked: whether that may be fewer than all.
        """
        call = stmt.value
        assert isinstance(call, E.Call) and call.atom.orders is not None
        match call.atom.orders.kind, call.atom.orders.scope:
            case "arrive", _ if call.atom.operands[0].space == "barrier id":
                return self._hardware_barrier(stmt, call.args, mask, ENOUGH)[:-1]
            case "arrive", _:
                return [self._arrive(stmt, call, mask)]
            case "wait", _:
                return [self._wait(stmt, call, mask)]
            case "rendezvous", "grid":
                return [*(self._check_convergence(stmt, mask) if masked else []), stmt]
            case "rendezvous", "block" if masked or self.named is not None:
                return self._block(stmt, call.args, mask, masked)
            case _:  # bytes arrive at once, and threads of a warp end statements in order
                return []

    def _block(
        self, stmt: S.Eval, args: tuple[E.Expr, ...], mask: E.Expr | None, masked: bool
    ) -> list[S.Stmt]:
        """A barrier of the block, or a named barrier of some of its threads."""
        if len(args) < 2 or (isinstance(args[0], E.Const) and int(args[0].value) < 0):
            return self._check_convergence(stmt, mask) if masked else []
        return self._hardware_barrier(stmt, args, mask, ENOUGH)

    # -- barriers in memory ----------------------------------------------------------------------
    def _state_index(self, arg: E.Expr, stmt: S.Eval) -> tuple[Buffer, E.Expr]:
        assert isinstance(arg, (E.AddressOf, E.Load))
        index = arg.indices[-1] if arg.indices else E.const(0)
        state = self.states.get(arg.buffer.data)
        if state is None:
            with located(stmt.loc):
                raise TileUnsupportedError(
                    f"`{arg.buffer.name}` is not a barrier on the CPU",
                    expected="an element of T.alloc_barrier",
                    got=f"{arg.buffer.storage} memory of {arg.buffer.dtype}",
                    hint="only a GPU takes another address for a barrier",
                )
        return state, index

    def _arrive(self, stmt: S.Eval, call: E.Call, mask: E.Expr | None) -> S.Stmt:
        state, index = self._state_index(call.args[0], stmt)

        field, put = _fields(state, index, stmt)
        over = S.seq(put(PHASE, field(PHASE) + 1), put(PENDING, field(COUNT)))
        last = S.If(cond=E.binary("eq", field(PENDING), 0), then=over)
        return self.loops.over([put(PENDING, field(PENDING) - 1), last], mask)

    def _wait(self, stmt: S.Eval, call: E.Call, mask: E.Expr | None) -> S.Stmt:
        state, index = self._state_index(call.args[0], stmt)
        phase = E.binary("bitand", E.Load(state, (index, E.const(PHASE))), 1)
        over = E.binary("ne", phase, E.binary("bitand", E.cast(call.args[1], INT), 1))
        check = S.Assert(cond=over, message=MISSING, threads=ENOUGH, loc=stmt.loc)
        return self.loops.over([check], mask)

    # -- barriers of the hardware ----------------------------------------------------------------
    def _count(self, mask: E.Expr | None) -> tuple[list[S.Stmt], E.Expr]:
        """The number of threads that are here."""
        total = Buffer("here", Shape((1,)), INT, "local.var")
        increment = S.Store(buffer=total, indices=ZERO, value=E.Load(total, ZERO) + 1)
        counting = [S.Alloc(buffer=total, init=E.const(0)), self.loops.over([increment], mask)]
        return counting, E.Load(total, ZERO)

    def _check_convergence(self, stmt: S.Eval, mask: E.Expr | None) -> list[S.Stmt]:
        """All threads that have not returned are here, or come before these go on."""
        count_all, total = self._count(None)
        return [*count_all, *self._hardware_barrier(stmt, (E.const(0), total), mask, ALL_HERE)]

    def _hardware_barrier(
        self, stmt: S.Eval, args: tuple[E.Expr, ...], mask: E.Expr | None, threads: str
    ) -> list[S.Stmt]:
        """Arrivals at the hardware barrier ``args[0]`` until they are ``args[1]``, and the wait."""
        if self.named is None:
            self.named = Buffer("arrived", Shape((NAMED, 2)), INT, "local")
        field, put = _fields(self.named, E.cast(args[0], INT), stmt)
        counting, added = self._count(mask)
        before = Buffer("before", Shape((1,)), INT, "local.var")
        missing = field(PENDING) + E.cast(args[1], INT)
        over = S.seq(put(PENDING, missing), put(PHASE, field(PHASE) + 1))
        right = E.binary("ne", field(PHASE), E.Load(before, ZERO))
        right = E.binary("lor", E.binary("eq", added, 0), right)
        check = S.Assert(cond=right, message=MISSING, threads=threads, loc=stmt.loc)
        head = [*counting, S.Alloc(buffer=before, init=field(PHASE))]
        return [
            *head, put(PENDING, field(PENDING) - added), S.If(cond=missing <= 0, then=over), check,
        ]  # fmt: skip


def _fields(
    state: Buffer, index: E.Expr, stmt: S.Eval
) -> tuple[Callable[[int], E.Expr], Callable[[int, E.Expr], S.Stmt]]:
    """Functions that read and write the state of a barrier, for ``stmt``."""

    def put(field: int, value: E.Expr) -> S.Stmt:
        return S.Store(buffer=state, indices=(index, E.const(field)), value=value, loc=stmt.loc)

    return lambda field: E.Load(state, (index, E.const(field))), put
