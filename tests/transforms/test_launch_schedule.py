"""The schedule of a launch: what is chosen, what a program can state, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_90A, agrees
from gemm_program import gemm_program
from refusals import refusal
from schedule_steps import apply_all, launch_of

import tilelang
import tilelang.language as T
from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.explain.report import explain
from tilelang.ir.launch_schedule import VALUES, Schedule
from tilelang.options import Options
from tilelang.target import parse_target

HOPPER = parse_target("cuda -arch=sm_90a")
M, N, K = 256, 128, 256


def product(out: str = "float16", M: int = M, **stated: Any) -> Any:
    """A product whose schedule has some fields."""
    return gemm_program(M, N, K, (128, 128, 64), 3, 256, out=out, stated=stated)


def schedule_of(func: Any, options: Options | None = None) -> Schedule:
    schedule = launch_of(apply_all(func, HOPPER, options)).schedule
    assert schedule is not None
    return schedule


# -- what is chosen --
def test_the_cheapest_schedule_is_chosen() -> None:
    schedule = schedule_of(product())
    assert schedule.stated() == {
        "persistent": False, "epilogue": "staged", "roles": "producer", "tile_order": "grid",
        "barriers": "stage", "overlap": "none", "prefetch_tiles": False, "stages": (3,),
        "registers": (232, 40),
    }  # fmt: skip
    legal = [other.price for other in schedule.others if not other.why]
    assert schedule.price is not None and schedule.price <= min(legal)


def test_the_report_shows_the_schedule_and_the_others() -> None:
    text = explain(product(), HOPPER, Options())
    assert "  schedule: epilogue='staged', roles='producer', stages=(3,), registers=" in text
    assert "    or epilogue='direct': " in text
    text = explain(product("float32", M=133 * 128, roles="producer"), HOPPER, Options())
    assert "    or persistent=True, epilogue='overlapped': " in text
    assert ", not legal: it is not a loop of one product whose result" in text


# -- what a program states --
LEGAL = [
    {"epilogue": "direct"},
    {"stages": 2},
    {"registers": (200, 24)},
    {"memory": "shortest"},
    {"roles": "one", "epilogue": "direct", "stages": 2},
]


@pytest.mark.parametrize("stated", LEGAL, ids=str)
def test_a_stated_schedule_is_applied(stated: dict[str, Any]) -> None:
    func = product(**stated)
    schedule = schedule_of(func)
    wanted = {name: (n,) if name == "stages" else n for name, n in stated.items()}
    assert {name: getattr(schedule, name) for name in stated} == wanted
    rng = np.random.default_rng(0)
    A, B = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    agrees(func, (A, B, np.zeros((M, N), np.float16)), on=(SM_90A,))


def test_a_stated_schedule_is_printed() -> None:
    text = product(roles="one", stages=2).script()
    assert "T.annotate_schedule(roles='one', stages=(2,))" in text


def test_later_statements_add_fields() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):  # type: ignore[no-untyped-def]  # traced
        with T.Kernel(1, threads=64):
            T.annotate_schedule(roles="one", epilogue="direct")
            T.annotate_schedule(roles="producer")
            for i in T.Parallel(64):
                A[i] = 0.0

    assert launch_of(kernel).schedule == Schedule(roles="producer", epilogue="direct")


def test_every_value_has_a_meaning() -> None:
    assert all(meaning for values in VALUES.values() for meaning in values.values())


# -- what is refused --
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"rolls": "one"}, TileTypeError,
        "T.annotate_schedule of an unknown field\n"
        "  expected: persistent, epilogue, roles, tile_order, barriers, overlap, prefetch_tiles, "
        "memory, stages, registers\n  got: rolls",
    ),
    (
        {"roles": "two"}, TileValueError,
        "T.annotate_schedule of an unknown value of roles\n"
        "  expected: 'one', 'producer'\n  got: 'two'",
    ),
    (
        {"stages": (2, 3)}, TileValueError,
        "T.annotate_schedule of an unknown value of stages\n"
        "  expected: one number above 0\n  got: (2, 3)",
    ),
    (
        {"registers": 40}, TileValueError,
        "T.annotate_schedule of an unknown value of registers\n"
        "  expected: two numbers above 0\n  got: (40,)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("stated", "kind", "message"), REFUSED, ids=str)
def test_unknown_fields_and_values(
    stated: dict[str, Any], kind: type[Exception], message: str
) -> None:
    assert message in refusal(kind, product, **stated)


HINT = "\n  hint: leave the field out: kernel.explain() shows what is chosen, and from what"
ILLEGAL: list[tuple[dict[str, Any], str]] = [
    (
        {"overlap": "ping_pong"},
        "overlap='ping_pong': it needs exactly one loop, with several products",
    ),
    (
        {"overlap": "rotate"},
        "overlap='rotate': an iteration is not a product, element-wise work, and a second product",
    ),
    (
        {"persistent": True},
        "persistent=True: it has no more tiles than 132 multiprocessors",
    ),
    (
        {"tile_order": "longest_first"},
        "tile_order='longest_first': all tiles have loops of the same length",
    ),
    (
        {"roles": "one", "persistent": True, "M": 133 * 128},
        "persistent=True, roles='one', which exclude each other",
    ),
    (
        {"registers": (256, 256)},
        "roles='producer': 256 registers for consumers and 256 for a producer are too many",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("stated", "why"), ILLEGAL, ids=str)
def test_schedules_that_are_not_legal(stated: dict[str, Any], why: str) -> None:
    if "registers" in stated:
        stated = {**stated, "roles": "producer"}
    with pytest.raises(TileUnsupportedError) as error:
        tilelang.compile(product(**stated), target=HOPPER)
    text = str(error.value)
    assert "the schedule that T.annotate_schedule states is not legal" in text
    assert "\n  expected: a schedule that the kernel and the target allow" in text
    assert f"  got: {why}" in text and HINT in text


def test_options_forbid_what_a_program_states() -> None:
    with pytest.raises(TileUnsupportedError) as error:
        schedule_of(product(roles="producer"), Options(no_roles=True))
    assert "roles='producer': warp specialization is not available" in str(error.value)
