"""The rows of instructions: what passes read from them, written down here by name once more."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from refusals import refusal

from tilelang.errors import InternalError
from tilelang.ir import expr as E
from tilelang.ir.atoms import Atom, Effect
from tilelang.target.instruction_table import ROWS


def named(holds: Callable[[Atom], object]) -> set[str]:
    return {name for name, atom in ROWS.items() if holds(atom)}


def test_what_has_no_effect_on_results_orders_nothing() -> None:
    assert named(lambda atom: atom.effect is Effect.HINT) == {
        "assume", "set_max_nreg", "no_set_max_nreg", "disable_warp_group_reg_alloc",
        "annotate_producer_reg_dealloc", "annotate_consumer_reg_alloc",
    }  # fmt: skip
    assert not named(lambda atom: atom.orders and atom.effect is Effect.HINT)


VOTES = {"syncthreads_count", "syncthreads_and", "syncthreads_or"}
SIGNALS = {
    "named_barrier_arrive", "mbarrier_arrive", "mbarrier_wait", "mbarrier_expect_tx",
    "mbarrier_arrive_expect_tx", "cp_async_barrier_noinc",
}  # fmt: skip
ARRIVALS = {"ptx_wait_group", "cp_async_wait", "loads_wait"}


@pytest.mark.parametrize(
    "expected, holds",
    [
        ({"sync_threads", "sync_grid", *VOTES}, lambda atom: atom.is_barrier("block", "grid")),
        ({"sync_warp"}, lambda atom: atom.is_barrier("warp")),
        (SIGNALS, lambda atom: atom.signals),
        (ARRIVALS, lambda atom: atom.waits_for("cp_async")),
        ({"wait_wgmma", "warpgroup_wait"}, lambda atom: atom.waits_for("wgmma")),
        ({"sync_threads", "sync_grid", "mbarrier_wait"}, lambda atom: atom.may_wait),
        ({"sync_threads", "sync_grid", "sync_warp", *SIGNALS}, lambda atom: atom.is_sync),
        ({"thread_allreduce", *VOTES}, lambda atom: atom.exchanges == "block"),
        ({"call_extern", "call_intrin"}, lambda atom: atom.by_name),
        (
            {f"atomic_{op}" for op in ("add", "max", "min", "or", "and", "xor", "addx2", "addx4")},
            lambda atom: atom.update,
        ),
        ({"atomic_addx2", "atomic_addx4"}, lambda atom: atom.elements > 1),
    ],
)
def test_what_passes_ask(expected: set[str], holds: Callable[[Atom], object]) -> None:
    assert named(holds) == expected


def test_operands_are_read_and_written_by_position() -> None:
    found = {name: (row.reads, row.writes) for name, row in ROWS.items()}
    assert found["mma"] == ((0, 1, 2), (0,))
    assert found["cp_async"] == ((1,), (0,))
    assert found["atomic_addx2"] == ((0, 1), (0, 2))
    assert found["mbarrier_wait"] == ((), ())


def test_rows_have_the_operands_that_they_describe() -> None:
    for atom in ROWS.values():
        assert atom.high < 0 or len(atom.operands) <= atom.high, atom.name
        if atom.completes.kind == "mbarrier":
            raw = atom.effect is Effect.OUTPUT and atom.own_order
            assert raw or atom.lowered, atom.name


def test_a_name_without_a_row_is_an_error() -> None:
    assert "the intrinsic 'nothing' does not exist" in refusal(InternalError, E.call, "nothing")


def test_a_call_that_is_read_back_is_the_same() -> None:
    for name in ("exp", "mbarrier_wait", "ptx_wait_group"):
        call = E.call(ROWS[name], *(E.const(1.0),) * ROWS[name].low)
        assert pickle.loads(pickle.dumps(call)) is call
