"""Annotations of kernels and functions: layouts, safe values and hints.

Only ``annotate_safe_value`` changes results (loads outside a tensor); the rest is kept on the
kernel or the function for back ends that can use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tilelang.errors import TileTypeError, TileValueError, check_choice, check_type
from tilelang.frontend.ir_builder import Builder, builder, locate, warn
from tilelang.frontend.regions import cast_to, constant_int, describe, emit_call, freeze, scalar
from tilelang.ir.buffer import Buffer
from tilelang.ir.emitter import current, emitter
from tilelang.ir.expr import Call
from tilelang.ir.launch_schedule import NUMBERS, VALUES
from tilelang.layout import Fragment, Layout
from tilelang.layout.validity import check_layout
from tilelang.tracebacks import borders

__all__ = [
    "annotate_compile_flags", "annotate_consumer_reg_alloc", "annotate_l2_hit_ratio",
    "annotate_layout", "annotate_min_blocks_per_sm", "annotate_pass_configs",
    "annotate_producer_reg_dealloc", "annotate_restrict_buffers", "annotate_safe_value",
    "annotate_schedule", "dec_max_nreg", "disable_warp_group_reg_alloc", "func_attr",
    "import_source", "inc_max_nreg", "no_set_max_nreg", "set_max_nreg",
]  # fmt: skip


def _buffer_map(mapping: Any, op_name: str, values: str) -> list[tuple[Buffer, Any]]:
    check_type(mapping, Mapping, f"{op_name} without a mapping", f"{{buffer: {values}}}", describe)
    pairs: list[tuple[Buffer, Any]] = []
    for key, value in mapping.items():
        check_type(
            key, Buffer, f"a key of {op_name} is not a buffer", f"{{buffer: {values}}}", describe
        )
        pairs.append((key, value))
    return pairs


def annotate_layout(layout_map: Mapping[Buffer, object]) -> None:
    """Fix the layouts of buffers.

    Args:
        layout_map: buffer -> ``T.Layout``, ``T.Fragment`` (needed for fragments) or a function of
            the indices. A layout with fewer dimensions than its buffer is that of the last ones.

    A ``T.Fragment`` for a local array has no effect and gets a warning: every thread has the
    whole array.

    Raises:
        TileTypeError: a key is not a buffer, or the kind of layout does not suit the memory.
        TileValueError: not a layout, another shape, or two elements at one address.
    """
    op_name = "T.annotate_layout"
    layouts: dict[Buffer, object] = {}
    for buffer, layout in _buffer_map(layout_map, op_name, "layout"):
        if callable(layout) and not isinstance(layout, Layout):
            layout = Layout(buffer.shape, layout)
        if not isinstance(layout, Layout):
            raise TileValueError(
                f"the layout of `{buffer.name}` in {op_name} is not a layout",
                expected="a T.Layout, a T.Fragment or a function of the indices",
                got=describe(layout),
            )
        if buffer.storage == "local.fragment" and not isinstance(layout, Fragment):
            raise TileTypeError(
                f"the layout of the fragment `{buffer.name}` in {op_name} names no threads",
                expected="a T.Fragment",
                got="a T.Layout",
            )
        if isinstance(layout, Fragment) and not buffer.storage.startswith("local"):
            raise TileTypeError(
                f"the layout of `{buffer.name}` in {op_name} is of threads and registers",
                expected=f"a T.Layout for {buffer.storage} memory",
                got="a T.Fragment",
            )
        check_layout(buffer, layout)
        if isinstance(layout, Fragment) and buffer.storage != "local.fragment":
            _warn_of_local_layout(buffer, op_name)
        else:
            layouts[buffer] = layout
    emitter(op_name).annotate("layout_map", layouts)


def _warn_of_local_layout(buffer: Buffer, op: str) -> None:
    warn(
        f"the layout of `{buffer.name}` in {op} is ignored: each thread has an array of its own; "
        "T.alloc_fragment makes a tile whose elements are distributed over threads",
        locate(),
    )


def layout_given(buffer: Buffer) -> Layout | None:
    """The layout that :func:`annotate_layout` has given ``buffer`` so far, None if none."""
    active = current()
    if not isinstance(active, Builder) or active.launch is None:
        return None
    annotated = cast(
        "tuple[tuple[Buffer, Layout], ...]", active.launch.annotations.get("layout_map", ())
    )
    return dict(annotated).get(buffer)


def annotate_safe_value(safe_value_map: Mapping[Buffer, object]) -> None:
    """Set what loads outside a tensor return instead of 0.

    A negative index is out of bounds for these tensors, unless it is a constant, which counts from
    the end.

    Args:
        safe_value_map: buffer -> scalar, cast to the buffer's dtype.

    Raises:
        TileTypeError: a buffer that is not in global memory.
    """
    op_name = "T.annotate_safe_value"
    safe_values: dict[Buffer, object] = {}
    for buffer, value in _buffer_map(safe_value_map, op_name, "value"):
        if buffer.storage != "global":
            raise TileTypeError(
                f"{op_name} of `{buffer.name}` in {buffer.storage} memory",
                expected="a global tensor",
                got=describe(buffer),
                hint="accesses to on-chip memory are not guarded",
            )
        plain = value if isinstance(value, (bool, int, float)) else scalar(value, op_name, "value")
        safe_values[buffer] = cast_to(plain, buffer.dtype)
    emitter(op_name).annotate("safe_value", safe_values)


def annotate_l2_hit_ratio(l2_hit_ratio_map: Mapping[Buffer, object]) -> None:
    """Set the share of a tensor's accesses to keep in the L2 cache.

    Args:
        l2_hit_ratio_map: buffer -> share, from 0 to 1.

    Raises:
        TileTypeError: a buffer that is not in global memory.
        TileValueError: a share that is not a number from 0 to 1.

    Source: CUDA Programming Guide, "L2 Persisting Accesses".
    """
    op_name = "T.annotate_l2_hit_ratio"
    ratios: dict[Buffer, object] = {}
    for buffer, ratio in _buffer_map(l2_hit_ratio_map, op_name, "ratio"):
        if not isinstance(ratio, (int, float)) or not 0 <= ratio <= 1:
            raise TileValueError(
                f"the ratio of `{buffer.name}` in {op_name} is out of range",
                expected="0 to 1",
                got=describe(ratio),
            )
        if buffer.storage != "global":
            raise TileTypeError(
                f"{op_name} of `{buffer.name}` in {buffer.storage} memory",
                expected="a global tensor",
                got=describe(buffer),
            )
        ratios[buffer] = float(ratio)
    emitter(op_name).annotate("l2_hit_ratio", ratios)


def annotate_restrict_buffers(*buffers: Buffer) -> None:
    """Declare tensors that no other pointer of the kernel aliases.

    Raises:
        TileTypeError: an argument is not a tensor.
    """
    op_name = "T.annotate_restrict_buffers"
    for buffer in buffers:
        check_type(buffer, Buffer, f"an argument of {op_name} is not a buffer", "tensors", describe)
    emitter(op_name).annotate("restrict_buffers", dict.fromkeys(buffers, True))


def annotate_min_blocks_per_sm(n: int) -> None:
    """Set how many blocks should fit one multiprocessor at a time.

    Raises:
        TileValueError: less than one block.
    """
    op_name = "T.annotate_min_blocks_per_sm"
    count = constant_int(n, op_name, "block count")
    if count < 1:
        raise TileValueError(f"{op_name} of {count}", expected="at least 1", got=str(count))
    emitter(op_name).annotate("min_blocks_per_sm", count)


def annotate_schedule(**fields: object) -> None:
    """State fields of the schedule of the kernel; the compiler chooses the others.

    Args:
        fields: ``persistent``, ``epilogue``, ``roles``, ``tile_order``, ``barriers``, ``overlap``,
            ``prefetch_tiles`` and ``memory`` (``kernel.explain()`` shows what is chosen, and from
            what), ``stages``, a number, and ``registers``, of consumers and of a producer.

    Raises:
        TileTypeError: there is no such field.
        TileValueError: the field has no such value.
    """
    op_name = "T.annotate_schedule"
    stated: dict[str, object] = {}
    for name, value in fields.items():
        if name not in {**VALUES, **NUMBERS}:
            raise TileTypeError(
                f"{op_name} of an unknown field", expected=", ".join((*VALUES, *NUMBERS)), got=name
            )
        if name in NUMBERS:
            values = value if isinstance(value, (tuple, list)) else (value,)
            value = tuple(constant_int(count, op_name, name) for count in values)
            known = len(value) == 1 + (name == "registers") and min(value) > 0
            expected = "one number above 0" if name == "stages" else "two numbers above 0"
        else:
            known = value in VALUES[name] and isinstance(value, type(next(iter(VALUES[name]))))
            expected = ", ".join(map(repr, VALUES[name]))
        if not known:
            raise TileValueError(
                f"{op_name} of an unknown value of {name}", expected=expected, got=repr(value)
            )
        stated[name] = value
    emitter(op_name).annotate("schedule", stated)


def annotate_compile_flags(flags: str | Sequence[str]) -> None:
    """Pass flags to the device compiler; flags given to ``jit`` win.

    Raises:
        TileTypeError: a flag is not a string.
    """
    op_name = "T.annotate_compile_flags"
    options = tuple(flags.split()) if isinstance(flags, str) else tuple(flags)
    for flag in options:
        check_type(flag, str, f"a flag of {op_name} is not a string", "a list of str", describe)
    emitter(op_name).annotate("compile_flags", options, "func")


def annotate_pass_configs(configs: Mapping[str, object]) -> None:
    """Pass options; options given to ``jit`` win.

    Raises:
        TileTypeError: ``configs`` is not a mapping.
    """
    op = "T.annotate_pass_configs"
    check_type(configs, Mapping, f"{op} without a mapping", "{key: value}", describe)
    emitter(op).annotate("pass_configs", {key: freeze(v) for key, v in configs.items()}, "func")


def func_attr(attrs: Mapping[str, object]) -> None:
    """Set attributes of the function.

    Raises:
        TileTypeError: ``attrs`` is not a mapping.
    """
    op_name = "T.func_attr"
    check_type(attrs, Mapping, f"{op_name} without a mapping", "{name: value}", describe)
    active = emitter(op_name)
    for name, value in attrs.items():
        active.annotate(str(name), freeze(value), "func")


def import_source(source: str | None = None) -> None:
    """Put device source before the kernel; several sources are concatenated.

    Raises:
        TileTypeError: ``source`` is not a string.
    """
    op_name = "T.import_source"
    if source is None:
        return
    if not isinstance(source, str):
        raise TileTypeError(f"{op_name} of something that is not a string", got=describe(source))
    active = builder(op_name)
    table = active.attrs if active.launch is None else active.launch.annotations
    old = table.get("import_source")
    table["import_source"] = source if old is None else f"{old}\n{source}"


# -- register hints --------------------------------------------------------------------------------
def _registers(op_name: str, reg_count: object) -> int:
    count = constant_int(reg_count, op_name, "register count")
    if not 24 <= count <= 256 or count % 8:
        raise TileValueError(
            f"the register count of {op_name} is {count}",
            expected="a multiple of 8 from 24 to 256",
            got=str(count),
        )
    return count


def set_max_nreg(reg_count: int, is_inc: int) -> Call:
    """Set the registers per thread from here on.

    Args:
        reg_count: a multiple of 8 from 24 to 256, or 0 for no limit.
        is_inc: 1 to raise the limit, 0 to lower it.

    Raises:
        TileValueError: another count or direction.

    Source: PTX ISA, "setmaxnreg".
    """
    op = "T.set_max_nreg"
    raising = constant_int(int(is_inc) if isinstance(is_inc, bool) else is_inc, op, "direction")
    check_choice(
        raising, (0, 1), f"the direction of {op} is {raising}", "0 (lower) or 1 (raise)", str
    )
    count = 0 if reg_count == 0 else _registers(op, reg_count)
    return emit_call(op, "set_max_nreg", count, raising)


def inc_max_nreg(reg_count: int) -> Call:
    """Raise the registers per thread.

    Args:
        reg_count: as for :func:`set_max_nreg`.

    Raises:
        TileValueError: not a multiple of 8 from 24 to 256.

    Source: PTX ISA, "setmaxnreg.inc".
    """
    return set_max_nreg(reg_count, 1)


def dec_max_nreg(reg_count: int) -> Call:
    """Lower the registers per thread.

    Args:
        reg_count: as for :func:`set_max_nreg`.

    Raises:
        TileValueError: not a multiple of 8 from 24 to 256.

    Source: PTX ISA, "setmaxnreg.dec".
    """
    return set_max_nreg(reg_count, 0)


def no_set_max_nreg() -> Call:
    """Leave the registers per thread to the compiler; ``T.set_max_nreg`` has no effect."""
    return emit_call("T.no_set_max_nreg", "no_set_max_nreg")


def disable_warp_group_reg_alloc() -> Call:
    """Disable the register exchange between warpgroups, as :func:`no_set_max_nreg`."""
    return emit_call("T.disable_warp_group_reg_alloc", "disable_warp_group_reg_alloc")


def annotate_producer_reg_dealloc(reg_count: int = 24) -> Call:
    """Set the registers per thread that producer warps keep.

    It is the number of each ``T.set_max_nreg`` of this kernel that lowers. Without one it has no
    effect, which ``kernel.explain()`` says.

    Raises:
        TileValueError: not a multiple of 8 from 24 to 256.
    """
    op_name = "T.annotate_producer_reg_dealloc"
    return emit_call(op_name, "annotate_producer_reg_dealloc", _registers(op_name, reg_count))


def annotate_consumer_reg_alloc(reg_count: int = 240) -> Call:
    """Set the registers per thread of consumer warps.

    It is the number of each ``T.set_max_nreg`` of this kernel that raises. Without one it has no
    effect, which ``kernel.explain()`` says.

    Raises:
        TileValueError: not a multiple of 8 from 24 to 256.
    """
    op_name = "T.annotate_consumer_reg_alloc"
    return emit_call(op_name, "annotate_consumer_reg_alloc", _registers(op_name, reg_count))


borders(globals(), __all__)
