"""Operations that the threads of a branch can distribute among themselves."""

from __future__ import annotations

from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects, stmt as S
from tilelang.ir.elementwise import loop_of
from tilelang.transforms.analysis.groups import ThreadGroups
from tilelang.transforms.analysis.scopes import FRAGMENT


def check_sharing(stmt: S.Stmt, groups: ThreadGroups) -> None:
    """Refuse an operation in a branch of threads that are not whole warps, unless they are known
    and distribute its elements without a barrier. A single thread needs none: it holds all
    of the fragments that are used by it only.

    Raises:
        TileUnsupportedError: the threads depend on data, need a barrier or a fragment, or compute
            a product with different operands.
    """
    if stmt in groups.differing_operands:
        name = groups.differing_operands[stmt].buffer.name
        lo, count = groups.of(stmt)
        raise TileUnsupportedError(
            f"the gemm operand `{name}` differs between the threads that compute the product",
            expected="one address for all of them: they compute the product together",
            got=f"an index computed from the thread index, for threads {lo} to {lo + count - 1}",
            hint="name the operands of all these threads, or write a branch for each warpgroup "
            "(`if tx < 128:`) with a product of its own",
            loc=stmt.loc,
        )
    known = stmt not in groups.divergent
    lo, count = groups.of(stmt)
    serial = isinstance(stmt, S.Reduce) or loop_of(stmt) is not None
    serial |= isinstance(stmt, S.Scan) and stmt.src.buffer.storage != FRAGMENT
    alone = serial and groups.is_alone(stmt)
    if (known and (stmt not in groups.partial or alone)) or _is_private(stmt, known):
        return
    expected = (
        "a condition that is the same for all threads, or that whole warps share (such as "
        "`tx < 128`)"
    )
    got = "a condition that differs between the threads of a warp"
    if known:
        expected += (
            "; other threads may copy, fill, reduce and scan shared and global memory, and one "
            "thread alone may use fragments of its own"
        )
        threads = f"threads {lo} to {lo + count - 1}"
        if stmt in groups.elected:
            threads = "some threads that are not consecutive"
        got = f"an operation that needs whole warps, by {threads}"
        for access in effects.accesses(stmt, nested=True):
            if access.buffer.storage == FRAGMENT:
                name = access.buffer.name
                got = f"{threads} with the fragment `{name}`, of which others hold parts"
    raise TileUnsupportedError(
        "a tile operation is in a branch that only some threads of a warp execute",
        expected=expected,
        got=got,
        hint="move the operation out of the branch, or write it with plain loads and stores",
        loc=stmt.loc,
    )


def _is_private(stmt: S.Stmt, known: bool) -> bool:
    """Whether any threads that are known can distribute the elements of an operation without
    waiting, or each has elements of its own."""
    storage = {access.buffer.storage for access in effects.accesses(stmt, nested=True)}
    if loop_of(stmt) is None and not isinstance(stmt, S.PrintTile):
        return storage <= {"local", "local.var"}
    return known and FRAGMENT not in storage
