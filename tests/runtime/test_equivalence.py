"""Both launchers agree on generated signatures and calls: same slots or same error."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tilelang.errors import TileError
from tilelang.ir.postfix import evaluate
from tilelang.runtime.native import encode, launcher_class, native_launcher
from tilelang.runtime.pylauncher import PyLauncher
from tilelang.runtime.signature import LaunchSpec, Param, Symbol, scalar, tensor

LEAVES = st.one_of(st.integers(0, 4), st.sampled_from(["$0", "$1", "$2"]))
FORMS = st.one_of(
    st.integers(0, 4),
    st.sampled_from([("$0",), ("$1",), ("$2",)]),
    st.tuples(
        LEAVES, LEAVES, st.sampled_from(["add", "sub", "mul", "floordiv", "floormod", "min", "max"])
    ),
    st.tuples(
        LEAVES,
        LEAVES,
        st.sampled_from(["add", "mul", "truncdiv", "lt"]),
        LEAVES,
        st.sampled_from(["add", "sub", "mul"]),
    ),
)
DTYPES = ["int8", "float32", "bool", "bfloat16", "int4"]
ARRAYS = [np.int8, np.float32, np.bool_, np.uint16, np.uint8]
SCALARS = st.one_of(st.integers(-2, 5), st.booleans(), st.floats(-2, 2), st.none())


@st.composite
def params(draw: st.DrawFn) -> Param:
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(FORMS) for _ in range(rank))
    strides = tuple(draw(FORMS) for _ in range(rank)) if draw(st.integers(0, 3)) == 0 else None
    kind = draw(st.sampled_from(DTYPES))
    flags = {name: draw(st.integers(0, 4)) == 0 for name in ("nullable", "written")}
    return tensor("T", kind, shape, strides, **flags)


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    if draw(st.integers(0, 9)) == 0:
        return None
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    room = [extent + draw(st.integers(0, 1)) for extent in shape]
    array: Any = np.zeros(room, draw(st.sampled_from(ARRAYS)))
    array = array[(..., *(slice(0, extent) for extent in shape))]
    if draw(st.integers(0, 5)) == 0:
        array = array.T
    if draw(st.integers(0, 5)) == 0:
        array.flags.writeable = False
    return array


def fitting(param: Param, values: list[int]) -> Any:
    """A tensor as the signature wants it for these symbols, or None when none can be."""
    shape: Any = [evaluate(dim, values) for dim in param.shape]
    strides: Any = [evaluate(dim, values) for dim in param.strides or ()]
    if None in (*shape, *strides):
        return None
    kind = ARRAYS[DTYPES.index(param.dtype)]
    if any(extent < 0 or extent > 40 for extent in shape) or any(abs(s) > 40 for s in strides):
        return None
    if param.packing > 1 and shape:
        shape[-1] = -(-shape[-1] // param.packing)
    if param.strides is None:
        return np.zeros(shape, kind)
    size = np.dtype(kind).itemsize
    base: Any = np.zeros(20000, kind)[10000:]
    return np.lib.stride_tricks.as_strided(base, shape, [stride * size for stride in strides])


def outcome(call: Any, kernel: list[Any], args: list[Any]) -> Any:
    kernel.clear()
    try:
        call(*args)
    except TileError as error:
        return type(error), str(error)
    assert kernel
    return list(kernel)


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_launchers_agree(data: st.DataObject, compiler: Any, session_cache: Any) -> None:
    native = launcher_class(compiler, session_cache)
    if native is None:
        pytest.skip("the C launcher needs Python.h")
    items: list[Param] = data.draw(st.lists(params(), min_size=1, max_size=3))
    symbols = [
        Symbol("a", used=data.draw(st.booleans())),
        Symbol("b", "int8", used=data.draw(st.booleans())),
    ]
    if data.draw(st.booleans()):
        symbols.append(Symbol("n", "int32", len(items)))
        items.append(scalar("n", "int32", 2))
    else:
        symbols.append(Symbol("c", "uint64"))
    items.append(scalar("x", "float32"))
    try:
        spec = LaunchSpec("f", tuple(items), tuple(symbols))
    except TileError:
        # Some symbol cannot be solved: carry all of them in one plain tensor.
        items.insert(0, tensor("S", "int8", tuple((f"${i}",) for i in range(len(symbols)))))
        symbols = [
            replace(symbol, param=None if symbol.param is None else symbol.param + 1)
            for symbol in symbols
        ]
        spec = LaunchSpec("f", tuple(items), tuple(symbols))
    slots: list[Any] = []
    count = len(spec.params) + len(spec.free_symbols)

    def run(address: Any) -> int:
        slots.extend(address[i] for i in range(count))
        return 0

    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_int64))(run)
    address = ctypes.cast(kernel, ctypes.c_void_p).value or 0
    slow = PyLauncher(spec, ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)(address), kernel)
    code = encode(spec)
    assert code is not None
    fast = native_launcher(native, slow, code, address)
    for turn in range(4):
        args = [data.draw(tensors() if p.kind == "tensor" else SCALARS) for p in spec.params]
        if turn:  # mostly right, with at most one argument that is not
            values = data.draw(st.lists(st.integers(0, 4), min_size=3, max_size=3))
            wrong = data.draw(st.integers(0, 2 * len(args)))
            for at, param in enumerate(spec.params):
                if at != wrong and param.kind == "tensor":
                    args[at] = fitting(param, values)
                elif at != wrong:
                    args[at] = 1.5 if param.symbol is None else values[param.symbol]
        assert outcome(fast, slots, args) == outcome(slow, slots, args)
