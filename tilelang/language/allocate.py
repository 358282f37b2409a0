"""Allocations: tiles in shared memory and fragments, per-thread arrays and scalars, barriers.

Every function emits an ``Alloc`` and returns the buffer; it is named when Python binds it.
Nothing is initialised except ``alloc_var`` with ``init`` and barriers.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError, check_choice
from tilelang.frontend import regions
from tilelang.ir.buffer import SCOPES, Buffer, Shape
from tilelang.ir.dtypes import dtype as DType, max_value, min_value
from tilelang.ir.emitter import emitter
from tilelang.ir.expr import Const, Expr, Var, as_expr
from tilelang.ir.hints import PLAIN_BUFFER, BufferHints
from tilelang.tracebacks import borders

__all__ = [
    "alloc_barrier", "alloc_buffer", "alloc_cluster_barrier", "alloc_descriptor", "alloc_fragment",
    "alloc_global", "alloc_local", "alloc_reducer", "alloc_shared", "alloc_tcgen05_instr_desc",
    "alloc_tcgen05_instruction_desc", "alloc_tcgen05_smem_desc", "alloc_tmem", "alloc_var",
    "alloc_wgmma_desc", "allocate", "create_barriers", "decl_buffer", "sblock_alloc_buffer",
]  # fmt: skip

FRAGMENT_SCOPES = ("local.fragment", "local", "shared", "shared.dyn")
REDUCER_OPS = ("sum", "max", "min", "bitand", "bitor", "bitxor")


def _allocate(
    op_name: str, shape: object, dtype: object, scope: object, allowed: tuple[str, ...],
    attrs: BufferHints = PLAIN_BUFFER,
) -> Buffer:  # fmt: skip
    check_choice(scope, allowed, f"{op_name} in the scope {scope!r}")
    kind = _element_type(dtype, op_name)
    buffer = Buffer("", regions.constant_shape(shape, op_name), kind, str(scope), attrs=attrs)
    return emitter(op_name).alloc(buffer)


def _element_type(dtype: object, op_name: str) -> DType:
    kind = DType(dtype)
    if kind.code == "void":
        raise TileTypeError(f"{op_name} of {kind}", expected="a dtype with values", got=str(kind))
    return kind


def alloc_shared(shape: object, dtype: object, scope: str = "shared.dyn") -> Buffer:
    """Allocate a tile in shared memory, one per block.

    Args:
        shape: constant extents; an int means one dimension.
        dtype: element type in any form that ``T.dtype`` accepts.
        scope: ``"shared.dyn"``, or ``"shared"``, which means the same.

    The content is undefined until it is written. Tiles that are not alive at the same time share
    memory.

    Raises:
        TileTypeError: a dtype without values.
        TileValueError: an extent that is not a constant of at least 0, or another scope.
    """
    if DType(dtype).is_bool and scope == "shared.dyn":
        scope = "shared"
    return _allocate("T.alloc_shared", shape, dtype, scope, ("shared.dyn", "shared"))


def alloc_fragment(shape: object, dtype: object, scope: str = "local.fragment") -> Buffer:
    """Allocate a tile in registers, distributed over the threads of a block.

    The compiler chooses which thread holds which element; ``T.annotate_layout`` fixes it. The
    content is undefined until it is written.

    Args:
        shape: constant extents; an int means one dimension.
        dtype: element type in any form that ``T.dtype`` accepts.
        scope: ``"local.fragment"``; ``"local"`` allocates a private array of each thread,
            ``"shared"`` and ``"shared.dyn"`` a tile in shared memory.

    Raises:
        TileTypeError: a dtype without values.
        TileValueError: an extent that is not a constant of at least 0, or another scope.
    """
    return _allocate("T.alloc_fragment", shape, dtype, scope, FRAGMENT_SCOPES)


def alloc_local(shape: object, dtype: object, scope: str = "local") -> Buffer:
    """Allocate a private array of each thread, in registers or local memory.

    Args:
        shape: constant extents; an int means one dimension. An array that is indexed by values
            unknown at compile time is in local memory.
        dtype: element type in any form that ``T.dtype`` accepts.
        scope: ``"local"``, or ``"local.var"`` for a variable.

    Raises:
        TileTypeError: an unknown dtype.
        TileValueError: an extent is not constant, or the scope is not one of a thread.
    """
    return _allocate("T.alloc_local", shape, dtype, scope, ("local", "local.var"))


def alloc_global(shape: object, dtype: object, scope: str = "global") -> Buffer:
    """Allocate a workspace in global memory for one launch; uninitialized, shared by its blocks.

    Args:
        shape: extents, which may be expressions of the kernel's sizes.
        dtype: element type in any form that ``T.dtype`` accepts.
        scope: ``"global"``.

    Raises:
        TileValueError: another scope.
    """
    if scope != "global":
        raise TileValueError("T.alloc_global in another scope", expected="global", got=repr(scope))
    kind = _element_type(dtype, "T.alloc_global")
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    return emitter("T.alloc_global").alloc(Buffer("", Shape(extents), kind, "global"))


def alloc_var(
    dtype: object, *args: object, scope: str = "local.var", init: object = None
) -> Buffer:
    """Allocate a private scalar of each thread; assigning to its name stores into it.

    ``alloc_var(dtype)``, ``alloc_var(dtype, init)``, ``alloc_var(dtype, scope)`` and
    ``alloc_var(dtype, init, scope)``; a string as second argument is a scope.

    Args:
        dtype: element type in any form that ``T.dtype`` accepts.
        init: initial value, a number or an expression, cast to ``dtype``; 0 by default.
        scope: ``"local.var"`` or ``"local"``, with the same meaning.
        args: the initial value and the scope, by position.

    Raises:
        TileTypeError: more than three arguments, or a dtype without values.
        TileValueError: a constant ``init`` that the dtype cannot hold, or another scope.
    """
    if len(args) > 2:
        raise TileTypeError(
            "T.alloc_var takes at most a dtype, an initial value and a scope",
            got=f"{len(args) + 1} arguments",
        )
    if len(args) == 2:
        init, scope = args[0], str(args[1])
    elif args:
        if isinstance(args[0], str) and not isinstance(args[0], DType):
            scope = args[0]
        else:
            init = args[0]
    if scope not in ("local.var", "local"):
        raise TileValueError(
            "T.alloc_var in another scope",
            expected="local.var",
            got=repr(scope),
            hint="for one element of shared memory use T.alloc_shared((1,), dtype)",
        )
    kind = _element_type(dtype, "T.alloc_var")
    buffer = Buffer("", Shape((1,)), kind, "local.var")
    return emitter("T.alloc_var").alloc(buffer, None if init is None else _initial(init, kind))


def _initial(init: object, kind: DType) -> Expr:
    """``init`` for a variable of dtype ``kind``: constants must be in its range."""
    value = init.value if isinstance(init, Const) else init
    if isinstance(value, (int, float)) and not isinstance(value, bool) and kind.is_integer:
        low, high = min_value(kind), max_value(kind)
        if not low <= value <= high:
            raise TileValueError(
                f"the initial value {value} does not fit {kind}",
                expected=f"{low} to {high}",
                got=str(value),
            )
    if isinstance(init, (Buffer, Expr, bool, int, float)) or hasattr(init, "item"):
        return as_expr(init, kind)
    raise TileTypeError(
        "the initial value of T.alloc_var is not a number",
        expected="a number or a scalar expression",
        got=regions.describe(init),
    )


def _barrier(op_name: str, arrive_count: object, scope: str) -> Buffer:
    counts = arrive_count if isinstance(arrive_count, (list, tuple)) else (arrive_count,)
    known = tuple(regions.constant_int(count, op_name, "arrival count") for count in counts)
    if not known or min(known) < 1:
        raise TileValueError(
            f"{op_name} needs arrival counts of at least 1",
            expected="an int, or a list with one int per barrier",
            got=repr(arrive_count),
        )
    attrs = BufferHints(arrive_counts=known)
    buffer = Buffer("", Shape((len(known),)), DType("uint64"), scope, attrs=attrs)
    return emitter(op_name).alloc(buffer)


def alloc_barrier(arrive_count: int | list[int]) -> Buffer:
    """Allocate one mbarrier, or one per list entry, with that many arrivals per phase.

    A phase completes when all arrivals, and all transaction bytes that were announced, have come.
    ``T.mbarrier_wait_parity(bar[i], parity)`` waits for it; parities alternate from 0.

    Args:
        arrive_count: arrivals of a phase, at least 1; of a list one for each barrier.

    Returns:
        A buffer of barriers; ``bar[i]`` names one.

    Raises:
        TileValueError: no count, or a count below 1.

    Source: PTX ISA, "mbarrier".
    """
    return _barrier("T.alloc_barrier", arrive_count, "shared.barrier")


def alloc_cluster_barrier(arrive_count: int | list[int]) -> Buffer:
    """Allocate barriers as :func:`alloc_barrier`, visible to all blocks of a cluster (sm_90).

    Raises:
        TileValueError: an arrival count is below 1.
    """
    return _barrier("T.alloc_cluster_barrier", arrive_count, "shared.cluster_barrier")


def create_barriers(*arrive_counts: int) -> Buffer:
    """Allocate barriers with the given arrival counts.

    Args:
        arrive_counts: constant ints; the number of arrivals that complete a phase of each barrier.

    Raises:
        TileValueError: an arrival count is below 1.

    Source: PTX ISA, "mbarrier.init".
    """
    return _barrier("T.create_barriers", list(arrive_counts), "shared.barrier")


def alloc_reducer(
    shape: object, dtype: object, op: str = "sum", replication: str | None = None
) -> Buffer:
    """Allocate a fragment that reduces over all threads; read after ``T.finalize_reducer``.

    Args:
        shape: constant extents.
        dtype: dtype of the accumulation.
        op: ``sum``, ``max``, ``min``, ``bitand``, ``bitor`` or ``bitxor``.
        replication: ``"all"``, ``"none"`` or None: where partial results are kept. It affects speed
            only.

    Raises:
        TileTypeError: a bit operation on floats.
        TileValueError: an unknown operation or replication.
    """
    op_name = "T.alloc_reducer"
    check_choice(op, REDUCER_OPS, f"{op_name} with the operation {op!r}")
    message = f"{op_name} with the replication {replication!r}"
    check_choice(replication, (None, "all", "none"), message, "'all', 'none' or None")
    if op.startswith("bit") and not DType(dtype).is_integer:
        raise TileTypeError(
            f"{op_name} with op={op!r} on {DType(dtype)}",
            expected="an integer dtype",
            got=str(DType(dtype)),
        )
    return _allocate(
        op_name, shape, dtype, "local.fragment", ("local.fragment",),
        BufferHints(reducer=(op, replication or "none")),
    )  # fmt: skip


def alloc_tmem(shape: object, dtype: object) -> Buffer:
    """Allocate a tile in tensor memory (sm_100).

    Args:
        shape: rows and columns; a block has 128 lanes and 512 columns of 32 bits.
        dtype: element type in any form that ``T.dtype`` accepts.

    Raises:
        TileValueError: a shape that has not two dimensions.

    Source: PTX ISA, "Tensor Memory", "tcgen05.alloc".
    """
    extents = regions.constant_shape(shape, "T.alloc_tmem")
    if len(extents) != 2:
        raise TileValueError(
            "T.alloc_tmem needs two dimensions",
            expected="(rows, columns)",
            got=regions.count_of(len(extents), "dimension"),
        )
    return _allocate("T.alloc_tmem", shape, dtype, "shared.tmem", ("shared.tmem",))


def alloc_descriptor(kind: str = "wgmma", dtype: object = "uint64") -> Buffer:
    """Allocate a 64-bit operand descriptor for code that names matrix instructions.

    Args:
        kind: ``"wgmma"``, ``"tcgen05_smem"`` or ``"tcgen05_instr"``.
        dtype: uint64, or uint32 for an instruction descriptor.

    Source: PTX ISA, "Matrix Descriptor Format".
    """
    attrs = BufferHints.of([("descriptor", str(kind))])
    buffer = Buffer("", Shape((1,)), DType(dtype), "local.descriptor", attrs=attrs)
    return emitter("T.alloc_descriptor").alloc(buffer)


def alloc_wgmma_desc(dtype: object = "uint64") -> Buffer:
    """Allocate a descriptor of a wgmma operand in shared memory: a private value of each thread.

    Raises:
        TileTypeError: an unknown dtype.

    Source: PTX ISA, "wgmma.mma_async", "Matrix Descriptor Format".
    """
    return alloc_descriptor("wgmma", dtype)


def alloc_tcgen05_smem_desc(dtype: object = "uint64") -> Buffer:
    """Allocate a descriptor of a tcgen05 operand in shared memory: a private value of each thread.

    Source: PTX ISA, "tcgen05.mma", "Shared memory descriptor".
    """
    return alloc_descriptor("tcgen05_smem", dtype)


def alloc_tcgen05_instr_desc(dtype: object = "uint32") -> Buffer:
    """Allocate a tcgen05 instruction descriptor: one private value of each thread.

    Source: PTX ISA, "tcgen05.mma", "Instruction descriptor".
    """
    return alloc_descriptor("tcgen05_instr", dtype)


alloc_tcgen05_instruction_desc = alloc_tcgen05_instr_desc


def alloc_buffer(
    shape: object, dtype: object = "float32", scope: str = "global",
    annotations: dict[str, Any] | None = None, *, data: Var | Buffer | None = None,
    strides: Any = None, elem_offset: Any = None,
) -> Buffer:  # fmt: skip
    """Allocate in any scope, as TVM spells it.

    Args:
        shape: extents; constants, except in global memory.
        dtype: element type in any form that ``T.dtype`` accepts.
        scope: the memory scope.
        annotations: kept as attributes of the buffer.
        data, strides, elem_offset: with one of these it is :func:`decl_buffer`.

    Raises:
        TileValueError: an unknown scope.
    """
    regions.check_options(annotations=annotations)
    if data is not None or strides is not None or elem_offset is not None:
        return decl_buffer(shape, dtype, data, strides, elem_offset, scope)
    check_choice(scope, SCOPES, f"T.alloc_buffer in the scope {scope!r}")
    if scope == "global":
        return alloc_global(shape, dtype)
    return _allocate(
        "T.alloc_buffer",
        shape,
        dtype,
        scope,
        SCOPES,
        BufferHints.of(regions.pairs(annotations=annotations or None)),
    )


sblock_alloc_buffer = alloc_buffer
allocate = alloc_buffer


def decl_buffer(
    shape: object, dtype: object = "float32", data: Var | Buffer | None = None,
    strides: Any = None, elem_offset: Any = None, scope: str = "global", align: int = 0,
    offset_factor: int = 0, buffer_type: str = "", axis_separators: object = None,
) -> Buffer:  # fmt: skip
    """Declare a buffer over ``data``, or allocate one without it.

    Args:
        shape: extents of the buffer.
        dtype: element type in any form that ``T.dtype`` accepts.
        data: a buffer or its ``.data``.
        strides: distances of neighbouring elements in elements, of each dimension; only over
            ``data``.
        elem_offset: the first element of ``data``; only over ``data``.
        scope: of fresh memory; over ``data`` that of its memory.
        align, offset_factor, buffer_type, axis_separators: TVM's; only the defaults are accepted.

    Raises:
        TileTypeError: ``data`` is not a buffer.
        TileUnsupportedError: strides or an offset of fresh memory.
    """
    from tilelang.frontend.described import checked_offset
    from tilelang.frontend.entry import make_tensor

    options: dict[str, Any] = {
        "align": align, "offset_factor": offset_factor, "buffer_type": buffer_type,
        "axis_separators": axis_separators,
    }  # fmt: skip
    if data is not None:
        if not isinstance(data, (Var, Buffer)):
            raise TileTypeError(
                "the data of T.decl_buffer is not a buffer",
                expected="a buffer or buffer.data",
                got=regions.describe(data),
            )
        return make_tensor(
            data, shape, dtype, strides, elem_offset=elem_offset,
            scope=None if scope == "global" else scope, **options,
        )  # fmt: skip
    if checked_offset("T.decl_buffer", elem_offset, **options) != 0 or strides is not None:
        raise TileUnsupportedError(
            "T.decl_buffer of fresh memory with strides or an element offset",
            expected="neither, or data=",
        )
    return alloc_buffer(shape, dtype, scope)


borders(globals(), __all__)
