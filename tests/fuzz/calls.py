"""Random calls of every function of the language, with arguments of kinds that may be wrong.

A call is drawn from the parameters of the function: their names say which kind is probably right
(``dtype``, ``shape``, ``mask``, a buffer), and each argument is replaced by any other kind with
some probability. The result is used in one of several places. A call is right, or an error of the
program: never an internal error and never an exception of Python from inside the package.
"""

from __future__ import annotations

import ast
import inspect
import random
import re
from typing import Any

import tilelang.language as T

__all__ = ["HEAD", "functions", "make_call"]

HEAD = """\
import numpy as np
import tilelang.language as T


@T.prim_func
def main(A: T.Tensor((8, 8), "float32"), I: T.Tensor((64,), "int32"), O: T.Tensor((64,), "int32"),
         n: T.int32):
    with T.Kernel(2, threads=128) as bx:
        tx = T.get_thread_binding()
"""
NAMES = {
    "s": "T.alloc_shared((8, 8), 'float32')", "h": "T.alloc_shared((64, 64), 'float16')",
    "g": "T.alloc_fragment((64, 64), 'float32')", "f": "T.alloc_fragment((8, 8), 'float32')",
    "r": "T.alloc_fragment((8,), 'float32')", "l": "T.alloc_local((4,), 'int32')",
    "v": "T.alloc_var('int32')", "b": "T.alloc_barrier([128, 1])",
}  # fmt: skip
NUMBERS = (
    "0", "1", "2", "3", "7", "8", "16", "32", "64", "-1", "True", "False", "0.5", "1.5", "-0.0", "2**31", "2**32",
    "2**63", "2**64", "10**30", "10**400", "-2**63", "float('nan')", "float('inf')", "-float('inf')",
    "1e300", "1j", "np.float32(3)", "np.int64(3)", "np.float64('nan')", "np.bool_(True)",
)  # fmt: skip
TEXTS = (
    "''", "'x'", "'float32'", "'shared'", "'sum'", "'3'", "b'ab'", "'a b'", "'\\0'", "'global'", "'relaxed'",
    "'row'", "'fp16'", "'m16n8k16'",
)  # fmt: skip
OBJECTS = (
    "None", "object()", "()", "(1,)", "(-1,)", "(8, 8)", "(n,)", "(tx, 8)", "('x',)", "[1, 2]",
    "[]", "{}", "{'a': 1}", "{1, 2}", "range(4)", "slice(1, 2)", "slice(None)", "...", "int",
    "float", "T.copy", "np.arange(4)", "np.zeros((8, 8), 'f4')", "lambda i: i",
    "lambda i, j: (j, i)", "lambda: 1", "(float('nan'),)", "(2**40, 2**40)", "(tx,)", "[tx, n]",
    "NotImplemented", "T.Layout((8, 8), lambda i, j: i * 8 + j)", "T.GemmWarpPolicy.Square",
    "T.Tensor((4,), 'float32')", "(0,)", "(0, 0)", "((1, 2), 3)",
)  # fmt: skip
VALUES = (
    "n", "tx", "bx", "tx + 1", "n * 2", "I[0]", "I[tx]", "A[0, 0]", "A[tx % 8, 0] * 2", "v", "l[0]",
    "tx < 3", "n > 0", "T.float16(1)", "T.int8(n)", "T.uint64(n)", "T.address_of(I[0])",
    "T.access_ptr(s, 'r')", "A.data", "s[tx % 8, 0]", "f[0, 0]", "T.dynamic('q')",
    "T.cast(n, 'float8_e4m3')", "T.infinity('float32')", "T.max_value('int32')",
)  # fmt: skip
BUFFERS = (
    "A", "I", "O", "s", "h", "g", "f", "r", "l", "v", "b", "b[0]", "A[0:4, 0]", "A[0, 0]", "I[0:8]", "s[0:8, 0:8]",
    "f[0:4, 0:8]", "I[n:n + 4]", "I[tx:tx + 4]", "A[0:8:2, 0]", "h[0:32, :]",
)  # fmt: skip
DTYPES = (
    "'float32'", "'int32'", "'float16'", "'int8'", "'uint8'", "'bool'", "'float8_e4m3'", "'int4'", "'float64'",
    "T.float16x2", "T.bfloat16", "T.handle", "int", "np.float32", "'void'", "'float99'",
)  # fmt: skip
VOID = (
    "T.sync_threads()", "T.mbarrier_arrive(b[0])", "T.fence_proxy_async()", "T.copy(A, s)",
    "T.clear(s)", "T.pdl_sync()", "T.print(n)", "T.barrier_wait(b[0], 0)", "T.evaluate(0)",
    "T.warpgroup_arrive()", "T.wait_wgmma(0)", "T.tma_store_arrive()", "T.sync_warp()",
    "T.ptx_arrive_barrier(b[0])", "T.device_assert(n > 0)",
)  # fmt: skip
KINDS = (NUMBERS, TEXTS, OBJECTS, VALUES, BUFFERS, DTYPES, VOID)
PLACES = (
    "{}", "{}", "{}", "{}", "{}", "{}", "{}", "O[0] = {}", "y = {}\nO[tx] = y", "O[tx] = T.cast({}, 'int32')",
    "v = {}", "if {}:\n    O[0] = 1", "for k in T.serial({}):\n    O[0] = k",
    "for k in {}:\n    O[0] = k", "O[{}] = 1", "A[{}, 0] = 1.0", "T.evaluate({})",
    "y = {}\nT.print(y)", "with {}:\n    O[0] = 1", "O[0] = {} + 1", "y = -{}",
    "while {}:\n    T.loop_break()", "y = T.if_then_else({}, 1, n)\nO[0] = y",
    "y = T.if_then_else(n > 0, {}, n)\nO[tx] = y", "for i in T.Parallel(8):\n    r[i] = {}",
    "for i in T.Parallel(8):\n    {}", "if tx < 3:\n    {}", "y = {}\ny[0] = 1",
    "for k in T.Pipelined(4):\n    {}", "O[0] = T.Select({}, 1, 2)", "T.copy({}, s)",
    "f[0, 0] = T.max({}, n)",
)  # fmt: skip
# Part of a parameter's name -> what is probably meant.
MEANT = (
    (("dtype",), DTYPES),
    (("shape", "extent", "strides"), ("(8, 8)", "(64,)", "8", "(n,)", "(8,)", "(4, 2)")),
    (("scope", "reduce_type", "order", "op_type", "name", "msg", "side"), TEXTS),
    (("buf", "src", "dst", "out", "input", "tile", "tensor", "bar", "ptr", "region"), BUFFERS),
    (("cond", "pred"), ("n > 0", "tx < 3", "True", "I[0] > 0")),
    (("fn", "func", "layout", "map"), ("lambda i: i", "lambda i, j: (j, i)", "lambda i, j: i * 8 + j")),
    (("mask", "width", "num", "count", "size", "stage", "id", "delta", "lane", "bits", "start", "stop", "step", "dim"),
     ("0", "1", "2", "4", "8", "32", "n", "tx")),
)  # fmt: skip


def functions() -> list[str]:
    """The public functions, without kinds of numbers: each of those is like the others."""
    few = ("float32", "int8", "int32x4", "bool")
    return sorted(
        name
        for name in T.__all__
        if callable(getattr(T, name))
        and (name in few or not isinstance(getattr(T, name), type(T.float32)))
    )


def _argument(draw: random.Random, name: str, wrong: float) -> str:
    if draw.random() >= wrong:
        for parts, meant in MEANT:
            if any(part in name.lower() for part in parts):
                return draw.choice(meant)
        if len(name) == 1 or name in ("args", "value", "a", "b", "x", "y", "lhs", "rhs"):
            return draw.choice(draw.choice((VALUES, BUFFERS, NUMBERS[:8])))
        return draw.choice(draw.choice((BUFFERS, NUMBERS[:8], VALUES)))
    return draw.choice(draw.choice(KINDS))


def _arguments(draw: random.Random, function: Any) -> str:
    wrong = draw.choice((0.0, 0.15, 0.15, 0.5, 1.0))
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    given: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += [
                _argument(draw, parameter.name, wrong) for _ in range(draw.choice((0, 1, 2, 3, 9)))
            ]
        elif parameter.kind is parameter.VAR_KEYWORD:
            continue
        elif parameter.default is parameter.empty or draw.random() < 0.2:
            text = _argument(draw, parameter.name, wrong)
            keyword = (
                parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY
            )
            given.append(f"{parameter.name}={text}" if keyword else text)
    if given and draw.random() < 0.05:
        given.pop()
    return ", ".join(sorted(given, key=lambda text: _KEYWORD.match(text) is not None))


_KEYWORD = re.compile(r"\w+=(?!=)")


def make_call(seed: int) -> str:
    """The program of one seed: a call, and a place where its result is used."""
    draw = random.Random(seed)
    names = functions()
    name = names[seed % len(names)]
    call = f"T.{name}({_arguments(draw, getattr(T, name))})"
    line = draw.choice(PLACES).replace("{}", call)
    used = {node.id for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    lines = [f"{name} = {made}" for name, made in NAMES.items() if name in used]
    lines += [f"T.clear({name})" for name in "shgfr" if name in used]
    return HEAD + "".join(f"        {text}\n" for text in (*lines, *line.splitlines()))
