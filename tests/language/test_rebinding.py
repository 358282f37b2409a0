"""Names that branches and loops of the program bind: the value of every way, or an error.

Each program of ``names.test`` is the body of a kernel of one thread with the inputs
``A = [1, 5, 2, 9]`` and ``n = 3`` and the output ``O`` of four zeros. Below it is what numpy or
plain Python leaves in ``O``, how the error starts, or all of the error. A second line is about a
name that an inner block binds for itself: what other blocks still read. All executors share the
traced program, so the interpreter runs all of them and the others a part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from columns import as_known
from error_cases import ErrorCase, error_cases
from executors import CPU, INTERPRETER, OPTIONS, SM_90A
from written import executed

import tilelang
import tilelang.language as T
from tilelang.errors import TileNameError, TileWarning

A = np.array([1, 5, 2, 9], np.int32)
CASES = error_cases(Path(__file__).with_name("names.test"))
RIGHT = [case for case in CASES if case.error[0].isdigit() and "\n" not in case.error]
SHADOWED = [case for case in CASES if "\nothers still read " in case.error]
WRONG = [case for case in CASES if not case.error[0].isdigit()]
DEPENDS = "`v` depends on a condition that is known only at run time"
SOME = RIGHT[:6] + [case for case in WRONG if case.error == DEPENDS][:6]


def named(case: ErrorCase) -> str:
    return case.name


def traced(body: str, name: str, head: str = "@T.prim_func") -> Any:
    """The kernel around ``body``."""
    lines = [
        "import tilelang",
        "import tilelang.language as T",
        "",
        head,
        "def f(A: T.Tensor((4,), 'int32'), n: T.int32, O: T.Tensor((4,), 'int32')):",
        "    with T.Kernel(1, threads=1):",
        *("        " + line for line in body.splitlines()),
    ]
    return executed("\n".join(lines) + "\n", f"<{name}>")["f"]


def outputs(func: Any, how: str = INTERPRETER) -> str:
    out = np.zeros(4, np.int32)
    tilelang.compile(func, **OPTIONS[how])(A, 3, out)
    return " ".join(map(str, out))


@pytest.mark.parametrize("case", SHADOWED, ids=named)
def test_bindings_of_an_inner_block_end_with_it(case: ErrorCase) -> None:
    want, read = case.error.split("\nothers still read ")
    told = (
        "`v` is bound again here, for this block only: other blocks and later iterations "
        f"still read {read}"
    )
    with pytest.warns(TileWarning) as remarks:
        func = traced(case.program, case.name)
    assert {str(item.message) for item in remarks} == {told}
    assert {item.filename for item in remarks} == {f"<{case.name}>"}
    for how in (INTERPRETER, CPU, SM_90A) if case in SHADOWED[:2] else (INTERPRETER,):
        assert outputs(func, how) == want


@pytest.mark.parametrize("case", RIGHT, ids=named)
def test_a_name_has_the_value_of_each_path(case: ErrorCase) -> None:
    assert outputs(traced(case.program, case.name)) == case.error


@pytest.mark.parametrize("case", WRONG, ids=named)
def test_a_name_that_differs_between_paths_is_an_error(case: ErrorCase) -> None:
    with pytest.raises(TileNameError) as caught:
        traced(case.program, case.name)
    text = str(caught.value)
    if "\n" in case.error:
        assert text == as_known(case.error)
    assert text.splitlines()[0] == case.error.splitlines()[0]
    assert "T.alloc_var" in text or "defining region" in text or "denotes one object" in text
    assert f"--> <{case.name}>:" in text


@pytest.mark.parametrize(
    "name", ["the second side sees the value from before", "the other side leaves the loop"]
)
@pytest.mark.parametrize("how", [CPU, SM_90A])
def test_other_executors_run_the_same_program(name: str, how: str) -> None:
    (case,) = (case for case in RIGHT if case.name == name)
    assert outputs(traced(case.program, name), how) == case.error


@pytest.mark.parametrize("case", SOME, ids=named)
def test_eager_kernels_follow_names_as_well(case: ErrorCase) -> None:
    func = traced(case.program, case.name, "@tilelang.jit(target='cpu')")
    out = np.zeros(4, np.int32)
    if case.error == DEPENDS:
        with pytest.raises(TileNameError, match=DEPENDS):
            func(A, 3, out)
    else:
        func(A, 3, out)
        assert " ".join(map(str, out)) == case.error


@pytest.mark.parametrize("case", SOME, ids=named)
def test_macros_follow_names_as_well(case: ErrorCase) -> None:
    inner = "\n".join("    " + line for line in case.program.splitlines())
    program = f"@T.macro\ndef work():\n{inner}\nwork()"
    if case.error == DEPENDS:
        with pytest.raises(TileNameError, match=DEPENDS):
            traced(program, case.name)
    else:
        assert outputs(traced(program, case.name)) == case.error


def test_names_that_stay_inside_cost_nothing() -> None:
    assert "alloc_var" not in traced(RIGHT[0].program, "inside").script()


def test_state_of_a_class_bound_in_a_loop() -> None:
    @T.meta_class
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def step(self) -> None:
            self.count = self.count + 1

    with pytest.raises(TileNameError, match="the attribute `count` is bound again"):

        @T.prim_func
        def f(O: T.Tensor((4,), "int32")) -> None:
            with T.Kernel(1, threads=1):
                state = Counter()
                for t in T.serial(4):
                    state.step()
                    O[t] = state.count
