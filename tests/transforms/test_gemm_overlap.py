"""Products that overlap the computation of the next iteration: the order that is written, when, results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from executors import SM_90A, agrees
from schedule_steps import apply_all
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.ir import schedule as H, stmt as S
from tilelang.options import Options
from tilelang.target import parse_target
from tilelang.transforms.schedule import gemm_overlap, specialize_warps

HOPPER = parse_target("cuda -arch=sm_90a")


def attention(  # type: ignore[no-untyped-def]  # a traced function
    *, causal: bool = False, rows: int = 128, columns: int = 64, dim: int = 64, blocks: int = 2,
    most: int = 6, same: bool = False, dynamic: bool = True, staged: bool = False,
    stages: int = 2, stated: dict[str, Any] | None = None,
):  # fmt: skip
    """The values of the keys with the greatest score of each block of keys, added up: exact."""
    threads, length = 2 * rows, most * columns

    @T.prim_func
    def main(
        Q: F16[blocks * rows, dim], K: F16[length, dim], V: F16[length, dim], n: T.int32,
        O: F32[blocks * rows, dim],
    ):  # fmt: skip
        with T.Kernel(blocks, threads=threads) as bx:
            T.annotate_schedule(**(stated or {}))
            q = T.alloc_shared((rows, dim), "float16")
            k = T.alloc_shared((columns, dim), "float16")
            v = T.alloc_shared((columns, dim), "float16")
            s = T.alloc_fragment((rows, columns), "float32")
            p = T.alloc_fragment((rows, columns), "float16")
            p_shared = T.alloc_shared((rows, columns), "float16")
            top = T.alloc_fragment((rows,), "float32")
            o = T.alloc_fragment((rows, dim), "float32")
            T.copy(Q[bx * rows, 0], q)
            T.clear(o)
            end = T.ceildiv((bx + 1) * rows, columns) if causal else most
            for i in T.Pipelined(T.min(n, end) if dynamic else end, num_stages=stages):
                T.copy(K[i * columns, 0], k)
                if causal:
                    for r, c in T.Parallel(rows, columns):
                        s[r, c] = T.if_then_else(bx * rows + r >= i * columns + c, 0.0, -1024.0)
                else:
                    T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                T.reduce_max(s, top, dim=1)
                for r, c in T.Parallel(rows, columns):
                    p[r, c] = T.if_then_else(s[r, c] == top[r], 1.0, 0.0)
                T.copy(V[i * columns, 0], v)
                if same:
                    T.gemm(p, v, s)
                elif staged:
                    T.copy(p, p_shared)
                    T.gemm(p_shared, v, o)
                else:
                    T.gemm(p, v, o)
            T.copy(o, O[bx * rows, 0])

    return main


def small(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(shape[0]).integers(-3, 4, shape).astype(np.float16)


def arrays(n: int, rows: int = 128, columns: int = 64) -> tuple[Any, ...]:
    """Arguments of the program, with zeros for its result."""
    Q, K, V = small(2 * rows, 64), small(6 * columns, 64), small(6 * columns, 64)[::-1].copy()
    return Q, K, V, n, np.zeros((2 * rows, 64), np.float32)


def written(func: Any, options: Options | None = None) -> S.PrimFunc:
    """The program with its schedule."""
    return apply_all(func, HOPPER, options)


def consumers(func: S.PrimFunc) -> str:
    """What the consumers do from their pipelined loop on, without indentation and regions."""
    (role,) = (
        node for node in S.walk(func.body) if isinstance(node, H.Role) and node.name == "consumers"
    )
    text = func.script()
    text = text[text.index('T.role("consumers"') :]
    assert role.count == 256
    kept = re.findall(r"(for .*?:|if .*?:|T\.(?:wait|release|gemm|reduce_max)\(.*?\)\n)", text)
    short = [re.sub(r"pipeline_note=.*", "...", line.strip()) for line in kept]
    return "\n".join(line for line in short if "Parallel" not in line)


# -- results --
@pytest.mark.parametrize(("n", "causal"), [(0, False), (1, True), (2, False), (5, True)])
def test_results(n: int, causal: bool) -> None:
    func = attention(causal=causal)
    assert "overlaps the next iteration" in written(func).script()
    agrees(func, arrays(n), on=(SM_90A,))


def test_no_wait_may_come_later() -> None:
    func = attention(blocks=1)
    kernel = tilelang.compile(func, target="cuda -arch=sm_90a", execution_backend="emulator")
    Q, K, V, n, O = arrays(4)
    given = (Q[:128], K, V, n, O[:128])
    text = kernel.get_kernel_source()
    assert tilelang.sanitize(kernel, *given, schedule="late").ok
    waits = list(re.finditer(r"tl_wgmma_wait<(\d)>", text))
    assert [wait[1] for wait in waits] == ["0", "1", "0", "0"]
    for wait in waits:
        edited = f"{text[: wait.start()]}tl_wgmma_wait<{int(wait[1]) + 1}>{text[wait.end() :]}"
        assert not tilelang.sanitize(kernel, *given, schedule="late", source=edited).ok


# -- the order --
AHEAD = """\
if 0 < T.min(n, 6):
T.wait(p, 0, ahead=0)
T.gemm(q, k[0, 0:64, 0:64], s, transpose_B=True, clear_accum=True)
T.release(p, 0)
T.reduce_max(s, top, dim=1)
for i in T.serial(T.min(n, 6) - 1, num_stages=2, ...
T.wait(p, i + 1, ahead=0)
T.gemm(q, k[(i + 1) % 2, 0:64, 0:64], s, transpose_B=True, clear_accum=True)
T.wait(p_1, i, ahead=0)
T.gemm(p_2, v[i % 2, 0:64, 0:64], o)
T.release(p, i + 1)
T.reduce_max(s, top, dim=1)
T.release(p_1, i)
if 0 < T.min(n, 6):
T.wait(p_1, T.min(n, 6) - 1, ahead=0)
T.gemm(p_2, v[(T.min(n, 6) + 1) % 2, 0:64, 0:64], o)
T.release(p_1, T.min(n, 6) - 1)"""
WHOLE = """\
for i in T.serial(T.min(n, 6), num_stages=2, ...
T.wait(p, i, ahead=0)
T.gemm(q, k[i % 2, 0:64, 0:64], s, transpose_B=True)
T.reduce_max(s, top, dim=1)
T.gemm(p_1, v[i % 2, 0:64, 0:64], o)
T.release(p, i)"""
CLEARED = WHOLE.replace("transpose_B=True)", "transpose_B=True, clear_accum=True)")


def test_products_that_touch_each_other_stay_in_their_iteration() -> None:
    assert consumers(written(attention(same=True))) == CLEARED.replace("o)", "s)")


def test_fragments_that_leave_no_registers_keep_their_order() -> None:
    # 32 for the scores, 16 for the factor, 32 for the sum, of 240.
    for spare, wanted in ((160, AHEAD), (161, CLEARED)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(specialize_warps, "SPARE", spare)
            assert consumers(written(attention())) == wanted


def test_the_option_keeps_pipelines_whole() -> None:
    assert consumers(written(attention(), Options(no_overlap=True))) == WHOLE


def test_a_rotation_that_is_not_proved_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_overlap, "is_uncertain", lambda stmt: True)
    assert consumers(written(attention())) == CLEARED


def test_a_mask_is_written_if_it_excludes_elements() -> None:
    text = consumers(written(attention(causal=True)))
    assert "if bx * 128 - i * 64 - 127 < 0:" in text
    assert "clear_accum=bx * 128 - i * 64 - 127 >= 0)" in text
