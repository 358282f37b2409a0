"""Initialize mbarriers in shared memory with their arrival counts before their first use.

An mbarrier is eight bytes that one thread initializes; a block barrier makes this visible to the
other threads. Both become statements after the allocation, so that later passes see them. Adjacent
allocations of mbarriers share one block barrier.

All threads must reach the block barrier. So the mbarriers of a branch that only some threads take,
such as a role, are allocated at the start of the kernel. In a divergent loop there is no such
position, because each iteration would need fresh mbarriers; that is an error.
"""

from __future__ import annotations

from math import prod

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import rewrite_blocks
from tilelang.target import Context, operations
from tilelang.target.alternatives import unavailable
from tilelang.transforms.analysis.groups import thread_number
from tilelang.transforms.rules import Cursor, rule

BARRIERS = ("shared.barrier", "shared.cluster_barrier")


@rule(S.Launch)
def initialize_barriers(launch: S.Launch, cursor: Cursor) -> S.Launch:
    """Initialize mbarriers before their first use.

    Raises:
        TileUnsupportedError: the target has no such barriers, or one is allocated in a loop that
            not all threads of the block run together.
    """
    if not any(map(_is_barrier, S.walk(launch.body))):
        return launch
    return launch.with_body(_Kernel(launch, cursor.context).body())


def _is_barrier(stmt: S.Stmt) -> bool:
    return isinstance(stmt, S.Alloc) and stmt.buffer.storage in BARRIERS


class _Kernel:
    def __init__(self, launch: S.Launch, context: Context) -> None:
        self.launch = launch
        self.context = context
        self.varying = Varying(launch)
        self.moved: list[S.Alloc] = []  # allocations that go to the start of the kernel
        # Whether copies signal barriers of other blocks of the cluster.
        self.is_cluster_wide = any(map(_signals_cluster, S.walk(launch.body)))

    def body(self) -> S.Stmt:
        """The body of the kernel."""
        body = self.block(self.launch.body, uniform=True, loop=False)
        return S.seq(*self.moved, *self.initialisation(self.moved), body) if self.moved else body

    def block(self, stmt: S.Stmt, uniform: bool, loop: bool) -> S.Stmt:
        """A block of statements.

        Args:
            together: whether all threads reach it, or none.
            loop: whether it may run more than once.
        """
        stmts: list[S.Stmt] = []
        uninitialized: list[S.Alloc] = []
        for inner in S.flat(stmt):
            if _is_barrier(inner):
                assert isinstance(inner, S.Alloc)
                self.check(inner, uniform or not loop)
                (uninitialized if uniform else self.moved).append(inner)
                stmts += [inner] if uniform else []
                continue
            if not isinstance(inner, S.Alloc):
                stmts += self.initialisation(uninitialized)
                uninitialized = []
            stmts.append(self.nested(inner, uniform, loop))
        return S.seq(*stmts, *self.initialisation(uninitialized))

    def nested(self, stmt: S.Stmt, uniform: bool, loop: bool) -> S.Stmt:
        """A statement with what is in it."""
        if isinstance(stmt, (S.If, S.For, S.While)):
            uniform = uniform and not self.varying.divides(stmt)
            loop |= not isinstance(stmt, S.If)
        return rewrite_blocks(stmt, lambda inner: self.block(inner, uniform, loop))

    def check(self, stmt: S.Alloc, placed: bool) -> None:
        """Refuse a barrier that cannot be initialised."""
        name, target = stmt.buffer.name, self.context.target
        if "mbarrier" not in target.features:
            raise unavailable(f"the barrier `{name}`", "mbarrier", target, stmt.loc)
        if not placed:
            raise TileUnsupportedError(
                f"the barrier `{name}` is allocated in a loop that not all threads run together",
                expected="an allocation before the loop",
                got="a loop whose iterations some threads of the block leave out",
                loc=stmt.loc,
            )

    def initialisation(self, allocs: list[S.Alloc]) -> list[S.Stmt]:
        """One thread sets the counts, and all wait for it."""
        if not allocs:
            return []
        loc = allocs[0].loc
        first = [_set(alloc.buffer, at, count) for alloc in allocs for at, count in _counts(alloc)]
        first.append(E.call(operations.FENCE_BARRIER_INIT))
        inits = S.seq(*(S.Eval(value=call, loc=loc) for call in first))
        barrier = S.do(operations.CLUSTER_SYNC if self.is_cluster_wide else "sync_threads", loc=loc)
        return [S.If(cond=thread_number(self.launch).equal(0), then=inits, loc=loc), barrier]


def _signals_cluster(stmt: S.Stmt) -> bool:
    call = stmt.call
    if call is None:
        return False
    return call.attr("blocks") is not None or call.atom is operations.BULK_COPY_CLUSTER


def _counts(alloc: S.Alloc) -> list[tuple[int, int]]:
    """The number and the arrivals of each barrier of an array."""
    counts = alloc.buffer.attrs.arrive_counts or (1,)
    length = prod(map(int, alloc.buffer.shape))
    return [(at, int(counts[at] if at < len(counts) else counts[0])) for at in range(length)]


def _set(buffer: Buffer, at: int, count: int) -> E.Expr:
    address = E.AddressOf(buffer, (E.const(at), *(E.const(0),) * (buffer.ndim - 1)), "w")
    return E.call(operations.MBARRIER_INIT, address, E.const(count))
