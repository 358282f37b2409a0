"""The lazy-JIT notebook, cell by cell, on CPU tensors, with the cells' own assertions."""

from __future__ import annotations

import contextlib
import io
import linecache
import pprint
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import tilelang

from .notebook_cells import CELLS, SHOWN

torch = pytest.importorskip("torch", reason="the notebook makes its tensors with torch")

TITLES = [title for title, _ in CELLS]
SOURCES = dict(CELLS)


class Notebook:
    """Runs cells in one namespace, as a kernel of Jupyter does."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.done: set[str] = set()

    def run(self, title: str) -> None:
        """Run the cells before ``title`` that did not run yet, then the cell itself."""
        for earlier in TITLES[: TITLES.index(title)]:
            if earlier not in self.done:
                with contextlib.suppress(Exception):  # its own test shows the failure
                    self._execute(earlier)
        self._execute(title)

    def _execute(self, title: str) -> None:
        source = SOURCES[title]
        file = f"<ipython-input-{TITLES.index(title)}-{title}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        self.done.add(title)
        exec(compile(source, file, "exec", dont_inherit=True), self.names)  # noqa: S102

    def shown(self, expression: str) -> Any:
        """What the last line of a cell evaluates to."""
        return eval(expression, self.names)


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    path = list(sys.path)
    torch.manual_seed(0)
    yield Notebook()
    sys.path[:] = path


@pytest.mark.parametrize("title", TITLES)
def test_the_cell_runs_and_passes_its_own_assertions(notebook: Notebook, title: str) -> None:
    notebook.run(title)


def test_results_are_on_the_device_of_the_inputs(notebook: Notebook) -> None:
    notebook.run("gemm_call")
    result = notebook.shown("C")
    assert isinstance(result, torch.Tensor) and result.device.type == "cpu"


def test_the_annotations_print_as_in_the_notebook(notebook: Notebook) -> None:
    notebook.run("gemm_dyn_K")
    annot = notebook.shown("gemm_dyn_K.func.annot")
    assert pprint.pformat(annot, width=100) + "\n" == SHOWN["annot"]
    assert repr(annot) == SHOWN["annot"].replace("\n ", " ").rstrip("\n")


def test_calls_with_other_constants_compile_anew(notebook: Notebook) -> None:
    notebook.run("gemm_other_constants")
    gemm = notebook.names["gemm"]
    with torch.no_grad():
        small = gemm(notebook.names["A"], notebook.names["B"], block_M=64, block_N=64)
    torch.testing.assert_close(small, notebook.names["C"])
    assert gemm.compile(notebook.names["A"], notebook.names["B"], block_M=64, block_N=64) is (
        gemm.compile(notebook.names["A"], notebook.names["B"], block_M=64, block_N=64)
    )


def test_par_compile_gives_a_kernel_for_each_config_in_order(notebook: Notebook) -> None:
    notebook.run("par_compile")
    configs = notebook.names["get_configs"]()
    kernels = notebook.names["gemm"].par_compile(configs)
    assert len(kernels) == 8
    assert all(isinstance(kernel, tilelang.JITKernel) for kernel in kernels)
    # The text of the placeholders' dtype loses against the annotation of the parameter.
    a = torch.randn(1024, 1024, dtype=torch.float16)
    b = torch.randn(1024, 1024, dtype=torch.float16)
    for kernel in (kernels[0], kernels[-1]):
        torch.testing.assert_close(kernel(a, b), (a @ b).float(), rtol=1e-2, atol=1e-1)


def test_the_recursive_macro_follows_the_whole_chain(notebook: Notebook) -> None:
    notebook.run("n31_call")
    assert notebook.names["A"].tolist() == [18]  # as shown under the cell


# What may differ between the text here and the text in the notebook, with the reason. A pair is
# (pattern, replacement), applied to both sides, line by line.
DIFFERENCES: tuple[tuple[str, str], ...] = (
    (r"^\s*# import tilelang\.language as T$", ""),  # a comment
    (r'^\s*# with T\.block\("root"\):$', ""),  # a comment
)


def normalised(text: str) -> list[str]:
    """Lines of ``text`` without indentation, blank lines and :data:`DIFFERENCES`."""
    lines = []
    for line in text.splitlines():
        for pattern, replacement in DIFFERENCES:
            line = re.sub(pattern, replacement, line)
        line = re.sub(r"\s+", " ", line).strip()
        if line:
            lines.append(line)
    return lines


@pytest.mark.parametrize("title", ["macro_with_ref", "sincos"])
def test_the_function_prints_as_in_the_notebook(notebook: Notebook, title: str) -> None:
    notebook.run(title)
    function = notebook.shown("foo")
    assert normalised(repr(function)) == normalised(SHOWN[title])


def test_show_prints_what_repr_gives(notebook: Notebook) -> None:
    notebook.run("sincos")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        notebook.shown("foo").show()
    assert out.getvalue().strip() == repr(notebook.shown("foo")).strip()
