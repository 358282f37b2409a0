"""Planted defects: a sample of ``bench/mutate.py``, its changes, and the rules by which a mutant is
no defect, each with a near miss that is one."""

# ruff: noqa: E402  # imports from bench/ follow the line that finds them
from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilelang.emulator.compilers import find_cxx

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "emulator"), str(ROOT / "tests" / "cuda")]

import mutate
import mutate_cases
import mutate_rules
import ptx_programs
from captured import Case
from mutate_changes import Mutant, barrier_arrays, mutants
from mutate_run import Runner

import tilelang.language as T

needs_compiler = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


def edited(source: str, old: str, new: str, kind: str = "edit") -> Mutant:
    """A mutant with the first line changed that has ``old`` in it."""
    lines = source.splitlines()
    number = next(n for n, line in enumerate(lines) if old in line)
    changed = lines[number].replace(old, new, 1)
    text = "\n".join([*lines[:number], changed, *lines[number + 1 :]]) + "\n"
    return Mutant(kind, number + 1, text, lines[number].strip(), changed.strip())


def line_of(source: str, text: str, which: int = 0) -> int:
    """The number, from 1, of a line that is ``text``."""
    return [n for n, line in enumerate(source.splitlines(), 1) if line.strip() == text][which]


# -- a sample of the mutants -----------------------------------------------------------------------
BOXES = {
    "remove tl_mbarrier_init": "mbarrier-misuse",
    "arrivals +1": "deadlock",
    "remove tl_fence_barrier_init": "missing-proxy-fence",
    "remove __syncthreads": "mbarrier-misuse",
    "remove tl_mbarrier_arrive_expect_tx": "deadlock",
    "bytes -16": "deadlock mbarrier-misuse",
    "bytes +16": "deadlock",
    "remove tl_mbarrier_wait": "missing-wait",
    "flip phase": "missing-wait",
    "remove tl_bulk_commit": "async-unfinished",
    "remove tl_bulk_wait": "async-unfinished",
    "weaken tl_bulk_wait": "async-unfinished",
    "weaken to reads": "= end",
    "remove guard": "lost-write mbarrier-misuse missing-wait",  # the last one: who copies
}


@needs_compiler
def test_every_mutant_of_a_program_with_tensor_copies_is_found() -> None:
    runner = Runner(mutate_cases.groups("sm_80")["words boxes"]()[0])
    found = {}
    for mutant in mutants(runner.source):
        kinds, _ = mutate.findings(runner, mutant)
        rule = "" if kinds else mutate_rules.equivalent(runner, mutant)
        found[mutant.kind] = " ".join(kinds) or f"= {rule}"
    assert found == BOXES


@T.prim_func
def pipelined(A: T.Tensor((128, 32), "float32"), B: T.Tensor((128, 32), "float32")):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((32, 32), "float32")
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[k * 32, 0], tile)
            for i, j in T.Parallel(32, 32):
                B[k * 32 + i, j] = tile[j, i]


@pytest.fixture(scope="module")
def loop() -> Runner:
    data = np.random.default_rng(0).standard_normal((2, 128, 32)).astype(np.float32)
    return Runner(Case("pipelined", pipelined, (), tuple(data), ()))


@needs_compiler
def test_the_mutants_of_a_pipeline_are_found_or_proved_equivalent(loop: Runner) -> None:
    assert loop.report(checks=("races", "bounds", "lost-writes")).ok
    verdicts = []
    for mutant in mutants(loop.source):
        if "cp_async" in mutant.kind or mutant.kind.startswith("shift"):
            kinds, usual = mutate.findings(loop, mutant)
            assert usual == bool(set(kinds) - {"lost-write"})
            verdicts.append((mutant, kinds))
    assert len(verdicts) >= 5
    missed = [mutant for mutant, kinds in verdicts if not kinds]
    assert [mutate_rules.equivalent(loop, mutant) for mutant in missed] == ["wait"] * len(missed)
    assert 0 < len(missed) < len(verdicts)


@needs_compiler
def test_a_wait_that_covers_less_is_not_proved_equivalent(loop: Runner) -> None:
    waits = [m for m in mutants(loop.source) if m.kind == "remove tl_cp_async_wait"]
    assert not mutate_rules.waits_for_as_much(loop, waits[0])
    assert mutate_rules.waits_for_as_much(loop, waits[-1])  # after the loop: nothing is in flight


# -- changes ---------------------------------------------------------------------------------------
TEXT = """\
extern "C" __global__ void f(float* __restrict__ A) {
    extern __shared__ unsigned char tl_smem[];
    const int tx = (int)threadIdx.x;
    float* const tile = (float*)(tl_smem);
    uint64_t* const full = (uint64_t*)(tl_smem + 512);
    if ((int)threadIdx.x == 0) {
        tl_mbarrier_init(&full[0], 1);
        tl_mbarrier_init(&full[1], 1);
        tl_fence_barrier_init();
    }
    __syncthreads();
    for (int k = 0; k < 4; ++k) {
        const int stage = k % 2;
        tl_mbarrier_wait(&full[stage], k / 2 & 1);
        A[k * 32 + tx] = tile[stage * 32 + tx];
    }
}
"""


def test_changes_of_a_text() -> None:
    assert barrier_arrays(TEXT.splitlines()) == {"full": 2}
    assert [(mutant.line, mutant.kind, mutant.after) for mutant in mutants(TEXT)] == [
        (6, "remove guard", "if (true) {"),
        (7, "remove tl_mbarrier_init", ";"),
        (7, "arrivals +1", "tl_mbarrier_init(&full[0], 2);"),
        (8, "remove tl_mbarrier_init", ";"),
        (8, "arrivals +1", "tl_mbarrier_init(&full[1], 2);"),
        (9, "remove tl_fence_barrier_init", ";"),
        (11, "remove __syncthreads", ";"),
        (13, "shift stage", "const int stage = (k + 1) % 2;"),
        (14, "remove tl_mbarrier_wait", ";"),
        (14, "flip phase", "tl_mbarrier_wait(&full[stage], (k / 2 & 1) ^ 1);"),
        (14, "other barrier", "tl_mbarrier_wait(&full[(stage + 1) % 2], k / 2 & 1);"),
        (15, "shift tile", "A[k * 32 + tx] = tile[(stage + 1) % 2 * 32 + tx];"),
    ]


def test_changes_of_waits_and_named_barriers() -> None:
    source = "\n".join(
        [
            "tl_bulk_wait<0>();",
            "tl_bar_sync(3, 128);",
            "tl_cluster_sync();",
            "tl_cp_async_commit();",
        ]
    )
    assert [mutant.after for mutant in mutants(source)] == [
        ";", "tl_bulk_wait<1>();", "tl_bulk_wait_read<0>();",
        ";", "tl_bar_sync(3, 96);", "tl_bar_sync(3, 160);", "tl_bar_sync((3) + 1, 128);",
        ";", "tl_cluster_arrive_relaxed(); tl_cluster_wait();",
        ";",
    ]  # fmt: skip


# -- rules on texts --------------------------------------------------------------------------------
DOUBLED = """\
extern "C" __global__ void f(float* __restrict__ A) {
    tile[tx] = A[tx];
    __syncthreads();
    const int row = tx / 8;
    __syncthreads();
    A[tx] = tile[row];
}
"""


def test_a_barrier_next_to_another_one_is_doubled() -> None:
    assert mutate_rules.barrier_is_doubled(DOUBLED, 3)
    near = DOUBLED.replace("const int row = tx / 8;", "const float row = tile[tx / 8];")
    assert not mutate_rules.barrier_is_doubled(near, 3)
    own = "float sums[2];\n    for (int s = 0; s < 2; ++s) {\n        sums[s] = 0.0f;\n    }"
    private = DOUBLED.replace("const int row = tx / 8;", own)
    assert mutate_rules.barrier_is_doubled(private, 3)
    assert mutate_rules.barrier_is_doubled(private, 8)
    assert not mutate_rules.barrier_is_doubled(private.replace("float sums[2];", ""), 3)
    leaves = private.replace("sums[s] = 0.0f;", "if (tx > 3) break;")
    assert not mutate_rules.barrier_is_doubled(leaves, 3)


MADE = """\
extern "C" __global__ void f(float* __restrict__ A) {
    uint64_t* const full = (uint64_t*)(tl_smem);
    uint64_t* const free = (uint64_t*)(tl_smem + 16);
    float* const tile = (float*)(tl_smem + 32);
    if (tx == 0) {
        tl_mbarrier_init(full, 1);
        tl_fence_barrier_init();
    }
    __syncthreads();
    int32_t turn[1];
    turn[0] = 0;
    if (tx == 0) {
        tl_mbarrier_init(free, 1);
        tl_fence_barrier_init();
    }
    __syncthreads();
    tl_mbarrier_wait(full, 0);
    for (int k = 0; k < 2; ++k) {
        __syncthreads();
        tl_mbarrier_wait(free, turn[0]);
    }
}
"""


def test_one_barrier_after_mbarrier_initialization_is_enough() -> None:
    assert mutate_rules.fence_is_doubled(MADE, 7)
    assert not mutate_rules.fence_is_doubled(MADE, 14)
    assert mutate_rules.barrier_is_doubled(MADE, 9)
    assert not mutate_rules.barrier_is_doubled(MADE, 16)
    assert mutate_rules.barrier_only_makes(MADE, 16)  # all pass the one of the loop
    assert not mutate_rules.barrier_only_makes(MADE.replace("wait(full", "wait(free"), 16)
    assert not mutate_rules.barrier_only_makes(MADE.replace("k < 2", "k < n"), 16)
    assert not mutate_rules.barrier_only_makes(MADE.replace("turn[0] = 0", "tile[tx] = 0"), 16)
    assert not mutate_rules.barrier_only_makes(MADE, 19)


def test_a_barrier_is_last_if_nothing_after_it_conflicts_with_earlier_accesses() -> None:
    last = """\
extern "C" __global__ void f(float* __restrict__ A, float* __restrict__ B) {
    float* const tile = (float*)(tl_smem);
    tile[tx] = A[tx];
    __syncthreads();
    B[tx] = 0.0f;
}
"""
    assert mutate_rules.barrier_is_last(last, 4)
    assert not mutate_rules.barrier_is_last(last.replace("B[tx] = 0", "B[tx] = tile[0]"), 4)
    looped = last.replace(
        "    __sync", "    for (int k = 0; k < 4; ++k) {\n        __sync"
    ).replace("    B[tx]", "        B[tx]")
    assert not mutate_rules.barrier_is_last(looped, 5)
    assert not mutate_rules.barrier_is_last(last.replace("A[tx];", "B[tx];"), 4)


GENERIC = """\
extern "C" __global__ void f(float* __restrict__ A) {
    const int tx = (int)threadIdx.x;
    uint64_t* const full = (uint64_t*)(tl_smem + 512);
    if ((int)threadIdx.x == 0) {
        tl_mbarrier_init(&full[0], 32);
        tl_mbarrier_init(&full[1], 32);
        tl_fence_barrier_init();
    }
    __syncthreads();
    tl_mbarrier_arrive(&full[tx / 32]);
    tl_mbarrier_wait(&full[tx / 32], 0);
    A[tx] = 1.0f;
}
"""


def test_a_fence_for_barriers_that_threads_alone_use_is_generic() -> None:
    assert mutate_rules.generic_only(GENERIC, 7)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # An asynchronous copy signals the barrier.
        ("tl_mbarrier_arrive(&full[tx / 32]);", "tl_tma_load(tile, &map, &full[tx / 32], 0, 0);"),
        # Threads arrive before they met the one that made it.
        ("    __syncthreads();\n", ""),
        # Its address goes elsewhere.
        ("    A[tx] = 1.0f;", "    uint64_t* other = full;"),
        # The fence makes a store known as well.
        ("    if ((int)", "    tile[tx] = 1.0f;\n    if ((int)"),
        # Another block arrives, and no barrier of the cluster comes before.
        ("tl_mbarrier_arrive(&full[tx / 32]);", "tl_mbarrier_arrive_remote(&full[tx / 32], 1);"),
        # Two names for one place.
        ("    if ((int)", "    uint64_t* const more = (uint64_t*)(tl_smem + 512);\n    if ((int)"),
    ],
)
def test_a_required_fence_is_not_generic(old: str, new: str) -> None:
    text = GENERIC.replace(old, new, 1)
    assert text != GENERIC
    assert not mutate_rules.generic_only(text, line_of(text, "tl_fence_barrier_init();"))


def test_a_remote_arrival_after_a_cluster_barrier_needs_no_fence() -> None:
    text = GENERIC.replace("tl_mbarrier_arrive(&full", "tl_mbarrier_arrive_remote(&full").replace(
        "[tx / 32]);\n", "[tx / 32], 1);\n", 1
    )
    behind = text.replace("    __syncthreads();", "    tl_cluster_sync();")
    line = line_of(behind, "tl_fence_barrier_init();")
    assert mutate_rules.generic_only(behind, line)
    assert not mutate_rules.generic_only(text, line)


def test_a_fence_is_doubled_by_the_next_one_of_the_same_thread() -> None:
    twice = GENERIC.replace("    __syncthreads();\n", GENERIC_AGAIN, 1)
    assert mutate_rules.fence_is_doubled(twice, 7)
    used = twice.replace("    __syncthreads();\n", "    tl_mbarrier_wait(&full[0], 0);\n", 1)
    assert not mutate_rules.fence_is_doubled(used, 7)


GENERIC_AGAIN = """\
    __syncthreads();
    if ((int)threadIdx.x == 0) {
        tl_fence_barrier_init();
    }
"""

END = """\
extern "C" __global__ void f(float* __restrict__ A) {
    uint64_t* const done = (uint64_t*)(tl_smem + 512);
    if ((int)threadIdx.x == 0) {
        tl_mbarrier_init(&done[0], 2);
    }
    A[tx] = 1.0f;
    if (tx < 2) {
        tl_mbarrier_arrive_remote(done, tx);
    }
    tl_mbarrier_wait(done, 0);
    tl_cluster_arrive();
    tl_cluster_wait();
}
"""


def removed_wait(source: str) -> Mutant:
    return edited(source, "tl_mbarrier_wait(done, 0);", ";", "remove tl_mbarrier_wait")


def test_a_wait_at_the_end_orders_nothing() -> None:
    assert mutate_rules.is_at_the_end(END, removed_wait(END))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Something behind it needs what others did.
        ("    tl_cluster_arrive();", "    A[tx] = tile[tx];\n    tl_cluster_arrive();"),
        # A copy signals it that would be in flight at the end.
        ("tl_mbarrier_arrive_remote(done, tx);", "tl_tma_load(tile, &map, done, 0, 0);"),
        # A block could be over when another one arrives at its barrier.
        ("    tl_cluster_arrive();\n    tl_cluster_wait();\n", ""),
        # It comes again.
        ("    tl_mbarrier_wait", "    for (int k = 0; k < 2; ++k)\n        tl_mbarrier_wait"),
    ],
)
def test_a_wait_before_other_statements_is_not_the_last(old: str, new: str) -> None:
    text = END.replace(old, new, 1)
    assert text != END
    assert not mutate_rules.is_at_the_end(text, removed_wait(text))


def test_bulk_stores_at_the_end_have_to_be_read_only() -> None:
    text = """\
extern "C" __global__ void f(float* __restrict__ A) {
    if (tx == 0) {
        tl_bulk_wait<0>();
    }
}
"""
    args = "tl_bulk_wait<0>", "tl_bulk_wait_read<0>", "weaken to reads"
    assert mutate_rules.is_at_the_end(text, edited(text, *args))
    again = text.replace("if (tx == 0)", "for (int k = 0; k < 2; ++k)")
    assert not mutate_rules.is_at_the_end(again, edited(again, *args))
    behind = text.replace("    }\n", "    }\n    A[tx] = 1.0f;\n")
    assert not mutate_rules.is_at_the_end(behind, edited(behind, *args))


# -- sums ----------------------------------------------------------------------------------------
@needs_compiler
def test_stages_in_another_order_give_the_same_sum_if_all_are_used() -> None:
    rng = np.random.default_rng(0)
    sizes = (128, 256), (256, 256), (128, 256)
    data = tuple(rng.standard_normal(size).astype(np.float16) for size in sizes)
    program = ptx_programs.persistent(128, 256, 256, blocks=1)
    runner = Runner(Case("persistent", program, (), data, (), "sm_90a"))
    shift = edited(runner.source, "const int stage = turn;", "const int stage = (turn + 1) % 4;")
    assert mutate_rules.same_sums(runner, shift, draws=2)
    # One tile of two goes to another stage: rows of A meet the columns of another step.
    apart = edited(
        runner.source, "tl_tma_load(&A_tile[stage *", "tl_tma_load(&A_tile[(stage + 1) % 4 *"
    )
    assert not mutate_rules.same_sums(runner, apart, draws=2)


def test_only_matrix_products_without_data_in_control_flow_are_sums() -> None:
    entry = ptx_programs.PROGRAMS["persistent"]
    source = mutate_cases.source_of(Case("p", entry.make(), (), (), (), entry.arch), "")
    assert mutate_rules.only_sums(source)
    for old, new in (
        ("c * 64 + column_1", "(int)half_1[0] + column_1"),  # an address out of data
        ("if (lane == 0)", "if (acc[0] > 0.0f)"),  # a condition on data
        ("tl_wgmma_wait<0>();", "acc[0] = acc[0] * acc[1];"),  # another product
    ):
        assert old in source
        changed = source.replace(old, new, 1)
        assert not (mutate_rules.only_sums(changed) and mutate_rules._one_product(changed)), new


# -- renamed ---------------------------------------------------------------------------------------
@needs_compiler
def test_a_barrier_of_the_same_threads_may_have_a_free_number() -> None:
    runner = Runner(mutate_cases.groups("sm_90a")["bench gemm 128x128x64 3 stages"]()[0], "sm_90a")
    (first, *_) = [m for m in mutants(runner.source) if m.kind == "barrier +1"]
    assert mutate_rules.is_renamed(runner, first)
    # One more thread that may come by, and a number that others have.
    fewer = edited(runner.source, first.before, first.before.replace("128", "96"), "barrier +1")
    runner.artifact = replace(runner.artifact, source=fewer.source)
    assert not mutate_rules.is_renamed(runner, replace(first, before=fewer.after))
    named = Runner(mutate_cases.groups("sm_80")["words named"]()[0])
    for mutant in mutants(named.source):
        assert not mutate_rules.is_renamed(named, mutant)
