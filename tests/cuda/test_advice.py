"""What the assembler says about slow kernels is reported at the lines of the program."""

from __future__ import annotations

import linecache
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gemm_program import gemm_program

import tilelang
from tilelang.cuda.advice import advise, sentence
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.errors import TileWarning
from tilelang.ir import stmt as S

LOSS = "ptxas info    : ({}) Potential Performance Loss: {}"
WAITS = "each wgmma waits for the one before it (they are serialised)"
BUDGET = "the register budget of setmaxnreg is ignored"


def product(rows: int, columns: int, threads: int) -> Any:
    return gemm_program(1024, 1024, 1024, (rows, columns, 64), threads=threads)


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
def test_an_accumulator_that_is_too_large_is_reported_at_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    func = product(128, 256, 128)  # 256 registers of each thread
    for _ in range(2):  # compiled, and from the cache
        with pytest.warns(TileWarning) as found:
            kernel = tilelang.compile(func, target="cuda -arch=sm_90a")
        serial, spilled = found
        used = kernel.resources
        assert used.registers == 255 and used.spills > 1000
        (item,) = used.kernels
        assert str(serial.message) == (
            f"kernel product is slower than it could be: {WAITS}: insufficient register resources "
            "for the wgmma pipeline (C7511) [slow-instructions]\n"
            "  hint: give each thread less: smaller tiles, or more threads (T.Kernel(threads=...))"
        )
        assert str(spilled.message) == (
            f"kernel product is slower than it could be: {item.spill_stores} bytes of registers "
            f"are spilled to memory and {item.spill_loads} loaded back (255 registers per thread) "
            "[spills]\n"
            "  hint: give each thread less: smaller tiles, or more threads (T.Kernel(threads=...))"
        )
        for said, text in ((serial, "T.gemm(a, b, c"), (spilled, "with T.Kernel(T.ceildiv(N, bn)")):
            assert said.filename == gemm_program.__code__.co_filename
            assert linecache.getline(said.filename, said.lineno).strip().startswith(text)


@pytest.mark.parametrize(
    ("code", "said", "told", "hint"),
    [
        ("C7508", "'setmaxnreg' ignored; unable to determine register count at entry.",
         f"{BUDGET}: unable to determine register count at entry", "T.no_set_max_nreg()"),
        ("C7509", "'setmaxnreg' ignored to maintain minimum register requirements.",
         f"{BUDGET}: to maintain minimum register requirements", "T.no_set_max_nreg()"),
        ("C7510", "wgmma.mma_async instructions are serialized due to the presence of Extern calls "
         "in the function 'k' in line 7", f"{WAITS}: the presence of Extern calls", "inlined"),
        ("C7512", "wgmma.mma_async instructions are serialized due to insufficient register "
         "resources for the function 'k'", f"{WAITS}: insufficient register resources",
         "smaller tiles"),
        ("C7514", "wgmma.mma_async instructions are serialized due to non wgmma instructions reading "
         "accumulator registers of  a wgmma between start and end of the pipeline stage in the "
         "function 'k' in line 7", f"{WAITS}: non wgmma instructions reading accumulator registers "
         "of a wgmma between start and end of the pipeline stage", "T.wait_wgmma"),
        ("C7515", "wgmma.mma_async instructions are serialized due to non wgmma instructions "
         "defining input registers of a wgmma between start and end of the pipeline stage in the "
         "function 'k' in line 7", f"{WAITS}: non wgmma instructions defining input registers of a "
         "wgmma between start and end of the pipeline stage", "before the first product"),
        ("C7517", "wgmma.mma_async instructions are serialized due to program dependence on "
         "compiler-inserted WG.AR in divergent path in the function 'k' in line 7",
         f"{WAITS}: program dependence on compiler-inserted WG.AR in divergent path", "tx < 128"),
        ("C7519", "wgmma.mma_async instructions are serialized due to ill formed pipeline stage in "
         "the function 'k'", f"{WAITS}: ill formed pipeline stage", "on every path"),
    ],
)  # fmt: skip
def test_every_remark_is_a_sentence_with_a_hint(code: str, said: str, told: str, hint: str) -> None:
    found = sentence(LOSS.format(code, said), "k")
    assert found == f"k: {told} ({code})"
    func = product(128, 128, 128)
    with pytest.warns(TileWarning) as warned:
        advise(func, ("k",), (found,))
    (only,) = warned
    message = str(only.message)
    assert message.startswith(
        f"kernel product is slower than it could be: {told} ({code}) [slow-instructions]\n  hint: "
    )
    assert hint in message.splitlines()[1]
    line = linecache.getline(only.filename, only.lineno).strip()
    assert line.startswith("T.gemm" if "wgmma" in told else "with T.Kernel")


@pytest.mark.parametrize(
    ("off", "left"),
    [("", ["spills", "slow-instructions"]), ("spills", ["slow-instructions"]),
     ("slow-instructions,unused-tile", ["spills"]), ("all", [])],
)  # fmt: skip
def test_remarks_are_silenced_by_their_names(
    off: str, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_LINTS_OFF", off)
    said = ("k: 8 bytes of registers are spilled to memory", f"k: {WAITS} (C7511)")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        advise(product(128, 128, 128), ("k",), said)
    lines = [str(item.message).splitlines()[0] for item in found]
    assert [line.rpartition("[")[2] for line in lines] == [f"{name}]" for name in left]


def test_other_lines_of_the_log_are_no_remarks() -> None:
    for line in (
        "ptxas info    : Used 168 registers, used 1 barriers",
        "ptxas info    : (C7602) something else",
        "ptxas info    : 7508 bytes gmem",
    ):
        assert sentence(line, "k") is None
    assert sentence("ptxas info : (C7513) news", "k") == "k: news (C7513)"


def test_a_program_without_lines_is_warned_about_at_the_call() -> None:
    bare = replace(product(128, 128, 128), name="bare", body=S.Seq(stmts=()), loc=None)
    with pytest.warns(TileWarning, match="^kernel bare is slower than it could be: news"):
        advise(bare, (), ("k: news (C7513)",))
