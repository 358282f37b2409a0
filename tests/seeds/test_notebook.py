"""The lazy-JIT notebook, cell by cell, with the cells' own assertions: on CPU tensors, as code for
GPUs in the emulator with all its checks, and on a GPU where there is one
(``python -m pytest tests/seeds/test_notebook.py -k cuda`` runs that alone).
"""

from __future__ import annotations

import linecache
import pprint
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from gpus import DEVICE, EMULATOR, Gpu, opened

import tilelang

from .notebook_cells import CELLS, SHOWN

torch = pytest.importorskip("torch", reason="the notebook makes its tensors with torch")

TITLES = [title for title, _ in CELLS]
SOURCES = dict(CELLS)


# Sizes of cells in the emulator, where those of the notebook take longest. Tiles, blocks, warps and
# stages stay: only the grid is smaller.
SMALLER: dict[str, tuple[tuple[str, str], ...]] = {
    "gemm_other_constants": (("1024, 512,", "256, 512,"), ("512, 1024,", "512, 256,"))
}


class Notebook:
    """Runs each cell once, in order and in one namespace, as a kernel of Jupyter does."""

    def __init__(self, device: str, gpu: Gpu | None = None) -> None:
        self.device = device
        self.gpu = gpu
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._after: dict[str, dict[str, Any]] = {}
        self._failed: dict[str, Exception] = {}

    def run(self, title: str) -> dict[str, Any]:
        """The values of the names after the cell ``title``."""
        for earlier in TITLES[: TITLES.index(title) + 1]:
            if earlier not in self._after:
                try:
                    self._execute(earlier)
                except Exception as failure:  # noqa: BLE001  # kept for the test of that cell
                    self._failed[earlier] = failure
                self._after[earlier] = dict(self._names)
        if title in self._failed:
            raise self._failed[title]
        return self._after[title]

    def _execute(self, title: str) -> None:
        source = SOURCES[title].replace('device="cpu"', f'device="{self.device}"')
        if self.gpu is not None and self.gpu.emulated:
            for large, small in SMALLER.get(title, ()):
                assert large in source
                source = source.replace(large, small)
        where = self.gpu.name if self.gpu is not None else "cpu"
        file = f"<ipython-input-{TITLES.index(title)}-{title}-{where}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec", dont_inherit=True), self._names)  # noqa: S102


@pytest.fixture(scope="module", params=["cpu", EMULATOR, "cuda"])
def notebook(request: pytest.FixtureRequest) -> Iterator[Notebook]:
    path = list(sys.path)
    torch.manual_seed(0)
    if request.param == "cpu":
        with pytest.MonkeyPatch.context() as patch:
            if torch.cuda.is_available():  # where "auto" is the GPU
                patch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
            yield Notebook("cpu")
    else:
        name = EMULATOR if request.param == EMULATOR else DEVICE
        with opened(name, request.node.nodeid) as gpu:
            yield Notebook(gpu.memory, gpu)
    sys.path[:] = path


@pytest.mark.parametrize("title", TITLES)
def test_the_cell_runs_and_passes_its_own_assertions(notebook: Notebook, title: str) -> None:
    notebook.run(title)


def test_the_annotations_print_as_in_the_notebook(notebook: Notebook) -> None:
    annot = notebook.run("annot")["gemm_dyn_K"].func.annot
    assert pprint.pformat(annot, width=100) + "\n" == SHOWN["annot"]
    assert repr(annot) == SHOWN["annot"].replace("\n ", " ").rstrip("\n")


def test_calls_with_other_constants_compile_anew_and_the_same_do_not(notebook: Notebook) -> None:
    names = notebook.run("gemm_other_constants")
    gemm, a, b = names["gemm"], names["A"], names["B"]
    small = gemm.compile(a, b, block_M=64, block_N=64)
    assert gemm.compile(a, b, block_M=64, block_N=64) is small
    assert gemm.compile(a, b) is not small
    torch.testing.assert_close(small(a, b), names["C"])


def small_kernels(names: dict[str, Any]) -> list[Any]:
    """The first and the last config of the notebook for a product of 128 x 256 x 128."""
    T = tilelang.language
    configs = names["get_configs"]()
    shapes = {"A": T.Tensor((128, 256), T.float32), "B": T.Tensor((256, 128), T.float32)}
    return list(names["gemm"].par_compile([{**configs[k], **shapes} for k in (0, -1)]))


def test_par_compile_gives_a_kernel_for_each_config_in_order(notebook: Notebook) -> None:
    names = notebook.run("par_compile")
    kernels = names["gemm"].par_compile(names["get_configs"]())
    assert len(kernels) == 8
    assert all(isinstance(kernel, tilelang.JITKernel) for kernel in kernels)
    # The dtype of the placeholders loses against the annotation of the parameter.
    a, b = (torch.randn(1024, 1024, dtype=torch.float16, device=notebook.device) for _ in "ab")
    if notebook.gpu is not None and notebook.gpu.emulated:  # a product of that size takes a minute
        kernels, a, b = small_kernels(names), a[:128, :256].contiguous(), b[:256, :128].contiguous()
    for kernel in (kernels[0], kernels[-1]):
        torch.testing.assert_close(kernel(a, b), (a @ b).float(), rtol=1e-2, atol=1e-1)


def test_the_recursive_macro_follows_the_whole_chain(notebook: Notebook) -> None:
    assert notebook.run("n31_call")["A"].tolist() == [18]  # as shown under the cell


@pytest.mark.parametrize("title", ["macro_with_ref", "sincos"])
def test_the_function_prints_as_in_the_notebook(
    notebook: Notebook, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Character by character, but for four names: the function of an integer is a float32 here,
    which the notebook calls an int32."""
    shown = re.sub(r"^( +[sacb]): T\.int32 = ", r"\1: T.float32 = ", SHOWN[title], flags=re.M)
    assert (shown != SHOWN[title]) == (title == "sincos")
    function = notebook.run(title)["foo"]
    assert repr(function).rstrip("\n") == shown.rstrip("\n")
    function.show()
    assert capsys.readouterr().out.strip() == repr(function).strip()
