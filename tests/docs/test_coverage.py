"""The coverage page is current, and what programs use is there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = ROOT / "scripts" / "coverage_table.py"
    spec = importlib.util.spec_from_file_location("coverage_table", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_table"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(generator: ModuleType) -> None:
    text = generator.page(generator.words())
    assert generator.PAGE.read_text(encoding="utf-8") == text, (
        "python scripts/coverage_table.py writes it"
    )


def test_no_word_of_several_programs_is_missing(generator: ModuleType) -> None:
    used = [word for word in generator.words() if word.clients > 2]
    assert len(used) > 80
    assert not [word.name for word in used if word.state in ("missing", "rejected")]


def test_every_word_is_classified_and_every_refusal_has_a_reason(generator: ModuleType) -> None:
    for word in generator.words():
        assert word.state != "missing", word.name
        if word.state != "runs":
            assert word.support.note, word.name


def test_an_unknown_word_would_show(generator: ModuleType, tmp_path: Path) -> None:
    usage = tmp_path / "usage.tsv"
    usage.write_text("symbol\tclient_files\texample_files\ttest_files\nT.no_such_word\t9\t0\t0\n")
    (word,) = generator.words(usage)
    assert word.state == "missing"
    assert "| `T.no_such_word` | 9 | 0 | 0 | – | – | – | missing |" in generator.page([word])


def test_the_column_of_cuda_is_that_of_the_cases(generator: ModuleType) -> None:
    table = {word.name: word for word in generator.words()}
    assert table["tma_load"].cuda == "sm_90" and table["tma_load"].state == "cuda"
    assert table["ptx_wgmma_ss"].cuda == "sm_90a" and table["wait_wgmma"].cuda == "sm_90a"
    assert table["sync_threads"].cuda == table["copy"].cuda == "yes"
    assert table["tcgen05_gemm"].cuda == "–" and table["tcgen05_gemm"].state == "planned"
    assert table["barrier_arrive"].cuda == "sm_80" and table["barrier_arrive"].state == "runs"
    assert set(generator.NOT_ON_CUDA).isdisjoint(generator.on_cuda()) or (
        set(generator.NOT_ON_CUDA) & set(generator.on_cuda()) == {"deallocate_tmem"}
    )
