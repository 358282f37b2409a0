"""Annotations and hints: checked, kept in the program, without effect on results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import as_expr
from tilelang.layout import Fragment, Layout

__all__ = [
    "WSID", "WSInstr", "WSPipeline", "WSRole", "WSSchedule", "WSScope", "WSSync", "WSSyncKind",
    "annotate_compile_flags", "annotate_l2_hit_ratio", "annotate_layout",
    "annotate_min_blocks_per_sm", "annotate_pass_configs", "annotate_restrict_buffers",
    "annotate_safe_value", "annotate_ws_schedule", "func_attr", "import_source", "ws_op",
]  # fmt: skip


def _buffer(value: Any, what: str) -> Buffer:
    if not isinstance(value, Buffer):
        raise TileTypeError(
            f"{what}: a key is not a buffer", expected="buffers", got=repr(value)[:60]
        )
    return value


def annotate_layout(layout_map: Mapping[Any, Any]) -> None:
    """Fix the layouts of tiles: ``{buffer: Layout, Fragment or function of the indices}``.

    Raises:
        TileTypeError: a fragment whose layout is not a ``T.Fragment``.
        TileValueError: something that is no layout.
    """
    found: dict[Buffer, Layout] = {}
    for key, value in layout_map.items():
        buffer = _buffer(key, "T.annotate_layout")
        if isinstance(value, Layout):
            layout = value
        elif callable(value):
            layout = Layout(tuple(buffer.shape), value)
        else:
            raise TileValueError(
                f"T.annotate_layout: `{buffer.name}` has no layout",
                expected="a T.Layout, a T.Fragment or a function of the indices",
                got=repr(value)[:60],
            )
        if buffer.storage == "local.fragment" and not isinstance(layout, Fragment):
            raise TileTypeError(
                f"T.annotate_layout: the fragment `{buffer.name}` needs a T.Fragment",
                expected="T.Fragment(shape, forward_fn=lambda i, j: (thread, register))",
                got=type(layout).__name__,
            )
        found[buffer] = layout
    emitter("T.annotate_layout").annotate("layout_map", found)


def annotate_safe_value(safe_value_map: Mapping[Any, Any]) -> None:
    """What loads outside a tensor give instead of 0."""
    found = {
        _buffer(key, "T.annotate_safe_value"): as_expr(value, key.dtype)
        for key, value in safe_value_map.items()
    }
    emitter("T.annotate_safe_value").annotate("safe_value", found)


def annotate_l2_hit_ratio(l2_hit_ratio_map: Mapping[Any, float]) -> None:
    """Share of the accesses to a tensor that should stay in the L2 cache."""
    found = {_buffer(k, "T.annotate_l2_hit_ratio"): float(v) for k, v in l2_hit_ratio_map.items()}
    emitter("T.annotate_l2_hit_ratio").annotate("l2_hit_ratio", found)


def annotate_restrict_buffers(*buffers: Any) -> None:
    """Tensors that overlap no other."""
    found = {_buffer(item, "T.annotate_restrict_buffers"): True for item in buffers}
    emitter("T.annotate_restrict_buffers").annotate("restrict", found)


def annotate_min_blocks_per_sm(n: int) -> None:
    """Blocks that should fit on a processor at the same time."""
    if not isinstance(n, int) or n < 1:
        raise TileValueError("T.annotate_min_blocks_per_sm", expected="a positive int", got=repr(n))
    emitter("T.annotate_min_blocks_per_sm").annotate("min_blocks_per_sm", n)


def annotate_compile_flags(flags: Any) -> None:
    """Compiler flags of this function."""
    found = (flags,) if isinstance(flags, str) else tuple(flags)
    emitter("T.annotate_compile_flags").annotate("compile_flags", found, "func")


def annotate_pass_configs(configs: Mapping[Any, Any]) -> None:
    """Pass configurations of this function; those of ``jit`` win."""
    found = {str(getattr(key, "value", key)): value for key, value in configs.items()}
    emitter("T.annotate_pass_configs").annotate("pass_configs", found, "func")


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function."""
    for key, value in attrs.items():
        emitter("T.func_attr").annotate(str(key), value, "func")


def import_source(source: str | None = None) -> None:
    """Device source text in front of the kernel."""
    if source is not None:
        emitter("T.import_source").annotate("import_source", source)


# -- explicit schedules of warp specialisation: kept, and free to ignore --------------------------------
class WSID(str):
    """The name of an operation in a schedule."""


@dataclass(frozen=True)
class _Note:
    args: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = field(default=())

    @classmethod
    def make(cls, *args: Any, **options: Any) -> Any:
        return cls(args, tuple(sorted(options.items())))


class _ScheduleNote(_Note):
    def __new__(cls, *args: Any, **options: Any) -> Any:
        made = object.__new__(cls)
        return made

    def __init__(self, *args: Any, **options: Any) -> None:
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "options", tuple(sorted(options.items())))


class WSSchedule(_ScheduleNote):
    """A schedule of roles and pipelines."""


class WSRole(_ScheduleNote):
    """One role of a schedule."""


class WSPipeline(_ScheduleNote):
    """One pipeline of a schedule."""


class WSSync(_ScheduleNote):
    """One synchronisation of a schedule."""


class WSScope(_ScheduleNote):
    """One scope of a schedule."""


class WSInstr(_ScheduleNote):
    """One instruction of a schedule."""


class WSSyncKind(str):
    """Kind of a synchronisation."""


def annotate_ws_schedule(schedule: Any) -> None:
    """Keep a schedule; results do not depend on it."""
    emitter("T.annotate_ws_schedule").annotate("ws_schedule", repr(schedule))


class ws_op:
    """``with T.ws_op(id)``: names the operations inside for a schedule."""

    def __init__(self, op_id: Any) -> None:
        self.op_id = op_id

    def __enter__(self) -> Any:
        return self.op_id

    def __exit__(self, *_: object) -> None:
        return None
