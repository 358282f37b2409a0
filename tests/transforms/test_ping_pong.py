"""Ping-pong scheduling of two warpgroups: what is written, when, and results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_90A, holds
from schedule_steps import apply_all, launch_of
from test_schedule_verifier import Edit

import tilelang.language as T
from tilelang.explain.report import explain
from tilelang.ir import schedule as H, stmt as S
from tilelang.options import Options
from tilelang.target import parse_target
from tilelang.transforms.schedule import ping_pong, specialize_warps
from tilelang.transforms.verify.schedule import refusal

HOPPER = parse_target("cuda -arch=sm_90a")
NOTE = "the warpgroups alternate iterations (ping-pong) and pass their operand on"


def latent(  # type: ignore[no-untyped-def]  # a traced function
    *, blocks: int = 4, heads: int = 64, dim: int = 128, extra: int = 64, keys: int = 64,
    stages: int = 2, tail: int = 0, dtype: str = "float16", staged: bool = True, rows: int = 64,
    dynamic: bool = False, spread: bool = False, before: bool = False, seen: bool = False,
    fresh: bool = False, threads: int = 256, other: bool = False, carried: bool = False,
):  # fmt: skip
    """Latent attention without the division, exact for small scores: sums of values by powers of
    two, of these powers, and the maxima. ``tail``: keys of the last block that do not exist."""
    length = blocks * keys - tail

    @T.prim_func
    def main(
        n: T.int32, Q: T.Tensor((heads, dim), dtype), E: T.Tensor((heads, extra), dtype),
        KV: T.Tensor((length, dim), dtype), KE: T.Tensor((length, extra), dtype),
        O: T.Tensor((heads, dim), dtype if staged else "float32"),
        totals: T.Tensor((heads,), "float32"), tops: T.Tensor((heads,), "float32"),
    ):  # fmt: skip
        with T.Kernel(heads // rows, threads=threads) as bx:
            q = T.alloc_shared((rows, dim), dtype)
            e = T.alloc_shared((rows, extra), dtype)
            kv = T.alloc_shared((keys, dim), dtype)
            ke = T.alloc_shared((keys, extra), dtype)
            p = T.alloc_shared((rows, keys), dtype)
            o = T.alloc_shared((rows, dim), dtype)
            s = T.alloc_fragment((rows, keys), "float32")
            out = T.alloc_fragment((rows, dim), "float32")
            top = T.alloc_fragment((rows,), "float32")
            old = T.alloc_fragment((rows,), "float32")
            factor = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            kept = T.alloc_fragment((rows, keys), "float32")
            T.copy(Q[bx * rows, 0], q)
            T.copy(E[bx * rows, 0], e)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            if carried:
                T.fill(kept, 0)
            for k in T.Pipelined(n if dynamic else blocks, num_stages=stages):
                T.copy(KV[k * keys, 0], kv)
                T.copy(KE[k * keys, 0], ke)
                if before:
                    T.fill(part, 0)
                T.clear(s)
                T.gemm(q, kv, s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(e, ke, s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                if tail:
                    for i, j in T.Parallel(rows, keys):
                        s[i, j] = T.if_then_else(
                            k * keys + j < length, s[i, j], -T.infinity("float32")
                        )
                if carried:
                    for i, j in T.Parallel(rows, keys):
                        kept[i, j] = kept[i, j] + s[i, j]
                T.copy(top, old)
                T.reduce_max(s, top, dim=1, clear=False)
                for i in T.Parallel(rows):
                    factor[i] = T.exp2(old[i] - top[i])
                if spread:
                    for i, j in T.Parallel(rows, dim):
                        out[i, j] = out[i, dim - 1 - j] * factor[i]
                else:
                    for i, j in T.Parallel(rows, dim):
                        out[i, j] = out[i, j] * factor[i]
                if fresh:
                    T.fill(factor, 1)
                for i, j in T.Parallel(rows, keys):
                    s[i, j] = T.exp2(s[i, j] - top[i])
                T.reduce_sum(s, part, dim=1)
                T.copy(s, p)
                for i in T.Parallel(rows):
                    total[i] = total[i] * factor[i] + part[i]
                if other:
                    T.copy(p, s)
                T.gemm(p, kv, out, policy=T.GemmWarpPolicy.FullCol)
            if seen:
                T.copy(part, totals[bx * rows])
            else:
                T.copy(total, totals[bx * rows])
            T.copy(top, tops[bx * rows])
            if staged:
                T.copy(out, o)
                T.copy(o, O[bx * rows, 0])
            else:
                T.copy(out, O[bx * rows, 0])

    return main


def rounded(values: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """``values`` as arrays of a program have them: bfloat16 by its bits, rounded to even."""
    if dtype != "bfloat16":
        return values.astype(dtype.as_numpy())
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def arrays(func: Any) -> tuple[Any, ...]:
    """Arguments of a program with few scores but for zero, and its results last."""
    (heads, dim), (_, extra), (length, _) = (func.params[k].shape for k in (1, 2, 3))
    rng = np.random.default_rng(length)
    Q, E = np.zeros((heads, dim)), np.zeros((heads, extra))
    for row in range(heads):
        Q[row, rng.choice(dim, 3, replace=False)] = rng.integers(-1, 2, 3)
        E[row, rng.choice(extra, 2, replace=False)] = rng.integers(-1, 2, 2)
    KV, KE = rng.integers(-1, 2, (length, dim)), rng.integers(-1, 2, (length, extra))
    given = [rounded(array, func.params[1].dtype) for array in (Q, E, KV, KE)]
    scores = Q @ KV.T + E @ KE.T
    tops = scores.max(1)
    weights = np.exp2(scores - tops[:, None])
    O = rounded(weights @ KV, func.params[5].dtype)
    return *given, O, weights.sum(1).astype(np.float32), tops.astype(np.float32)


def written(func: Any, options: Options | None = None) -> S.PrimFunc:
    """The program with its schedule."""
    return apply_all(func, HOPPER, options)


def by_turns(func: Any, options: Options | None = None) -> bool:
    """Whether two warpgroups alternate."""
    schedule = launch_of(written(func, options)).schedule
    return schedule is not None and schedule.overlap == "ping_pong"


# -- results --
@pytest.mark.parametrize(
    ("given", "turns"),
    [
        ({"blocks": 1}, False),
        ({"blocks": 3}, False),
        ({"stages": 4, "blocks": 10}, True),
        ({"tail": 37}, True),
        ({"dtype": "bfloat16"}, True),
        ({"heads": 128, "dim": 256}, True),
        ({"dim": 512, "blocks": 2}, True),
        ({"keys": 32}, True),
        ({"keys": 128, "extra": 128}, True),
        ({"staged": False}, True),
    ],
)  # fmt: skip
def test_results(given: dict[str, Any], turns: bool) -> None:
    func = latent(**given)
    assert by_turns(func) is turns
    *args, O, totals, tops = arrays(func)
    holds(func, (4, *args, 0 * O, 0 * totals, 0 * tops), O, totals, tops, on=(SM_90A,))


def test_the_report_says_so() -> None:
    assert NOTE in explain(latent(), HOPPER, Options())
    assert NOTE not in explain(latent(blocks=3), HOPPER, Options())


# -- what keeps its order --
@pytest.mark.parametrize(
    "given",
    [
        {"blocks": 3},
        {"stages": 3},
        {"dynamic": True},
        {"rows": 128, "heads": 128},
        {"rows": 64, "threads": 128},
        {"spread": True},  # a column of the result asks for another one
        {"fresh": True},  # the factor is another one behind its use
        {"carried": True},  # a whole tile goes from item to item
        {"other": True},  # the weights are read by something else
        {"seen": True},  # what one iteration has left is read after the loop
        {"before": True},  # something is computed before the first products
    ],
    ids=str,
)
def test_kept(given: dict[str, Any]) -> None:
    assert not by_turns(latent(**given))


def test_the_order_is_proved_with_the_roles_of_a_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verifier sees a release that one of both lacks."""
    asked: list[S.Stmt] = []
    monkeypatch.setattr(ping_pong, "is_uncertain", asked.append)
    written(latent())
    (proved,) = asked
    assert [refusal(node) for node in S.find(proved, H.Pipeline)] == [None] * 4
    (second,) = (node for node in S.find(proved, H.Role) if node.name == "second")
    release = [node for node in S.walk(second.body) if isinstance(node, H.Release)][-1]
    broken = Edit(release, []).rewrite(proved)
    found = [refusal(node) for node in S.walk(broken) if isinstance(node, H.Pipeline)]
    assert [why for why in found if why is not None] == ["deadlock: threads wait for each other"]


@pytest.mark.parametrize(
    ("where", "what", "value"),
    [
        (ping_pong, "is_uncertain", lambda stmt: True),  # a form that is not proved
        (ping_pong, "RESERVE", 2**18),  # a producer warpgroup does not fit in the block
        (specialize_warps, "SPARE", 200),
    ],
)
def test_the_order_is_kept_where_the_other_is_not_possible(
    where: Any, what: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not by_turns(latent(), Options(no_overlap=True))
    monkeypatch.setattr(where, what, value)
    assert not by_turns(latent())
