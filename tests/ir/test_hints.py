"""Hints: what a program states by name is read once, the rest stays apart; defaults are silent."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.ir.hints import CopyHints, GemmHints, Hints, LaunchHints, LoopHints

KINDS = Hints.__subclasses__()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_stated_at_first(kind: type[Hints]) -> None:
    assert not kind() and kind().stated == () and kind() == kind.of(())
    assert kind().without(*(item.name for item in fields(kind))).stated == ()


@pytest.mark.parametrize("kind", KINDS)
def test_programs_and_levels_name_fields(kind: type[Hints]) -> None:
    assert {*kind.program, *kind.schedule} <= {item.name for item in fields(kind)}


def test_unknown_statements_are_not_fused() -> None:
    hints = LoopHints.of([("num_stages", 3), ("mine", 1), ("counted", 2), ("order", "up")])
    assert hints.num_stages == 3 and hints.counted == 0 and hints.order is None
    assert hints.other == (("mine", 1), ("counted", 2), ("order", "up"))
    assert hints.stated == (("num_stages", 3), *hints.other)
    assert hints.without("other") == LoopHints(num_stages=3)


def test_a_copy_differs_only_in_stated_fields() -> None:
    hints = GemmHints(k_run=2)
    assert hints.without("swapped") is hints
    assert hints.without("k_run") == GemmHints() != hints
    assert hints.has_only("k_run", "panels") and not hints.has_only("panels")


def test_hints_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        LaunchHints().shared_bytes = 1  # type: ignore[misc]  # what is tested


def hinted() -> S.PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(1)
            T.tma_copy(A, tile, barrier=full[0], annotations={"emit_arrive": 1, "own": 2})
            for i in T.serial(2, annotations={"a.b": 3, "mine": 4}):
                T.copy(tile[i, :], B[i, :], eviction_policy="evict_first", disable_tma=True)
            for i in T.Pipelined(4, num_stages=2, stage=[0, 1]):
                for j in T.Parallel(64, coalesced_width=2):
                    B[i, j] = tile[i, j]

    return main


def test_they_are_printed_as_programs_state_them() -> None:
    script = hinted().script()
    for line in (
        'T.tma_copy(A, tile, barrier=T.address_of(full[0]), annotations={"emit_arrive": 1, "own": 2})',
        'for i in T.serial(2, mine=4, annotations={"a.b": 3}):',
        'disable_tma=True, eviction_policy="evict_first")',
        "in T.Pipelined(4, num_stages=2, stage=(0, 1)):",
        "in T.Parallel(64, coalesced_width=2):",
    ):
        assert line in script, script


def test_operations_carry_them() -> None:
    (first, second) = S.find(hinted().body, S.Copy)
    assert first.arrives and first.hints.other == (("annotations", (("own", 2),)),)
    assert second.hints == CopyHints(disable_tma=True, eviction_policy="evict_first")
