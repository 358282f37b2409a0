"""Accesses since the last barrier: which of them another access is compared with."""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype
from tilelang.transforms.sync.events import Access
from tilelang.transforms.sync.pending_accesses import PendingAccesses

INT = dtype("int32")


def tile(data: E.Var | None = None) -> Buffer:
    storage = E.Var("s", dtype("handle")) if data is None else data
    return Buffer(data=storage, name="s", shape=(8,), dtype=INT, storage="shared")


def access(buffer: Buffer, place: int | None, mode: str = "write") -> Access:
    """Of one element, or of all."""
    return Access(buffer, mode, (None if place is None else (E.const(place), 1),))


def test_an_element_is_compared_with_itself_and_with_what_is_not_one_element() -> None:
    s = tile()
    first, other, whole, again = (access(s, place) for place in (0, 1, None, 0))
    assert PendingAccesses((first, other, whole, again)).conflict_candidates(access(s, 0)) == [
        first,
        whole,
        again,
    ]
    assert PendingAccesses((first, other, whole)).conflict_candidates(access(s, None)) == [
        first,
        other,
        whole,
    ]


def test_reads_are_compared_with_writes_only() -> None:
    s = tile()
    read, write = access(s, 0, "read"), access(s, 0)
    assert PendingAccesses((read, write)).conflict_candidates(access(s, 0, "read")) == [write]
    assert PendingAccesses((read, write)).conflict_candidates(access(s, 0)) == [read, write]


def test_elements_of_another_name_of_the_storage_are_all_compared() -> None:
    s = tile()
    view = tile(s.data)
    near, far = access(s, 0), access(s, 5)
    assert PendingAccesses((near, far)).conflict_candidates(access(view, 0)) == [near, far]
    assert PendingAccesses((near, far)).conflict_candidates(access(tile(), 0)) == []


def test_pending_accesses_pass_through_a_block_until_a_barrier() -> None:
    s = tile()
    before, inside = access(s, 0), access(s, 0)
    live = PendingAccesses((before,))
    block = PendingAccesses(base=live)
    block.add((inside,))
    assert block.conflict_candidates(access(s, 0)) == [before, inside]
    assert live.conflict_candidates(access(s, 0)) == [before]
    block.assign(())
    assert block.conflict_candidates(access(s, 0)) == []
    assert list(live) == [before]


def test_kept_and_later_accesses_are_found() -> None:
    s = tile()
    first, second, third = (access(s, None) for _ in range(3))
    live = PendingAccesses((first, second))
    assert live.conflict_candidates(first) == [first, second]
    live.assign((first, second, third))
    assert live.conflict_candidates(first) == [first, second, third]
    live.assign((third, first))
    assert live.conflict_candidates(first) == [third, first]
