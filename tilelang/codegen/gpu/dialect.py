"""What one dialect of GPU code spells differently: a table that a back end fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer

if TYPE_CHECKING:
    from tilelang.codegen.gpu.host import HostWriter, Slots
    from tilelang.codegen.gpu.module import MapStep
    from tilelang.codegen.gpu.printer import CudaPrinter

MapEncoder: TypeAlias = "Callable[[E.Call, str, HostWriter, Mapping[E.Var, E.Expr]], MapStep]"


@dataclass(frozen=True)
class Dialect:
    """One dialect of GPU code.

    Attributes:
        name: as error messages call it.
        call: text of an intrinsic, None for one that the dialect has no text of its own for.
        hint: the statement of a hint, None where the target drops it.
        includes: headers that a text needs.
        maps: intrinsics whose values the host makes and the kernel gets as parameters.
        map_tensor: the tensor that such a value describes, None for a plain pointer.
        map_step: the step of the host that makes it for the kernel parameter with this name.
        flags: options of the compiler that suit the kernels of a function.
    """

    name: str
    call: Callable[[CudaPrinter, E.Call], str | None]
    hint: Callable[[CudaPrinter, E.Call], str | None]
    includes: Callable[[str], list[str]]
    maps: tuple[str, ...]
    map_tensor: Callable[[E.Call, Slots], Buffer | None]
    map_step: MapEncoder
    flags: Callable[[S.PrimFunc], tuple[str, ...]]
