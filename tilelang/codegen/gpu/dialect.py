"""The spelling of one dialect of GPU source: a table that a back end fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.codegen.gpu.host import HostWriter, Slots
    from tilelang.codegen.gpu.module import MapStep
    from tilelang.codegen.gpu.printer import GpuPrinter
from tilelang.target import Target

CallText: TypeAlias = "Callable[[GpuPrinter, E.Call], str]"
MapEncoder: TypeAlias = "Callable[[E.Call, str, HostWriter, Mapping[E.Var, E.Expr]], MapStep]"


@dataclass(frozen=True)
class Dialect:
    """One dialect of GPU code.

    Attributes:
        name: as error messages call it.
        kernel: the head of a kernel, with {name}, {threads} of a block, and the {resident} count;
            the parameters follow.
        block, thread: the index of the block in the grid and of the thread in its block along
            {axis}.
        inputs: parameters of every kernel after its own, for values from the hardware.
        spaces: memory ("global", "shared", "local") -> the word before the type in pointers to it,
            with a blank; "" where pointers do not say where they point.
        arena: the declaration of a block's planned shared memory of {bytes} as `tl_smem`.
        shared, local: the declaration of an array {name} of {length} elements of {kind} in shared
            memory and in registers; vector moves need them aligned.
        restrict: the qualifier of pointers that do not alias, with a blank.
        reserved: names that a variable must not take.
        texts: source text of rows that differs from the row's own: name of a row -> text.
        writers: name that rows have for it (``Atom.writer``) -> what writes the text of a call, ""
            for none.
        operands: kind of operand that only some machines have (``Operand.space``) -> its text.
        includes: headers of the source.
        map_tensor: the tensor that a tensor map describes, None for a plain pointer.
        map_step: the step of the host that makes it for the kernel parameter with this name.
        flags: options of the compiler that suit the kernels of a function.
        pointer, scalar: a parameter {name} of {kind} of a kernel, the {at}-th one.
        swizzle: the block in panels of {panel} rows or columns ({order}).
        matrices: dtype -> the type of a matrix whose element layout is opaque.
        rolled: the pragma before a loop of constant extent around barriers of the block, where the
            compiler would unroll it beyond the registers.
        resident: blocks that should be resident on a multiprocessor, or wavefronts on a SIMD unit.
        rounded: float types of 16 bits whose sums, differences and products an instruction makes ->
            the feature that the machine needs for it. Others are computed in float and rounded.
        lacks: missing feature of the machine -> its replacement in programs; "print" and names of
            rows.
    """

    name: str
    kernel: str
    block: str
    thread: str
    inputs: tuple[str, ...]
    spaces: Mapping[str, str]
    arena: str
    shared: str
    local: str
    restrict: str
    reserved: frozenset[str]
    texts: Mapping[str, str]
    writers: Mapping[str, CallText]
    operands: Mapping[str, Callable[[GpuPrinter, E.Expr], str]]
    includes: Callable[[str], list[str]]
    map_tensor: Callable[[E.Call, Slots], Buffer | None]
    map_step: MapEncoder
    flags: Callable[[S.PrimFunc], tuple[str, ...]]
    resident: Callable[[S.Launch, Target], int]
    pointer: str = "{kind} {name}"
    scalar: str = "{kind} {name}"
    swizzle: str = "tl_swizzle_{order}<{panel}>()"
    matrices: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    rolled: str = ""
    rounded: Mapping[DType, str] = field(default_factory=dict)

    def space(self, storage: str) -> str:
        """The word before the type of a pointer to ``storage``."""
        kind = "shared" if storage.startswith("shared") else storage
        return self.spaces["local" if storage.startswith("local") else kind]
