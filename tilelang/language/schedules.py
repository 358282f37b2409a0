"""Warp specialization by explicit schedules.

A schedule says which warps do what and which buffers form pipelines. It never changes results;
it is kept on the kernel for back ends that can follow it.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Any

from tilelang.errors import check_type
from tilelang.frontend.regions import describe
from tilelang.ir.emitter import emitter
from tilelang.records import dataclass

__all__ = [
    "WSID", "WSInstr", "WSOpRef", "WSPipeline", "WSRole", "WSSchedule", "WSScope", "WSSync",
    "WSSyncKind", "annotate_ws_schedule", "ws_op",
]  # fmt: skip

WSID = "ws_id"  # key of an operation's name in its annotations


class WSSyncKind(Enum):
    """The use of a pipeline stage by a role."""

    ACQUIRE = "acquire"
    COMMIT = "commit"
    WAIT = "wait"
    RELEASE = "release"


@dataclass(frozen=True)
class WSOpRef:
    """An operation named by ``annotations={T.WSID: name}``."""

    op_id: str
    stage: int = 0


@dataclass(frozen=True)
class WSInstr:
    """A step of a role: an operation or a synchronisation."""

    op: Any
    stage: int = 0


@dataclass(frozen=True)
class WSPipeline:
    """Buffers that move through ``depth`` stages together.

    Args:
        name: of the pipeline.
        buffers: the tiles that a stage fills.
        depth: number of stages.
    """

    name: str
    buffers: Any = ()
    depth: int = 1


@dataclass(frozen=True)
class WSSync:
    """A synchronization of a pipeline within a role.

    Args:
        pipeline: a ``WSPipeline``.
        kind: a ``WSSyncKind``.
        stage: the stage that is acquired, committed, waited for or released.
    """

    pipeline: Any
    kind: Any = None
    stage: int = 0

    @classmethod
    def acquire(cls, pipeline: Any, stage: int = 0) -> WSSync:
        """Wait until a stage is free."""
        return cls(pipeline, WSSyncKind.ACQUIRE, stage)

    @classmethod
    def commit(cls, pipeline: Any, stage: int = 0) -> WSSync:
        """Announce a filled stage."""
        return cls(pipeline, WSSyncKind.COMMIT, stage)

    @classmethod
    def wait(cls, pipeline: Any, stage: int = 0) -> WSSync:
        """Wait until a stage is filled."""
        return cls(pipeline, WSSyncKind.WAIT, stage)

    @classmethod
    def release(cls, pipeline: Any, stage: int = 0) -> WSSync:
        """Give a stage back."""
        return cls(pipeline, WSSyncKind.RELEASE, stage)

    producer_acquire, producer_commit = acquire, commit  # the names of the original
    consumer_wait, consumer_release = wait, release


@dataclass(frozen=True)
class WSScope:
    """A loop or block and what the roles do in it."""

    name: Any
    body: Any = ()


@dataclass(frozen=True)
class WSRole:
    """Warps ``warps_lo`` to ``warps_hi`` and their register budget.

    Args:
        name: of the role.
        body: operations and synchronizations in order.
        warps_lo, warps_hi: the first warp and the one after the last.
        max_nreg: registers per thread, or None for the compiler's choice.
    """

    name: str
    body: Any = ()
    warps_lo: int = 0
    warps_hi: int = 0
    max_nreg: int | None = None


@dataclass(frozen=True)
class WSSchedule:
    """Roles, pipelines and scopes of a kernel.

    Args:
        num_warps: warps of a block.
        roles, pipelines, scopes: tuples of ``WSRole``, ``WSPipeline`` and ``WSScope``.
    """

    num_warps: int = 0
    roles: Any = field(default_factory=tuple)
    pipelines: Any = field(default_factory=tuple)
    scopes: Any = field(default_factory=tuple)


def ws_op(op_id: str) -> WSOpRef:
    """Refer to the operation annotated with ``{T.WSID: op_id}``.

    Raises:
        TileTypeError: ``op_id`` is not a string.
    """
    check_type(op_id, str, "T.ws_op without a name", "a string", describe)
    return WSOpRef(op_id)


def annotate_ws_schedule(schedule: WSSchedule) -> None:
    """Assign the annotated operations of the kernel to warps, in the order of ``schedule``.

    Raises:
        TileTypeError: something that is not a ``T.WSSchedule``.
    """
    op_name = "T.annotate_ws_schedule"
    message = f"{op_name} of something that is not a schedule"
    check_type(schedule, WSSchedule, message, "a T.WSSchedule", describe)
    emitter(op_name).annotate("ws_schedule", schedule)
