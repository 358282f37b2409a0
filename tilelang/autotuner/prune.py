"""Pruning: drop configurations that cannot work or cannot be fast, by the traced program.

The compiler would reject the first kind by the same rules, after some tenths of a second each: a
tile of a pipelined loop has ``num_stages`` versions, and all tiles that copies of one loop fill are
alive at once.
"""

from __future__ import annotations

from itertools import chain
from math import prod

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.effects import Access, accesses
from tilelang.target import Target

_REGISTER = 4  # bytes


def reason_to_skip(func: S.PrimFunc, target: Target) -> str | None:
    """Why ``func`` need not be compiled for ``target``; None where it may be fast."""
    if not target.is_gpu:
        return None
    limits = target.concrete().limits
    for launch in S.find(func.body, S.Launch):
        threads = prod(launch.threads)
        if threads > limits.threads:
            return f"{threads} threads, a block can have {limits.threads}"
        shared = shared_at_least(launch)
        if shared > limits.shared_block:
            return (
                f"at least {shared} bytes of shared memory, a block can have {limits.shared_block}"
            )
        registers = accumulators(launch) // threads
        if registers > limits.registers_thread:
            limit = limits.registers_thread
            return f"{registers} registers of accumulators, a thread can have {limit}"
    return None


def reason_to_spill(func: S.PrimFunc, target: Target) -> str | None:
    """Why ``func`` is expected to spill registers on ``target``, which also takes long to compile:
    the tiles that are alive during a reduction fill the registers."""
    limit = target.concrete().limits.registers_thread if target.is_gpu else 0
    if not limit:  # unknown
        return None
    for launch in S.find(func.body, S.Launch):
        registers = alive_at_reductions(launch) // prod(launch.threads)
        if registers > limit:
            return f"{registers} registers of tiles are alive at a time, a thread can have {limit}"
    return None


def alive_at_reductions(launch: S.Launch) -> int:
    """The most registers of all threads that fragments take which are alive across a reduction."""
    highest = 0
    for block in S.walk(launch.body):
        stmts = block.stmts if isinstance(block, S.Seq) else ()
        for at, stmt in enumerate(stmts):
            if isinstance(stmt, S.Reduce):
                before = chain.from_iterable(map(_of_tiles, stmts[:at]))
                filled = {access.data for access in before if access.writes}
                later: dict[E.Var, Access] = {}
                for access in chain.from_iterable(map(_of_tiles, stmts[at + 1 :])):
                    later.setdefault(access.data, access)
                needed = (later[data] for data in filled & later.keys() if later[data].reads)
                highest = max(highest, sum(_bytes(access.buffer) // _REGISTER for access in needed))
    return highest


def _of_tiles(stmt: S.Stmt) -> list[Access]:
    """Accesses to fragments, reads first: a loop reads elements before it writes them."""
    all_accesses = accesses(stmt, nested=True)
    of_fragments = [access for access in all_accesses if access.buffer.scope() == "local.fragment"]
    return sorted(of_fragments, key=lambda access: not access.reads)


def shared_at_least(launch: S.Launch) -> int:
    """Bytes of the largest tile, or of the tiles that the copies of one pipelined loop fill."""
    largest = 0
    for stmt in S.walk(launch.body):
        if isinstance(stmt, S.Alloc) and _is_shared(stmt.buffer):
            largest = max(largest, _bytes(stmt.buffer))
        elif isinstance(stmt, S.For):
            stages = stmt.hints.num_stages or 0
            if stmt.kind == "pipelined" and stages > 1:
                largest = max(largest, stages * sum(map(_bytes, _filled(stmt.body))))
    return largest


def _filled(body: S.Stmt) -> list[Buffer]:
    """The shared tiles that copies from global memory directly in ``body`` fill."""
    stmts = S.flat(body)
    tiles = {
        stmt.dst.buffer.data: stmt.dst.buffer
        for stmt in stmts
        if isinstance(stmt, S.Copy) and _is_shared(stmt.dst.buffer) and stmt.src.scope() == "global"
    }
    return list(tiles.values())


def _is_shared(buffer: Buffer) -> bool:
    return buffer.scope().startswith("shared")


def accumulators(launch: S.Launch) -> int:
    """Registers of all threads that the largest accumulator of a product takes."""
    regions = (stmt.c for stmt in S.find(launch.body, S.Gemm))
    tiles = [region.buffer for region in regions if region.scope() == "local.fragment"]
    return max(map(_bytes, tiles), default=0) // _REGISTER


def _bytes(buffer: Buffer) -> int:
    """Size of a tile; 0 where it is not constant."""
    extents = [extent for extent in buffer.shape if isinstance(extent, int)]
    return 0 if len(extents) < len(buffer.shape) else prod(extents) * buffer.dtype.width // 8
