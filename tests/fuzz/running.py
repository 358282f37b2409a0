"""Runs a program in the interpreter and as compiled C and compares every result."""

from __future__ import annotations

import linecache
import zlib
from typing import Any

import numpy as np

import tilelang
from tilelang.errors import TileNameError

from .cross import Cross
from .exprs import MANTISSA
from .gpu import execute_on_gpu
from .model import Computed, Disagreement, Program, Tensor, decode, input_array, numbered
from .shadow import NotShadowed, shadow_results
from .shadow.tiles import Tile
from .shadow.values import Scalar, converted


def load(source: str) -> Any:
    """The traced function of ``source``, which tracebacks can show."""
    file = f"<fuzz-{zlib.crc32(source.encode()):08x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "fuzz_program"}
    exec(compile(source, file, "exec", dont_inherit=True), names)  # noqa: S102
    return names["main"]


def fresh(program: Computed) -> dict[str, Any]:
    """Arguments of a call; views of one array are views of one copy of it."""
    copies: dict[int, np.ndarray] = {}
    given: dict[str, Any] = dict(program.inputs)
    for name, array in given.items():
        if isinstance(array, np.ndarray):
            base = array if array.base is None else array.base
            start = array.ctypes.data - base.ctypes.data
            copied = copies.setdefault(id(base), base.copy())
            given[name] = np.ndarray(array.shape, array.dtype, copied.data, start, array.strides)
    return given


def compare_computed(program: Computed, found: dict[str, Any], where: str) -> None:
    """``found`` is what is expected."""
    for name, array in found.items():
        wanted = program.expected.get(name, program.inputs[name])
        text = f"{name}, {where}\n{numbered(program.source)}"
        np.testing.assert_array_equal(array, wanted, err_msg=text)


def agree(program: Computed, seed: int, **way: str) -> None:
    """``program``, compiled with the options ``way``, computes what is expected."""
    given = fresh(program)
    tilelang.compile(load(program.source), **way)(*given.values())
    compare_computed(program, given, f"seed {seed}, {way}")


def agree_checked(program: Computed, seed: int, target: str) -> None:
    """Threads in a random order compute what is expected, and no check finds anything."""
    given = fresh(program)
    report = tilelang.sanitize(
        load(program.source), *given.values(), target=target, schedule="random", seed=seed
    )
    assert report.ok, f"seed {seed}, {target}: {report}\n{program.source}"
    compare_computed(program, dict(zip(given, report.arguments)), f"seed {seed}, {target}")


def arguments(program: Program, seed: int) -> dict[str, Any]:
    """Inputs by name; outputs start with a pattern, so that a dropped store shows."""
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {name: value for name, _, value in program.scalars}
    for tensor in program.tensors:
        if tensor.role == "in":
            values[tensor.name] = input_array(tensor, rng)
        elif tensor.role == "inout":
            values[tensor.name] = rng.integers(0, 4, tensor.shape).astype(tensor.dtype)
        else:
            values[tensor.name] = _pattern(tensor)
    return values


def _pattern(tensor: Tensor) -> np.ndarray:
    storage = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}
    return np.full(tensor.shape, 77, storage.get(tensor.dtype, tensor.dtype))


class Fenced:
    """Results inside larger arrays whose ends no kernel may touch."""

    FENCE = 64

    def __init__(self) -> None:
        self._bases: dict[str, np.ndarray] = {}

    def put(self, name: str, array: np.ndarray) -> np.ndarray:
        """A copy of ``array`` with a fence on both sides."""
        base = np.full(array.size + 2 * self.FENCE, 99, array.dtype)
        inside = base[self.FENCE : self.FENCE + array.size].reshape(array.shape)
        inside[...] = array
        self._bases[name] = base
        return inside

    def broken(self) -> list[str]:
        """Names of the arrays that were written outside."""
        return [
            name
            for name, base in self._bases.items()
            if (base[[*range(self.FENCE), *range(-self.FENCE, 0)]] != base.dtype.type(99)).any()
        ]


def execute(
    program: Program, func: Any, backend: str, seed: int, target: str = "cpu"
) -> dict[str, np.ndarray]:
    """Results of one way of running."""
    kernel = tilelang.compile(func, target=target, execution_backend=backend)
    values, fences = arguments(program, seed), Fenced()
    results = [tensor.name for tensor in program.tensors if tensor.role != "in"]
    for name in results:
        values[name] = fences.put(name, values[name])
    kernel(*(values[name] for name in program.order))
    for name in fences.broken():
        raise Disagreement(program.source, name, f"{backend} writes outside of the array")
    return {name: values[name] for name in results}


def execute_emulated(
    program: Program, func: Any, seed: int, chip: str = ""
) -> dict[str, np.ndarray]:
    """Results of the GPU code in the emulator, for CUDA unless an AMD chip or Metal is named; its
    checks find nothing."""
    values = arguments(program, seed)
    arch = "sm_75" if seed % 4 == 3 else "sm_80"
    arch = "sm_90a" if "hopper" in program.features else arch
    arch = chip if chip.startswith("sm_") else arch
    target = f"hip -mcpu={chip}" if chip.startswith("gfx") else f"cuda -arch={arch}"
    target = chip if chip == "metal" else target
    report = tilelang.sanitize(
        func, *(values[name] for name in program.order), target=target, schedule="random", seed=seed
    )
    if not report.ok:
        raise Disagreement(program.source, "nothing", f"random schedule, seed {seed}: {report}")
    after = dict(zip(program.order, report.arguments))
    return {tensor.name: after[tensor.name] for tensor in program.tensors if tensor.role != "in"}


def execute_cuda(program: Program, func: Any, seed: int) -> dict[str, np.ndarray]:
    """Results of the GPU."""
    found, broken = execute_on_gpu(program, func, arguments(program, seed))
    for name in broken:
        raise Disagreement(program.source, name, "cuda writes outside of the array")
    return found


def execute_shadow(program: Program, seed: int) -> dict[str, np.ndarray]:
    """Results of the text run as plain Python, as float64 or int64. Raises NotShadowed."""
    held: dict[str, Any] = {}
    symbols: dict[str, int] = {}
    dtypes = {name: dtype for name, dtype, _ in program.scalars}
    values = arguments(program, seed)
    for tensor in program.tensors:
        data = values[tensor.name]
        is_float = tensor.dtype in MANTISSA
        numbers = decode(data, tensor.dtype) if is_float else data.astype(np.int64)
        held[tensor.name] = Tile(np.array(numbers), tensor.dtype, is_global=True)
        symbols |= {
            dim: size
            for dim, size in zip(tensor.dims, tensor.shape, strict=True)
            if not dim.isdigit()
        }
    for name, dtype in dtypes.items():
        held[name] = Scalar(converted(values[name], dtype), dtype)
    for name, size in symbols.items():
        held[name] = Scalar(size, program.symbol_dtypes.get(name, "int32"))
    results = {tensor.name: tensor.dtype for tensor in program.tensors if tensor.role != "in"}
    with np.errstate(all="ignore"):
        return shadow_results(program.source, held, results)


def check_meaning(program: Program, expected: dict[str, np.ndarray], seed: int) -> None:
    """Raise :class:`Disagreement` when the interpreter gives other numbers than plain Python."""
    if "automatic barriers" in program.features:  # plain Python runs thread after thread
        return
    try:
        found = execute_shadow(program, seed)
    except NotShadowed:
        return
    for tensor in program.tensors:
        if tensor.role == "in":
            continue
        numbers = expected[tensor.name]
        is_float = tensor.dtype in MANTISSA
        numbers = decode(numbers, tensor.dtype) if is_float else numbers.astype(np.int64)
        detail = unequal(tensor, found[tensor.name], numbers, ("plain Python", "interpreter"))
        if detail:
            raise Disagreement(program.source, tensor.name, detail)


def check(program: Program, seed: int = 0, target: str = "cpu", cross: Cross | None = None) -> None:
    """Raise :class:`Disagreement` when interpreter and the back end give different results.

    The interpreter's results are compared with those of the same text run as plain Python first.
    """
    try:
        func = load(program.source)
    except TileNameError as refused:
        if "rebinds" in program.features and "T.alloc_var" in str(refused):
            return  # a name that control flow binds again is right or refused with advice
        raise
    with np.errstate(all="ignore"):
        expected = execute(program, func, "interpret", seed)
    check_meaning(program, expected, seed)
    if target == "interpret":
        return
    if cross is not None:
        found = cross.execute(program, func, arguments(program, seed))
        if not found:
            return
    elif target == "cuda":
        found = execute_cuda(program, func, seed)
    elif target == "emulator":
        found = execute_emulated(program, func, seed)
    elif target.startswith(("gfx", "sm_")) or target == "metal":
        found = execute_emulated(program, func, seed, target)
    else:
        found = execute(program, func, "c", seed, target)
    compare(program, expected, found)


def compare(
    program: Program, expected: dict[str, np.ndarray], found: dict[str, np.ndarray]
) -> None:
    """Raise :class:`Disagreement` for the first result that differs."""
    for tensor in program.tensors:
        if tensor.role == "in":
            continue
        detail = difference(tensor, expected[tensor.name], found[tensor.name])
        if detail:
            raise Disagreement(program.source, tensor.name, detail)


def difference(tensor: Tensor, expected: np.ndarray, found: np.ndarray) -> str:
    """What differs, or nothing. Results of inexact operations may differ by some rounding."""
    if expected.tobytes() == found.tobytes():
        return ""
    a, b = decode(expected, tensor.dtype), decode(found, tensor.dtype)
    return unequal(tensor, a, b, ("interpreter", "compiled"))


def unequal(tensor: Tensor, a: np.ndarray, b: np.ndarray, names: tuple[str, str]) -> str:
    """Where the numbers of two ways of running differ, or nothing."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if tensor.prec < 53 and tensor.dtype in MANTISSA:
        room = 2.0 ** (3 - tensor.prec)
        with np.errstate(invalid="ignore"):  # the difference of two infinities
            same |= np.abs(a - b) <= room * (np.abs(a) + tensor.mag)
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return (
        f"{int((~same).sum())} of {same.size} elements, first at {at}: "
        f"{names[0]} {a[at]!r}, {names[1]} {b[at]!r}"
    )
