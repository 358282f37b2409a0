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
    text = generator.page(generator.functions())
    assert generator.PAGE.read_text(encoding="utf-8") == text, (
        "python scripts/coverage_table.py writes it"
    )


def test_no_function_of_several_programs_is_missing(generator: ModuleType) -> None:
    used = [function for function in generator.functions() if function.clients > 2]
    assert len(used) > 80
    assert not [function.name for function in used if function.state in ("missing", "rejected")]


def test_every_function_is_classified_and_every_refusal_has_a_reason(generator: ModuleType) -> None:
    for function in generator.functions():
        assert function.state != "missing", function.name
        if function.state != "runs":
            assert function.support.note, function.name


def test_an_unknown_function_would_show(generator: ModuleType, tmp_path: Path) -> None:
    usage = tmp_path / "usage.tsv"
    usage.write_text(
        "symbol\tclient_files\texample_files\ttest_files\nT.no_such_function\t9\t0\t0\n"
    )
    (function,) = generator.functions(usage)
    assert function.state == "missing"
    assert "| `T.no_such_function` | 9 | 0 | 0 | – | – | – | – | – | missing |" in generator.page(
        [function]
    )


def test_the_column_of_cuda_is_that_of_the_cases(generator: ModuleType) -> None:
    table = {function.name: function for function in generator.functions()}
    assert table["tma_load"].cuda == "sm_90" and table["tma_load"].state == "cuda"
    assert table["ptx_wgmma_ss"].cuda == "sm_90a" and table["wait_wgmma"].cuda == "sm_90a"
    assert table["sync_threads"].cuda == table["copy"].cuda == "yes"
    assert table["tcgen05_gemm"].cuda == "–" and table["tcgen05_gemm"].state == "planned"
    assert table["barrier_arrive"].cuda == "sm_80" and table["barrier_arrive"].state == "runs"
    assert set(generator.NOT_ON_CUDA).isdisjoint(generator.on_cuda()) or (
        set(generator.NOT_ON_CUDA) & set(generator.on_cuda()) == {"deallocate_tmem"}
    )


def test_the_columns_of_other_gpus_are_those_of_programs(generator: ModuleType) -> None:
    table = {function.name: function for function in generator.functions()}
    cells = {
        name: (table[name].on("HIP"), table[name].on("Metal"))
        for name in ("gemm", "shfl_xor", "print", "float64", "tma_load", "tcgen05_gemm")
    }
    assert cells == {
        "gemm": ("yes", "yes"),
        "shfl_xor": ("yes", "yes"),
        "print": ("yes", "–"),
        "float64": ("yes", "–"),
        "tma_load": ("–", "–"),
        "tcgen05_gemm": ("–", "–"),
    }


def test_programs_of_other_gpus_compile_where_the_table_says_yes(generator: ModuleType) -> None:
    found = generator.gpu_cases.compiled()
    assert set(generator.gpu_cases.BODIES) <= set(found)
    assert all(set(cells) == {"HIP", "Metal"} for cells in found.values())
