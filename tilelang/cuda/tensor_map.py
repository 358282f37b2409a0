"""Tensor maps: what the host encodes for the tensor memory accelerator of sm_90 and later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilelang.codegen.gpu.module import MapStep
from tilelang.codegen.gpu.rows import known
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.errors import TileTypeError
from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.postfix import Program
from tilelang.ir.visitor import substitute
from tilelang.target.operations import IMAGE_MAP

if TYPE_CHECKING:
    from tilelang.codegen.gpu.host import HostWriter, Slots


def map_tensor(call: E.Call, slots: Slots) -> Buffer | None:
    """The tensor that an intrinsic for a descriptor describes, None for a plain pointer."""
    address = call.args[2] if len(call.args) > 2 else None
    if isinstance(address, E.AddressOf):
        return address.buffer
    return slots.buffers.get(address) if isinstance(address, E.Var) else None


def map_step(call: E.Call, name: str, host: HostWriter, lets: Mapping[E.Var, E.Expr]) -> MapStep:
    """The step that encodes the map of `call` for the kernel parameter `name`.

    Args:
        call: T.create_tma_descriptor or T.create_tma_im2col_descriptor.
        host: where programs of sizes are written.
        lets: values of variables of the kernel, which the host may need.

    Raises:
        TileTypeError: the wrong number of arguments, or one that has to be a constant.
        TileValueError: the driver would refuse the map.
        TileUnsupportedError: a size that the host does not know.
    """
    arguments = _Arguments(call, host, lets)
    data_type, rank = arguments.number("data type"), arguments.number("rank")
    im2col = call.atom is IMAGE_MAP
    count = 5 * rank + 5 if im2col else 4 * rank + 7
    if len(call.args) != count:
        raise TileTypeError(
            f"T.{call.op} of {rank} dimensions with {len(call.args)} arguments",
            expected=f"{count} arguments", got=f"`{call!r}`",
        )  # fmt: skip
    tensor = map_tensor(call, host.slots)
    address = host.pointer(substitute(arguments.next(), dict(lets)))
    dims, strides = arguments.sizes(rank), arguments.sizes(rank)
    box = () if im2col else arguments.ints(rank)
    steps = arguments.ints(rank)
    lower, upper = (arguments.ints(rank - 2) if im2col else () for _ in range(2))
    pixels, channels = (arguments.number("pixels") if im2col else 0 for _ in range(2))
    interleave, swizzle, promotion, fill = arguments.ints(4)
    descriptor = TmaDescriptor(
        tensor=tensor.name if tensor is not None else name, data_type=data_type, dims=dims,
        strides=strides, element_strides=steps, box=box, lower=lower, upper=upper,
        channels=channels, pixels=pixels, interleave=interleave, swizzle=swizzle,
        l2_promotion=promotion, fill=fill,
    )  # fmt: skip
    return MapStep(host.slots.take(E.Var(name, DType("int64"))), name, address, descriptor)


class _Arguments:
    """The arguments of an intrinsic for a descriptor, one after the other."""

    def __init__(self, call: E.Call, host: HostWriter, lets: Mapping[E.Var, E.Expr]) -> None:
        self.call = call
        self.rest = list(call.args)
        self.host = host
        self.lets = dict(lets)

    def next(self) -> E.Expr:
        """One argument."""
        if not self.rest:
            raise TileTypeError(f"T.{self.call.op} with too few arguments", got=f"`{self.call!r}`")
        return self.rest.pop(0)

    def number(self, field: str) -> int:
        """A constant."""
        return known(self.call, self.next(), field)

    def ints(self, count: int) -> tuple[int, ...]:
        """Constants."""
        return tuple(self.number("box, step or mode") for _ in range(count))

    def sizes(self, count: int) -> tuple[int | Program, ...]:
        """Extents or strides: numbers, or programs of the host."""
        numbers: list[int | Program] = []
        for _ in range(count):
            expr = substitute(self.next(), self.lets)
            known = int(expr.value) if isinstance(expr, E.Const) else None
            numbers.append(self.host.program(expr) if known is None else known)
        return tuple(numbers)
