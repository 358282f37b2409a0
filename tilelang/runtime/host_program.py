"""Encoding of the host steps of a GPU program for the launchers (see ``runtime.steps``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tilelang.codegen.gpu import module as M
from tilelang.errors import TileUnsupportedError
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.postfix import REAL, STACK, depth_of, encode
from tilelang.runtime import steps as W
from tilelang.runtime.gpu import Program as HostProgram


def host_program(module: M.GpuModule) -> HostProgram:
    """The host part of ``module``.

    Raises:
        TileUnsupportedError: a kernel parameter of a type that cannot be passed by value.
    """
    words = tuple(_steps(module.steps, module))
    steps = list(M.walk_steps(module.steps))
    programs = [program for step in steps for program in M.programs_of(step)]
    maps = sum(isinstance(step, M.MapStep) for step in steps)
    loops = [step.body for step in steps if isinstance(step, M.ForStep)]
    repeated = any(isinstance(s, M.MapStep) for body in loops for s in M.walk_steps(body))
    native = (
        all(
            len(plan.args) <= W.MAX_ARGS and all(_form(arg) < W.NATIVE_FORMS for arg in plan.args)
            for plan in M.launches(module.steps)
        )
        and all(depth_of(program) <= STACK for program in programs)
        and not any(op in REAL for program in programs for op in program)
        and not repeated  # a loop may encode its maps any number of times
        and maps <= W.MAX_MAPS
    )
    return HostProgram(words, module.slots, native)


def kernel_table(module: M.GpuModule) -> tuple[tuple[str, int, int], ...]:
    """Each kernel with the most dynamic shared memory and cluster blocks of its launches."""
    shared = dict.fromkeys(module.kernels, 0)
    cluster = dict.fromkeys(module.kernels, 1)
    for plan in M.launches(module.steps):
        x, y, z = plan.cluster
        shared[plan.kernel] = max(shared[plan.kernel], plan.shared_bytes)
        cluster[plan.kernel] = max(cluster[plan.kernel], x * y * z)
    return tuple((name, shared[name], cluster[name]) for name in module.kernels)


def _steps(steps: Sequence[M.Step], module: M.GpuModule) -> list[int]:
    words: list[int] = []
    for step in steps:
        words += _step(step, module)
    return words


def _step(step: M.Step, module: M.GpuModule) -> list[int]:
    if isinstance(step, M.LetStep):
        return [W.LET, step.slot, _stored(step.dtype), *encode(step.value)]
    if isinstance(step, M.AssertStep):
        return [W.ASSERT, step.message + 1, *encode(step.condition)]
    if isinstance(step, M.WorkspaceStep):
        return [W.WORKSPACE, step.slot, *encode(step.bytes)]
    if isinstance(step, M.IfStep):
        then, orelse = _steps(step.then, module), _steps(step.orelse, module)
        return [W.IF, *encode(step.condition), len(then), len(orelse), *then, *orelse]
    if isinstance(step, M.ForStep):
        body = _steps(step.body, module)
        bounds = [*encode(step.start), *encode(step.stop), *encode(step.step)]
        return [W.FOR, step.slot, *bounds, len(body), *body]
    if isinstance(step, M.MapStep):
        return _map(step)
    words = [W.LAUNCH, module.kernels.index(step.kernel), *step.threads, step.shared_bytes]
    words += [*step.cluster, step.cooperative | step.pdl << 1, len(step.args)]
    for arg in step.args:
        words += [arg.slot, _form(arg)]
    for program in step.grid:
        words += encode(program)
    return words


def _map(step: M.MapStep) -> list[int]:
    """A tensor map; numbers among its extents and strides become programs too."""
    spec = step.map
    words = [W.MAP, step.slot, int(spec.is_im2col), spec.data_type, spec.rank, spec.interleave]
    words += [spec.swizzle, spec.l2_promotion, spec.fill, spec.channels, spec.pixels]
    words += [*spec.element_strides, *spec.box, *spec.lower, *spec.upper]
    for program in M.programs_of(step):
        words += encode(program)
    return words


@lru_cache(maxsize=256)
def _form(arg: M.KernelArg) -> int:
    """Number of the form of a kernel parameter, see ``runtime.steps.FORMS``."""
    if arg.kind == "tensormap":
        return W.FORMS.index("tensormap")
    if arg.kind != "float" or arg.dtype == "float64":
        return 0
    name = "float32" if arg.dtype == "tfloat32" else arg.dtype
    if name not in W.FORMS:
        raise TileUnsupportedError(
            f"a scalar parameter of type {arg.dtype} cannot be passed to a CUDA kernel",
            expected="an integer, or "
            + ", ".join(("float64", *(form for form in W.FORMS[1:] if form != "tensormap"))),
            hint="pass it in a tensor of one element, or as float32",
        )
    return W.FORMS.index(name)


def _stored(name: str) -> int:
    """The width and sign to which a host variable of this dtype is truncated."""
    kind = DType(name)
    if kind.is_bool:
        return 1
    if not kind.is_integer:
        return 0
    return -kind.bits if kind.is_uint else kind.bits
