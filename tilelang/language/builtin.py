"""The intrinsics of the hardware in one place: ``tilelang.language.builtin``.

Intrinsics that give no value emit a statement; those that give one return an expression. What
exists only on some hardware traces and prints everywhere and is refused by back ends that lack it,
as the rows of instructions declare.
"""

from __future__ import annotations

from tilelang.errors import TileTypeError, check_choice
from tilelang.frontend.ir_builder import builder
from tilelang.frontend.loop import loop_break
from tilelang.frontend.regions import cast_to, describe, emit_call, scalar
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import emitter
from tilelang.ir.expr import AddressOf, Expr, call, cast
from tilelang.ir.tables import RNG_INIT, RNG_RAND, RNG_RAND_FLOAT
from tilelang.language import instructions, memory, sync, warp
from tilelang.language.annotations import (
    annotate_consumer_reg_alloc,
    annotate_producer_reg_dealloc,
    dec_max_nreg,
    disable_warp_group_reg_alloc,
    inc_max_nreg,
    no_set_max_nreg,
    set_max_nreg,
)
from tilelang.language.instructions import *
from tilelang.language.instructions import operand
from tilelang.language.memory import *
from tilelang.language.sync import *
from tilelang.language.warp import *
from tilelang.tracebacks import borders

__all__ = [
    "annotate_consumer_reg_alloc", "annotate_producer_reg_dealloc", "call_extern", "call_intrin",
    "call_pure_extern", "dec_max_nreg", "disable_warp_group_reg_alloc", "inc_max_nreg",
    "loop_break", "no_set_max_nreg", "rng_init", "rng_rand", "rng_rand_float", "set_max_nreg",
]  # fmt: skip
__all__ += memory.__all__
__all__ += instructions.__all__
__all__ += sync.__all__
__all__ += [name for name in warp.__all__ if name.startswith(("get_", "shfl_", "shuffle_"))]

GENERATORS = ("curandStatePhilox4_32_10_t", "curandStateXORWOW_t", "curandStateMRG32k3a_t")


# -- functions by name -----------------------------------------------------------------------------
def _call(op: str, operands: tuple[object, ...], dtype: object) -> Expr:
    name = f"T.{op}"
    if dtype is None:
        if not operands:
            raise TileTypeError(f"{name} without a function", expected=f"{name}(dtype, name, ...)")
        dtype, operands = operands[0], operands[1:]
    if not operands or not isinstance(operands[0], str):
        raise TileTypeError(
            f"the function of {name} is not named",
            expected=f'{name}(dtype, "name", *args)',
            got=describe(operands[0]) if operands else "no name",
        )
    args = tuple(operand(entry, "T.call_extern") for entry in operands[1:])
    from tilelang.ir.functions import STORING

    if operands[0] in STORING and len(args) == STORING[operands[0]][0].count + 1:
        return _storing(name, operands[0], args, DType(dtype))
    return call(op, *args, dtype=DType(dtype), name=str(operands[0]))


def _storing(op_name: str, name: str, args: tuple[Expr, ...], dtype: DType) -> Expr:
    """The first result of a function that stores a second one."""
    from tilelang.ir.functions import STORING

    destination = args[-1]
    if not isinstance(destination, AddressOf):
        raise TileTypeError(
            f"{name} stores through its last operand",
            expected="the address of an element, e.g. T.address_of(same[0])",
            got=describe(destination),
        )
    active, (function, second) = builder(op_name), STORING[name]
    first = active.let("first", function.make(*args[:-1]))
    active.store_at(destination.buffer, destination.indices, second(first))
    return first if dtype == "void" else cast(first, dtype)


def call_extern(*args: object, dtype: object = None, span: object = None) -> Expr:
    """Call a C or CUDA function by name: ``T.call_extern(dtype, "name", *args)``.

    Well known mathematical functions work everywhere, others need a back end whose device
    source has them (:func:`import_source`). Buffers and regions are passed as pointers.

    Args:
        args: the dtype of the result, unless ``dtype`` gives it, the name, and the arguments.
        dtype: the dtype of the result.

    Raises:
        TileTypeError: the name is missing or is not text.
    """
    return _call("call_extern", args, dtype)


call_pure_extern = call_extern


def call_intrin(
    *args: object, dtype: object = None, annotations: object = None, span: object = None
) -> Expr:
    """Call an intrinsic of the target by name: ``T.call_intrin(dtype, "name", *args)``.

    Args:
        args: the dtype of the result, the name and the operands.
        dtype: the dtype of the result, if it is not the first of ``args``.
        annotations: accepted, without effect.
    """
    return _call("call_intrin", args, dtype)


# -- random numbers --------------------------------------------------------------------------------
def rng_init(
    seed: object, seq: object = None, off: object = 0, generator: str = GENERATORS[0]
) -> None:
    """Start the random generator of each thread; its numbers are those of cuRAND, bit for bit.

    Args:
        seed: an integer; streams of one seed are independent.
        seq: stream number; without it thread plus threads per block times block.
        off: numbers to skip.
        generator: name of the cuRAND state type: ``curandStatePhilox4_32_10_t``,
            ``curandStateXORWOW_t`` or ``curandStateMRG32k3a_t`` (streams up to 2**51).

    Raises:
        TileValueError: another generator.
    """
    op_name = "T.rng_init"
    check_choice(generator, GENERATORS, f"{op_name} with an unknown generator", show=describe)
    active = emitter(op_name)
    if seq is None:
        from tilelang.frontend.kernel import get_block_binding, get_thread_binding

        seq = get_thread_binding(0) + get_block_binding(0) * active.thread_extents()[0]
    kind = DType("uint64")
    args = [cast_to(scalar(argument, op_name), kind) for argument in (seed, seq, off)]
    emit_call(op_name, RNG_INIT.name, *args, generator=generator)


def rng_rand() -> Expr:
    """Return the next 32 random bits of the thread, as uint32.

    The thread has called :func:`rng_init` before.
    """
    return call(RNG_RAND)


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """Return the next random float of the thread.

    Args:
        bit: 32 or 64.
        dist: ``"uniform"`` in (0, 1], or ``"normal"``.

    Raises:
        TileValueError: another width or distribution.
    """
    op = "T.rng_rand_float"
    check_choice(bit, (32, 64), f"{op} of {bit} bits", "32 or 64", str)
    check_choice(
        dist, ("uniform", "normal"), f"{op} of an unknown distribution", "'uniform' or 'normal'"
    )
    return call(RNG_RAND_FLOAT, dtype=f"float{bit}", bit=bit, dist=dist)


borders(globals(), __all__)
