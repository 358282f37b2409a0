"""No name of a program is one that the text around it has: of headers, printers or launchers.

Words with ``tl_`` and ``__`` in front belong to the package, so that a word of a text is safe
if it starts so, or if nothing else has it. The others are tried: every word of headers and printers
that a program can have, in every role of a name (a kernel adds an ending to its own).
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import replay
from written import executed

import tilelang
import tilelang.language as T
from tilelang.codegen.names import Names
from tilelang.compiler import compile as compile_source
from tilelang.cpu.module import RESERVED
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.dialect import CUDA
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin
from tilelang.errors import TileError
from tilelang.hip.dialect import HIP
from tilelang.ir import stmt as S
from tilelang.metal.dialect import METAL
from tilelang.target import parse_target

PACKAGE = Path(tilelang.__file__).parent
# Targets: what they are called, reserved words, folders of printers and headers.
TARGETS: dict[str, tuple[str, Iterable[str], tuple[str, ...]]] = {
    "cpu": ("cpu", RESERVED, ("codegen", "cpu")),
    "cuda": ("cuda -arch=sm_90a", CUDA.reserved, ("codegen", "cuda", "emulator")),
    "hip": ("hip -mcpu=gfx942", HIP.reserved, ("codegen", "hip", "emulator", "emulator/amd")),
    "metal": ("metal", METAL.reserved, ("codegen", "metal", "emulator", "emulator/metal")),
}
WORD = re.compile(r"(?<![\w.%#])(?<!->)[A-Za-z_]\w*")
DEFINE = re.compile(r"#\s*define\s+(\w+)(\([^)]*\))?((?:[^\n]*\\\n)*[^\n]*)")


def given(words: Iterable[str], reserved: Iterable[str]) -> list[str]:
    """Those of the words that a program can have as its own."""
    kept = Names(reserved)
    return sorted(word for word in set(words) if kept.fresh(word) == word)


@cache
def headers(*folders: str) -> tuple[str, ...]:
    """The texts of the headers, without comments and strings."""
    found = []
    for folder in folders:
        for path in sorted((PACKAGE / folder / "include").glob("*.h")):
            text = re.sub(r"//.*|/\*.*?\*/", "", path.read_text("utf-8"))
            found.append(re.sub(r'"(\\.|[^"\\\n])*"', " ", text))
    return tuple(found)


def printed(*folders: str) -> set[str]:
    """Words of the strings of the modules of printers, documentation left out."""
    found: set[str] = set()
    for path in (path for folder in folders for path in (PACKAGE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value = ast.Constant(None)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(WORD.findall(node.value))
    return found


# -- what is written around names ------------------------------------------------------------------
# Words that macros only paste into others (`TL_LOAD_IF(w, f32, ...)`): they name kinds of values.
PASTED = frozenset(
    "b d h w ps pd f16 bf16 tf32 f32 f64 s8 s32 u8 e4m3 e5m2".split()
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_no_name_is_that_of_a_macro(target: str) -> None:
    _, reserved, folders = TARGETS[target]
    macros = (name for text in headers(*folders) for name, _, _ in DEFINE.findall(text))
    assert given(macros, reserved) == []


@pytest.mark.parametrize("target", ["cpu", "metal"])
def test_macros_use_no_identifier_that_programs_can_use(target: str) -> None:
    text = "\n".join(headers(target))
    caught: dict[str, list[str]] = {}
    for name, params, body in DEFINE.findall(text):
        outside = re.search(rf"(?m)^ *{name}\b", text)  # it replaces whole functions
        if (
            outside
            or not name.lower().startswith("tl_")
            or re.search("static|typedef|TL_INLINE", body)
        ):
            continue
        body = re.sub(r"__attribute__\(\(.*?\)\)", "", body)
        pasted = {word for pair in re.findall(r"##\s*(\w+)|(\w+)\s*##", body) for word in pair}
        own = PASTED | pasted | set(WORD.findall(params))
        found = given(set(WORD.findall(body)) - own, TARGETS[target][1])
        if found:
            caught[name] = found
    assert not caught


# Those of the benchmarks need torch, and their programs are of other groups, too.
GROUPS = [name for name in replay.groups() if name not in ("h200", "cpu_bench")]
COMMENT = re.compile(
    r'__attribute__\(\(.*?\)\)|\[\]\(.*?\}|//.*|"(?:\\.|[^"\\\n])*"|^\s*#.*', re.MULTILINE
)
SOURCE_LINE = re.compile(r"// \S+:\d+$", re.MULTILINE)


@pytest.mark.share(48)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("group", GROUPS)
def test_generated_source_uses_no_identifier_that_programs_can_use(
    group: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, reserved, _ = TARGETS[target]
    handed: set[str] = set()
    fresh = Names.fresh

    def note(names: Names, wanted: str, ends: Iterable[str] = ("",)) -> str:
        found = fresh(names, wanted, ends)
        handed.update(found + end for end in ends)
        return found

    monkeypatch.setattr(Names, "fresh", note)
    caught: dict[str, str] = {}
    for item in replay.groups()[group]():
        handed.clear()
        try:
            assert not isinstance(item.func, TileError)
            text = compile_source(item.func, parse_target(name), item.options).source
        except (TileError, AssertionError):
            continue
        foreign = [str(item.func.attr("import_source", ""))]  # what users wrote in CUDA itself
        for launch in S.find(item.func.body, S.Launch):
            foreign += [launch.hints.prelude or "", launch.hints.import_source or ""]
        handed.update(WORD.findall(" ".join(foreign)))
        for part in re.split(r"(?m)^\}.*$", text):
            if SOURCE_LINE.search(part):  # the user's lines are in it
                found = set(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", COMMENT.sub(" ", part)))
                caught |= dict.fromkeys(found - handed, item.name)
    left = set(given(caught, reserved)) - PASTED
    kernels = re.compile(r"\w+_kernel(_\d+)?")  # a kernel keeps its own name
    assert not {word: caught[word] for word in left if not kernels.fullmatch(word)}


# -- every word in every role ----------------------------------------------------------------------
SIZE, BATCH = 64, 40
HEAD = 'def main({params}zz_a: T.Tensor((64,), "float32"), zz_b: T.Tensor(({count}, 64), "float32")):\n'
LOOP = "        for zz_i in T.Parallel(64):\n            "
# Role: the parameter, and the lines that make row {k} of zz_b the input plus {k}.
ROLES: dict[str, tuple[str, str]] = {
    "input": ('{n}: T.Tensor((64,), "float32"), ', LOOP + "zz_b[{k}, zz_i] = {n}[zz_i] + {k}\n"),
    "output": (
        '{n}: T.Tensor((64,), "float32"), ',
        LOOP + "{n}[zz_i] = zz_a[zz_i] + {k}\n" + LOOP + "zz_b[{k}, zz_i] = {n}[zz_i]\n",
    ),
    "scalar": ("{n}: T.int32, ", LOOP + "zz_b[{k}, zz_i] = zz_a[zz_i] + {n}\n"),
    "real": ("{n}: T.float32, ", LOOP + "zz_b[{k}, zz_i] = zz_a[zz_i] + {n}\n"),
    "tile": (
        "",
        '        {n} = T.alloc_shared((64,), "float32")\n        T.copy(zz_a, {n})\n'
        + LOOP + "zz_b[{k}, zz_i] = T.if_then_else(zz_i < 70, {n}[zz_i], 0.0) + {k}\n",
    ),
    "fragment": (
        "",
        '        {n} = T.alloc_fragment((64,), "float32")\n        T.copy(zz_a, {n})\n'
        + LOOP + "{n}[zz_i] = {n}[zz_i] + {k}\n        T.copy({n}, zz_b[{k}, 0])\n",
    ),
    "variable": (
        "",
        '        {n} = T.alloc_var("int32")\n        {n} = zz_n + {k}\n'
        + LOOP + "zz_b[{k}, zz_i] = zz_a[zz_i] + {n}\n",
    ),
    "value": (
        "",
        LOOP + "{n} = zz_a[zz_i] + {k}\n            if {n} < 1e6:\n                zz_b[{k}, zz_i] = {n}\n",
    ),
    "loop": (
        "",
        "        for {n} in T.serial(zz_n + 1):\n    " + LOOP.replace("\n", "\n    ")
        + "zz_b[{k}, zz_i] = zz_a[zz_i] + ({n} + {k})\n",
    ),
    "iteration": ("", "        for {n} in T.Parallel(64):\n            zz_b[{k}, {n}] = zz_a[{n}] + {k}\n"),
    "block": (
        "",
        "    with T.Kernel(2, threads=32) as {n}:\n        for zz_i in T.Parallel(32):\n"
        "            zz_b[{k}, {n} * 32 + zz_i] = zz_a[{n} * 32 + zz_i] + {k}\n",
    ),
    "argument": ("", "        zz_{k}({n}=zz_a, zz_c=zz_b)\n"),
    "dimension": (
        'zz_{k}: T.Tensor(({n},), "float32"), ',
        LOOP + "zz_b[{k}, zz_i] = zz_{k}[{n} - 64 + zz_i] + ({n} - 64 + {k})\n",
    ),
}  # fmt: skip

# Role: what precedes the function.
BEFORE = {
    "argument": (
        "@T.macro\ndef zz_{k}({n}, zz_c):\n    for zz_i in T.Parallel(64):\n"
        "        zz_j = {n}[zz_i]\n        zz_c[{k}, zz_i] = zz_j + {k}\n"
    ),
    "dimension": '{n} = T.dynamic("{n}")\n',
}


def program(role: str, names: list[str]) -> Any:
    """A function that has all ``names`` in one role."""
    param, lines = ROLES[role]
    params = "zz_n: T.int32, " + "".join(param.format(n=n, k=k) for k, n in enumerate(names))
    text = "".join(BEFORE.get(role, "").format(n=n, k=k) for k, n in enumerate(names))
    text += "@T.prim_func\n" + HEAD.format(params=params, count=len(names))
    text += "" if role == "block" else "    with T.Kernel(1, threads=64):\n"
    text += "".join(lines.format(n=name, k=k) for k, name in enumerate(names))
    return executed(text, f"<{role} {names[0]}>")["main"]


def arguments(role: str, count: int) -> tuple[list[Any], np.ndarray]:
    """What the program is called with, and what it makes of it."""
    first = np.arange(SIZE, dtype=np.float32)
    own: list[Any] = []
    if role in ("input", "output", "dimension"):
        own = [first.copy() for _ in range(count)]
    elif role in ("scalar", "real"):
        own = list(range(count))
    wanted = first + np.arange(count, dtype=np.float32)[:, None]
    return [0, *own, first, np.zeros((count, SIZE), np.float32)], wanted


@cache
def words(target: str) -> list[str]:
    """Every word of the headers and the printers of a target that a program can have."""
    _, reserved, folders = TARGETS[target]
    found = printed(*folders) | {word for text in headers(*folders) for word in WORD.findall(text)}
    return [word for word in given(found, reserved) if not keyword.iskeyword(word) and word != "T"]


def batches() -> list[tuple[str, str, int]]:
    return [
        (target, role, at)
        for target in TARGETS
        for role in ROLES
        for at in range(0, len(words(target)), BATCH)
    ]


@pytest.mark.share(200)
@pytest.mark.parametrize(("target", "role", "at"), batches())
def test_every_keyword_can_be_a_name_of_a_program(target: str, role: str, at: int) -> None:
    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    names = words(target)[at : at + BATCH]
    func = program(role, names)
    options = {"target": TARGETS[target][0]}
    if target != "cpu":
        options["execution_backend"] = "emulator"
    given_, wanted = arguments(role, len(names))
    tilelang.compile(func, **options)(*given_)  # type: ignore[call-overload]  # options by name
    np.testing.assert_array_equal(given_[-1], wanted)
    if target == "cuda" and find_nvrtc() is not None:
        source = compile_source(func, parse_target(options["target"])).source
        assert compile_cubin(source, "sm_90a").cubin


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_has_a_unique_name(target: str) -> None:
    """Whatever the function is called: with its ending, no text around it has the name."""
    _, reserved, folders = TARGETS[target]
    around = printed(*folders) | {word for text in headers(*folders) for word in WORD.findall(text)}
    own = {"tl"}  # tl_kernel is a type of the loader of libraries, whose text holds no kernel
    assert not {word for word in around | set(reserved) if f"{word}_kernel" in around} - own


def test_a_variable_is_not_called_like_a_function_that_the_kernel_calls() -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32, prelude="__device__ float twice(float x) { return 2 * x; }"):
            tx = T.get_thread_binding()
            twice = A[tx] + 1.0
            A[tx] = T.call_extern("float32", "twice", twice)

    source = compile_source(main, parse_target("cuda -arch=sm_80")).source
    assert "float twice_1 = " in source and " = twice(twice_1);" in source
