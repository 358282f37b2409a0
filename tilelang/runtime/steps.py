"""The host part of a GPU program: steps over 64-bit slots, encoded as 64-bit integers that Python
and C interpret.

A program is an array of 64-bit integers. So it can be stored, passed to the C launcher unchanged,
and run without a host compiler by :class:`Machine`. Steps follow one another:

    LET slot form PROGRAM                  slot = value, stored as an integer of that form
    ASSERT number PROGRAM                  end with this code unless the value is not zero
    LAUNCH kernel bx by bz shared cx cy cz flags n (slot form)*n PROGRAM*3
                                           flags: 1 cooperative, 2 programmatic dependent launch
    IF PROGRAM n m then*n else*m           n and m count words
    FOR slot PROGRAM*3 n body*n            slot = start, start + step, ... below stop
    WORKSPACE slot PROGRAM                 slot = device memory of that many bytes, for this call
    MAP slot im2col type rank interleave swizzle promotion fill channels pixels
        step*rank box*rank PROGRAM PROGRAM*rank PROGRAM*(rank-1)
                                           slot = a tensor map, for parameters of the form
                                           "tensormap". Programs: address, extents, strides. An
                                           im2col map has lower*(rank-2) upper*(rank-2) for a box

A PROGRAM is a count and that many pairs (operation, operand), see :mod:`tilelang.ir.postfix`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.postfix import Program, decode, evaluate, wrap
from tilelang.records import dataclass

LET, ASSERT, LAUNCH, IF, FOR, WORKSPACE, MAP = range(1, 8)

# How a slot becomes a kernel parameter: its low bytes, a float32, the bytes of a tensor map, or a
# narrow float. C knows the first three.
FORMS = (
    "raw", "float32", "tensormap", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
    "float8_e8m0fnu",
)  # fmt: skip
NATIVE_FORMS = 3
MAX_MAPS = 16  # tensor maps of one call that C can hold
MAX_SLOTS, MAX_ARGS = 256, 128  # slots, and parameters of one kernel, that C can hold

# Codes of a run besides 0 and the positive numbers of messages; -1 is "out of memory".
NO_VALUE, GRID_TOO_LARGE, DRIVER = -2, -3, -1000
MAX_GRID = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True)
class MapForm:
    """The constant part of a tensor map; values of enums and orders as the driver takes them."""

    im2col: bool
    type: int
    rank: int
    interleave: int
    swizzle: int
    promotion: int
    fill: int
    channels: int
    pixels: int
    steps: tuple[int, ...]
    box: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    def encode(
        self, encoder: Callable[..., int], address: int, extents: Sequence[int],
        strides: Sequence[int],
    ) -> tuple[int, bytes]:  # fmt: skip
        """Call the driver's encoding function: its code, and the 128 bytes that it wrote."""
        import ctypes

        storage = ctypes.create_string_buffer(192)
        aligned = -(-ctypes.addressof(storage) // 64) * 64
        tail = (self.interleave, self.swizzle, self.promotion, self.fill)
        steps = (ctypes.c_uint32 * self.rank)(*self.steps)
        head = (
            ctypes.c_void_p(aligned), self.type, self.rank, ctypes.c_void_p(address),
            (ctypes.c_uint64 * self.rank)(*extents),
            (ctypes.c_uint64 * max(1, self.rank - 1))(*strides),
        )  # fmt: skip
        if self.im2col:
            corners = [(ctypes.c_int * len(c))(*c) for c in (self.lower, self.upper)]
            code = encoder(*head, *corners, self.channels, self.pixels, steps, *tail)
        else:
            code = encoder(*head, (ctypes.c_uint32 * self.rank)(*self.box), steps, *tail)
        return int(code), ctypes.string_at(aligned, 128)


class Launches(Protocol):
    """The operations of a GPU that the machine calls; codes are the driver's, 0 is success."""

    def tensor_map(
        self, form: MapForm, address: int, extents: Sequence[int], strides: Sequence[int]
    ) -> tuple[int, bytes]:
        """A code, and the 128 bytes of a tensor map; ``strides`` in bytes, without the
        innermost."""

    def launch(
        self, device: int, kernel: int, grid: Sequence[int], block: Sequence[int], shared: int,
        stream: int, parameters: Sequence[bytes], *, cluster: Sequence[int], cooperative: bool,
        pdl: bool,
    ) -> int:  # fmt: skip
        """Start kernel number ``kernel``."""

    def allocate(self, device: int, size: int, stream: int) -> int:
        """Allocate device memory in stream order."""

    def free(self, device: int, address: int, stream: int) -> None:
        """Free device memory in stream order."""


def store(value: int, form: int) -> int:
    """``value`` as an integer of ``form`` bits: negative for unsigned, 1 for bool, 0 as it is."""
    if form == 1:
        return int(value != 0)
    if form < 0:
        return wrap(value % 2**-form)
    return value if form in (0, 64) else (value + 2 ** (form - 1)) % 2**form - 2 ** (form - 1)


def parameter(value: int | bytes, form: int) -> bytes:
    """The bytes of a kernel parameter from a slot."""
    if isinstance(value, bytes):
        return value
    bits = value.to_bytes(8, "little", signed=True)
    if form == 0:
        return bits
    number = np.frombuffer(bits, np.float64).astype(np.float32)
    if form == 1:
        return number.tobytes()
    return bytes(floats.encode(number, DType(FORMS[form])).tobytes())


class _Reader:
    """Decodes the integers into nested tuples, once per kernel."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words = words
        self.at = 0

    def next(self) -> int:
        self.at += 1
        return int(self.words[self.at - 1])

    def ints(self, count: int) -> tuple[int, ...]:
        return tuple(self.next() for _ in range(count))

    def program(self) -> Program:
        return decode([(self.next(), self.next()) for _ in range(self.next())])

    def steps(self, end: int) -> tuple[Any, ...]:
        decoded = []
        while self.at < end:
            decoded.append(self.step())
        return tuple(decoded)

    def step(self) -> tuple[Any, ...]:
        kind = self.next()
        if kind == LET:
            return kind, self.next(), self.next(), self.program()
        if kind in (ASSERT, WORKSPACE):
            return kind, self.next(), self.program()
        if kind == MAP:
            return kind, self.next(), *self.tensor_map()
        if kind == LAUNCH:
            numbers = self.ints(10)
            forms = tuple(self.ints(2) for _ in range(numbers[9]))
            return kind, numbers, forms, tuple(self.program() for _ in range(3))
        if kind == IF:
            condition, yes, no = self.program(), self.next(), self.next()
            return kind, condition, self.steps(self.at + yes), self.steps(self.at + no)
        slot, bounds = self.next(), tuple(self.program() for _ in range(3))
        return kind, slot, bounds, self.steps(self.at + self.next())

    def tensor_map(self) -> tuple[Any, ...]:
        """The form of a map and the programs of its address, extents and strides."""
        im2col, kind, rank, interleave, swizzle, promotion, fill, channels, pixels = self.ints(9)
        steps = self.ints(rank)
        box = () if im2col else self.ints(rank)
        lower, upper = (self.ints(rank - 2) if im2col else () for _ in range(2))
        form = MapForm(
            bool(im2col), kind, rank, interleave, swizzle, promotion, fill, channels, pixels,
            steps, box, lower, upper,
        )  # fmt: skip
        address = self.program()
        extents = tuple(self.program() for _ in range(rank))
        return form, address, extents, tuple(self.program() for _ in range(rank - 1))


MAP_BYTES = NO_ELEMENTS = 128  # of a map; its address of a tensor without any, never accessed


class _Stop(Exception):  # noqa: N818  # a nested step ends the run by it
    """Ends a run with a code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Machine:
    """Runs an encoded program on a GPU.

    Args:
        words: the program.
        slots: how many slots it uses in all.
        gpu: starts kernels.
    """

    def __init__(self, words: Sequence[int], slots: int, gpu: Launches) -> None:
        self._steps = _Reader(words).steps(len(words))
        self._slots = slots
        self._gpu = gpu

    def run(self, values: Sequence[int], device: int, stream: int) -> int:
        """Run on the call's slots; returns 0 or a code (see the top of this module)."""
        slots: list[Any] = [*values, *[0] * (self._slots - len(values))]
        memory: list[int] = []
        try:
            self._all(self._steps, slots, device, stream, memory)
        except _Stop as stop:
            return stop.code
        finally:
            for address in memory:
                self._gpu.free(device, address, stream)
        return 0

    def _all(
        self, steps: Sequence[Any], slots: list[Any], device: int, stream: int, memory: list[int]
    ) -> None:
        for step in steps:
            kind = step[0]
            if kind == LET:
                slots[step[1]] = store(_value(step[3], slots), step[2])
            elif kind == ASSERT:
                if not _value(step[2], slots):
                    raise _Stop(step[1])
            elif kind == LAUNCH:
                self._launch(step, slots, device, stream)
            elif kind == IF:
                chosen = step[2] if _value(step[1], slots) else step[3]
                self._all(chosen, slots, device, stream, memory)
            elif kind == FOR:
                start, stop, stride = (_value(program, slots) for program in step[2])
                if stride <= 0:
                    raise _Stop(NO_VALUE)
                for number in range(start, stop, stride):
                    slots[step[1]] = number
                    self._all(step[3], slots, device, stream, memory)
            elif kind == MAP:
                slots[step[1]] = self._map(step, slots)
            else:
                size = max(0, _value(step[2], slots))
                slots[step[1]] = wrap(self._gpu.allocate(device, size, stream))
                memory.append(slots[step[1]] % 2**64)

    def _map(self, step: Any, slots: list[Any]) -> bytes:
        """The bytes of a tensor map, which are the value of its slot."""
        _, _, form, address, programs, strides = step
        extents = [_value(program, slots) for program in programs]
        if 0 in extents:  # there is no map of a tensor without elements, and no kernel that uses it
            return bytes(MAP_BYTES)
        code, encoded = self._gpu.tensor_map(
            form, _value(address, slots) % 2**64 or NO_ELEMENTS, extents,
            [_value(program, slots) for program in strides],
        )  # fmt: skip
        if code:
            raise _Stop(DRIVER - code)
        return encoded

    def _launch(self, step: Any, slots: list[Any], device: int, stream: int) -> None:
        _, numbers, forms, programs = step
        grid = [_value(program, slots) for program in programs]
        if min(grid) <= 0:
            return
        if any(extent > limit for extent, limit in zip(grid, MAX_GRID)):
            raise _Stop(GRID_TOO_LARGE)
        code = self._gpu.launch(
            device, numbers[0], grid, numbers[1:4], numbers[4], stream,
            [parameter(slots[slot], form) for slot, form in forms],
            cluster=numbers[5:8],
            cooperative=bool(numbers[8] & 1), pdl=bool(numbers[8] & 2),
        )  # fmt: skip
        if code:
            raise _Stop(DRIVER - code)


def _value(program: Program, slots: Sequence[int]) -> int:
    value = evaluate(program, slots)
    if value is None:
        raise _Stop(NO_VALUE)
    return value
