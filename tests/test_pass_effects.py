"""``scripts/pass_effects.py`` counts the programs that each pass changes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))

import pass_effects
import replay
from gemm_program import gemm_program

import tilelang.language as T


@T.prim_func
def add(A: T.Tensor((128, 64), "float32"), B: T.Tensor((128, 64), "float32")):
    with T.Kernel(2, threads=64) as b:
        tile = T.alloc_fragment((64, 64), "float32")
        T.copy(A[b * 64, 0], tile)
        for i, j in T.Parallel(64, 64):
            tile[i, j] += 1.0
        T.copy(tile, B[b * 64, 0])


product = gemm_program(64, 64, 256, (64, 64, 64))


def effects_on(targets: tuple[str, ...]) -> pass_effects.Effects:
    items = {"add": replay.Replayed("add", add), "product": replay.Replayed("product", product)}
    rows = (pass_effects.row_of(name, items[name], target) for name in items for target in targets)
    return pass_effects.collect(row for row in rows if row is not None)


@pytest.fixture(scope="module")
def effects() -> pass_effects.Effects:
    return effects_on(("cpu", "sm_80", "metal"))


def test_a_pass_counts_where_it_changes_the_text(effects: pass_effects.Effects) -> None:
    assert effects.programs == {"cpu": 2, "sm_80": 2, "metal": 2}
    assert effects.changed["schedule_launches"]["sm_80"] == ["product"]
    assert effects.changed["fuse_loops"]["cpu"] == ["add"]
    assert effects.count("schedule_launches") == 1


def test_passes_that_change_nothing_return_the_same_object(effects: pass_effects.Effects) -> None:
    assert not {name for name, copied in effects.copied.items() if copied.total()}


def test_every_pass_has_a_line_the_rarest_first(effects: pass_effects.Effects) -> None:
    lines = pass_effects.table(effects).splitlines()
    named = [line.split()[0] for line in lines[1:-2]]
    assert set(named) == {n for t in effects.programs for n in pass_effects.passes_of(t)}
    counts = [int(line.split()[1]) for line in lines[1:-2]]
    assert counts == sorted(counts)
    row = next(line for line in lines if line.startswith("schedule_launches"))
    assert row.split()[:5] == ["schedule_launches", "1", "-", "1", "1"] and row.endswith(
        "  product"
    )
    assert lines[-1].startswith(f"{len(named)} passes: ")


def test_a_new_object_with_the_same_text_is_a_copy_and_a_second_run_starts_over() -> None:
    recorder = pass_effects.Recorder(add, "first")
    copied = replace(add)
    assert copied is not add
    for name, func in (("first", add), ("second", product), ("first", add), ("third", copied)):
        recorder(name, func)
    assert (recorder.changed, recorder.copied) == ({"second"}, {"third"})
