"""``match`` in kernels and macros takes the case that Python takes, with the names that it binds."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import enum
import inspect
import linecache
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tiny import run

import tilelang
import tilelang.language as T


class Mode(enum.Enum):
    ADD = "add"
    MUL = "mul"


@dataclass(frozen=True)
class Scale:
    by: int
    then: object = None


MODE = Mode.ADD


def chosen(of: Any) -> list[int]:
    O = [0, 0, 0, 0]
    match of:
        case Mode.ADD | "add":
            O[0] = 1
        case Mode.MUL:
            O[0] = 2
        case bool(flag) if flag:
            O[0] = 3
        case 7 | 9 as number:
            O[0], O[1] = 4, number
        case int(number) if number > 100:
            O[0], O[1] = 5, number
        case str() as text if len(text) > 3:
            O[0], O[1] = 6, len(text)
        case Scale(by, then=Scale(other)):
            O[0], O[1], O[2] = 7, by, other
        case Scale(by=by, then=None):
            O[0], O[1] = 8, by
        case {"n": number, **rest}:
            O[0], O[1], O[2] = 9, number, len(rest)
        case [first, *_, last] if first != last:
            O[0], O[1], O[2] = 10, first, last
        case (single,):
            match single:
                case 1:
                    O[0] = 11
                case inner:
                    O[0], O[1] = 12, inner
        case None:
            O[0] = 13
        case []:
            pass
        case 2.5:
            O[0] = 14
    O[3] = 1
    return O


SUBJECTS = [
    Mode.ADD, Mode.MUL, "add", "sub", "multiply", True, False, 7, 9, 8, 101, 2.5, None, (), [], (1,),
    [5], (1, 2), (1, 2, 3), (2, 2), Scale(3), Scale(3, Scale(4)), Scale(3, "x"), {"n": 4},
    {"n": 4, "m": 5}, {}, np.int64(7), 3 + 4j,
]  # fmt: skip


@pytest.fixture(scope="module")
def kernels() -> Any:
    """The body of :func:`chosen` as that of a kernel, and as that of a macro."""
    lines = inspect.getsource(chosen).splitlines()[2:-1]
    text = [
        "def of_kernel(of):", "    @T.prim_func", "    def f(O: T.Tensor((4,), 'int32')):",
        "        with T.Kernel(1, threads=1):", *("        " + line for line in lines),
        "    return f", "@T.macro", "def choose(of, O):", *lines,
        "def of_macro(of):", "    @T.prim_func", "    def f(O: T.Tensor((4,), 'int32')):",
        "        with T.Kernel(1, threads=1):", "            choose(of, O)", "    return f",
    ]  # fmt: skip
    source = "\n".join(text)
    linecache.cache["<match>"] = (len(source), None, source.splitlines(True), "<match>")
    names = {"T": T, "Mode": Mode, "Scale": Scale}
    exec(compile(source, "<match>", "exec"), names)
    return names["of_kernel"], names["of_macro"]


@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_the_case_of_python_is_taken(kernels: Any, subject: object) -> None:
    for make in kernels:
        out = np.zeros(4, np.int32)
        run(make(subject), out)
        assert out.tolist() == chosen(subject)


def test_values_of_the_kernel_are_bound_and_cases_return() -> None:
    @T.macro
    def applied(op: Any, x: Any) -> Any:
        match (op, x):
            case ("twice", value):
                return value * 2
            case (("shift", by), value) if by:
                value = value << by
        return value + 1

    @T.prim_func
    def f(O: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(2):
                O[i] = applied("twice", i + 5)
                if i > 0:
                    O[i + 1] = applied(("shift", 3), i)

    out = np.zeros(4, np.int32)
    run(f, out)
    assert out.tolist() == [10, 12, 9, 0]


def test_matched_values_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    @tilelang.jit(target="cpu", execution_backend="interpret")
    def program():
        @T.prim_func
        def f(O: T.Tensor((1,), "int32")):
            with T.Kernel(1, threads=1):
                match MODE:
                    case Mode.ADD:
                        O[0] = 1
                    case Mode.MUL:
                        O[0] = 2

        return f

    found = []
    for mode in (*Mode, Mode.ADD):
        monkeypatch.setitem(globals(), "MODE", mode)
        out = np.zeros(1, np.int32)
        program()(out)
        found += out.tolist()
    assert found == [1, 2, 1]
