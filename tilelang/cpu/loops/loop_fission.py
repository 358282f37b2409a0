"""Loop fission at barriers: where one core runs the threads of a block one after the other.

Statements end in order, so a barrier that all threads reach together orders nothing that is not
ordered already. The generated code checks that they do reach it together: a thread that waits for
one that runs later would go on too early, so the call ends with an error. Barriers in memory count
their arrivals as they do on a GPU.
"""

from __future__ import annotations

from tilelang.cpu.loops.privatization import INT, ThreadLoops
from tilelang.errors import TileUnsupportedError, at as located
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.target.features import FEATURES, lowest_with

NAMED = 16  # hardware barriers of a block
PENDING, PHASE, COUNT = range(3)  # of a barrier in memory

LATER = (
    "threads wait here for threads that run later on the CPU, where one core runs the "
    "threads of a block statement by statement"
)
NEVER = "not all threads of the block reach this barrier"
ALL_HERE = "all threads of the block that have not returned, or none of them"
ENOUGH = "as many threads as the barrier counts, before the first of them waits"
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
                if isinstance(node, E.Call) and not (node.atom.synchronises or node.atom.optional):
                    foreign = node.atom.needs in FEATURES and not node.atom.emulated
                    if foreign or node.atom.by_name or any(map(_is_barrier, node.args)):
                        raise unsupported_intrinsic(node)


def _is_barrier(arg: E.Expr) -> bool:
    return isinstance(arg, (E.AddressOf, E.Load)) and arg.buffer.storage.endswith("barrier")


def _count_barriers(launch: S.Launch) -> int:
    """Number of statements that are barriers of threads."""
    calls = (stmt.value for stmt in S.find(launch.body, S.Eval))
    orders = (call.atom.orders for call in calls if isinstance(call, E.Call))
    return sum(each is not None and each.kind == "rendezvous" for each in orders)


class Barriers:
    """Writes the barrier operations of one launch."""

    def __init__(self, launch: S.Launch, loops: ThreadLoops) -> None:
        self.loops = loops
        self.several = _count_barriers(launch) > 1  # the others may come at another barrier
        self.states: dict[E.Var, Buffer] = {}  # storage of barriers -> what is known of each
        self.named: Buffer | None = None  # arrivals at the hardware barriers

    def head(self) -> list[S.Stmt]:
        """Statements at the head of the kernel."""
        if self.named is None:
            return []
        number = E.Var("number", INT)
        clear = S.Store(buffer=self.named, indices=(number,), value=E.const(0))
        return [S.Alloc(buffer=self.named), S.counted(number, NAMED, clear)]

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
                self._arrival_counts()
                return self._hardware_barrier(stmt, call.args[0], None, mask)
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
        if not args or (isinstance(args[0], E.Const) and int(args[0].value) < 0):
            return self._check_convergence(stmt, mask) if masked else []
        if len(args) == 1:
            return self._check_convergence(stmt, mask) if masked else []
        self._arrival_counts()
        return self._hardware_barrier(stmt, args[0], args[1], mask)

    # -- barriers in memory ----------------------------------------------------------------------
    def _state_index(self, arg: E.Expr, stmt: S.Eval) -> tuple[Buffer, E.Expr]:
        assert isinstance(arg, (E.AddressOf, E.Load))
        index = arg.indices[-1] if arg.indices else E.const(0)
        state = self.states.get(arg.buffer.data)
        if state is None:
            with located(stmt.loc):
                raise TileUnsupportedError(
                    f"`{arg.buffer.name}` is no barrier on the CPU",
                    expected="an element of T.alloc_barrier",
                    got=f"{arg.buffer.storage} memory of {arg.buffer.dtype}",
                    hint="only a GPU takes another address for a barrier",
                )
        return state, index

    def _arrive(self, stmt: S.Eval, call: E.Call, mask: E.Expr | None) -> S.Stmt:
        state, index = self._state_index(call.args[0], stmt)

        def field(field_index: int) -> E.Expr:
            return E.Load(state, (index, E.const(field_index)))

        def put(field_index: int, value: E.Expr) -> S.Stmt:
            return S.Store(
                buffer=state, indices=(index, E.const(field_index)), value=value, loc=stmt.loc
            )

        over = S.seq(put(PHASE, field(PHASE) + 1), put(PENDING, field(COUNT)))
        last = S.If(cond=E.binary("eq", field(PENDING), 0), then=over)
        return self.loops.over([put(PENDING, field(PENDING) - 1), last], mask)

    def _wait(self, stmt: S.Eval, call: E.Call, mask: E.Expr | None) -> S.Stmt:
        state, index = self._state_index(call.args[0], stmt)
        phase = E.binary("bitand", E.Load(state, (index, E.const(PHASE))), 1)
        parity = E.binary("bitand", E.cast(call.args[1], INT), 1)
        over = E.binary("ne", phase, parity)
        return self.loops.over(
            [S.Assert(cond=over, message=LATER, threads=ENOUGH, loc=stmt.loc)], mask
        )

    # -- barriers of the hardware ----------------------------------------------------------------
    def _arrival_counts(self) -> Buffer:
        if self.named is None:
            self.named = Buffer("arrived", Shape((NAMED,)), INT, "local")
        return self.named

    def _count(self, mask: E.Expr | None) -> tuple[list[S.Stmt], E.Expr]:
        """The number of threads that are here."""
        total = Buffer("here", Shape((1,)), INT, "local.var")
        increment = S.Store(buffer=total, indices=ZERO, value=E.Load(total, ZERO) + 1)
        return [S.Alloc(buffer=total, init=E.const(0)), self.loops.over([increment], mask)], E.Load(
            total, ZERO
        )

    def _check_convergence(self, stmt: S.Eval, mask: E.Expr | None) -> list[S.Stmt]:
        """All threads that have not returned are here, or none of them is."""
        counting, arrived = self._count(mask)
        count_all, total = self._count(None)
        right = E.binary("lor", E.binary("eq", arrived, total), E.binary("eq", arrived, 0))
        text = LATER if self.several else NEVER
        failed = S.Assert(cond=right, message=text, threads=ALL_HERE, loc=stmt.loc)
        return [*counting, *count_all, failed]

    def _hardware_barrier(
        self, stmt: S.Eval, ident: E.Expr, count: E.Expr | None, mask: E.Expr | None
    ) -> list[S.Stmt]:
        """Arrivals at a named hardware barrier; with ``count`` that many have to be there."""
        named = self._arrival_counts()
        at = (E.cast(ident, INT),)
        counting, added = self._count(mask)
        arrived = E.Load(named, at)
        add = S.Store(buffer=named, indices=at, value=arrived + added, loc=stmt.loc)
        if count is None:
            return [*counting, add]
        need = E.cast(count, INT)
        enough = E.binary("lor", arrived >= need, E.binary("eq", added, 0))
        remaining = E.select(arrived >= need, arrived - need, arrived)
        done = S.Store(buffer=named, indices=at, value=remaining, loc=stmt.loc)
        failed = S.Assert(cond=enough, message=LATER, threads=ENOUGH, loc=stmt.loc)
        return [*counting, add, failed, done]
