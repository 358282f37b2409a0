"""The target as programs write it: ``"auto"``, ``"cuda -arch=sm_80"``, a dict, an object.

Every spelling ends as one frozen :class:`Target`. ``"auto"`` is the target of a ``with`` statement
around; else it follows the arguments of the call where they are known (tensors on a GPU or not),
and the machine otherwise.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tilelang.env import env
from tilelang.errors import TileTypeError, TileValueError, near, shown
from tilelang.options import leave_surroundings, surroundings
from tilelang.records import dataclass
from tilelang.target import device
from tilelang.target.cores import CORES
from tilelang.target.features import CUDA_NUMBERS, features_of
from tilelang.target.limits import Limits, limits_of
from tilelang.tracebacks import border

# Spelling -> (kind, extra key). Another implementation's names for what we call cpu and cuda.
SPELLINGS: dict[str, tuple[str, str]] = {
    "cpu": ("cpu", ""),
    "c": ("cpu", ""),
    "llvm": ("cpu", ""),
    "cuda": ("cuda", ""),
    "nvidia": ("cuda", ""),
    "cutedsl": ("cuda", "cutedsl"),
    "hip": ("hip", ""),
    "rocm": ("hip", ""),
    "metal": ("metal", ""),
    "mps": ("metal", ""),
    "webgpu": ("webgpu", ""),
}
ACCEPTED = '"auto", "cpu" ("c", "llvm"), "cuda", "hip", "metal", "webgpu", "cutedsl"'
_EXPECTED = (
    f'{ACCEPTED}; with an architecture as "cuda -arch=sm_80" or '
    '{"kind": "cuda", "arch": "sm_80"}; or a Target'
)
_GPU_KINDS = frozenset(("cuda", "hip", "metal", "webgpu"))
# Device type of DLPack -> kind; pinned host memory is the CPU's, managed memory the GPU's.
_DLPACK_KINDS = {1: "cpu", 2: "cuda", 3: "cpu", 8: "metal", 10: "hip", 11: "cpu", 13: "cuda"}
_TORCH_DEVICES = {"hip": "cuda", "metal": "mps"}  # where the kind is called otherwise
# What a target may state: "arch", "keys", and TVM's other options, of which nothing is needed here.
_OPTIONS = frozenset((
    "arch", "cl-opt", "code", "constants-byte-alignment", "device", "fast-math", "fast-math-arcp",
    "fast-math-contract", "fast-math-ninf", "fast-math-nnan", "fast-math-nsz", "fast-math-reassoc",
    "host", "jit", "keys", "l2_cache_size_bytes", "libs", "mabi", "march", "mattr",
    "max_function_args", "max_num_threads", "max_shared_memory_per_block", "max_threads_per_block",
    "mcpu", "mfloat-abi", "model", "mtriple", "num-cores", "opt-level", "registers_per_block",
    "supports_subgroups", "system-lib", "tag", "thread_warp_size", "vector-width",
    "workspace-byte-alignment",
))  # fmt: skip
_MAX_ARGUMENT_DEPTH = 2
_MINIMUM = {
    "cuda": "sm_80",
    "hip": "gfx942",
}  # architecture of a target that names none, on any machine


@dataclass(frozen=True)
class Target:
    """A machine to generate code for.

    Attributes:
        kind: "cpu", "cuda", "hip", "metal" or "webgpu".
        arch: e.g. "sm_90a" or "gfx942"; "" when it does not matter or is not known yet.
        keys: further names that apply ("cutedsl").
        options: what else the program wrote, as (name, value) texts.
    """

    kind: str
    arch: str = ""
    keys: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_gpu(self) -> bool:
        """Whether blocks of threads run on a device of its own."""
        return self.kind in _GPU_KINDS

    @property
    def device(self) -> str:
        """The device that its tensors are on, as torch names it: "cuda", "mps", "cpu"."""
        return _TORCH_DEVICES.get(self.kind, self.kind)

    @property
    def features(self) -> frozenset[str]:
        """The features of the machine, names of ``target.features.FEATURES``."""
        return features_of(self.kind, self.arch)

    @property
    def limits(self) -> Limits:
        """The resources that a block may use."""
        return limits_of(self.kind, self.arch)

    @property
    def compute(self) -> tuple[int, int] | None:
        """Compute capability of a CUDA target with an architecture, e.g. (9, 0)."""
        modes = "".join(filter(str.isdigit, self.arch))
        if self.kind != "cuda" or not modes:
            return None
        return int(modes[:-1]), int(modes[-1])

    def concrete(self) -> Target:
        """The target with an architecture: its own, else the usual minimum of today's programs."""
        minimum = _MINIMUM.get(self.kind, "")
        return self if self.arch or not minimum else replace(self, arch=minimum)

    def attr(self, name: str, default: str | None = None) -> str | None:
        """The option ``name`` that the program wrote."""
        return dict(self.options).get(name, default)

    def __enter__(self) -> Target:
        """``with target:`` what is compiled inside for "auto", or for no named target, is compiled
        for this one."""
        surroundings().enter(target=self)
        return self

    def __exit__(self, *_: object) -> None:
        leave_surroundings()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost ``with`` statement.

        Raises:
            TileValueError: there is none, and ``allow_none`` is false.
        """
        target: Target | None = surroundings().target
        if target is None and not allow_none:
            raise TileValueError("there is no current target", expected="with Target(...): around")
        return target

    def __str__(self) -> str:
        parts = [self.kind]
        if self.arch:
            parts.append(f"-arch={self.arch}")
        if self.keys:
            parts.append(f"-keys={','.join(self.keys)}")
        parts += [f"-{name}={value}" for name, value in self.options]
        return " ".join(parts)


@border
def parse_target(spec: object = None, args: Iterable[object] | None = None) -> Target:
    """The target that ``spec`` names.

    Args:
        spec: a name with or without ``-option=value`` words, a mapping with ``kind`` and
            perhaps ``arch``, a :class:`Target`, an object with ``kind.name`` (and ``arch``), or
            None for ``TILELANG_DEFAULT_TARGET``. Inside ``with Target(...)`` that is what None and
            "auto" mean.
        args: arguments of the call, which "auto" follows.

    Raises:
        TileValueError: unknown name, or a CUDA architecture that cannot be one.
        TileTypeError: an object that says nothing about a target.
    """
    if isinstance(spec, Target):
        return spec
    around = surroundings().target
    if around is not None and (spec is None or spec == "auto"):
        return around  # type: ignore[no-any-return]  # only Target.__enter__ sets it
    if spec is None:
        spec = env.get_default_target()
    if isinstance(spec, str):
        return _from_text(spec, args)
    if isinstance(spec, Mapping):
        return _from_mapping(spec, args)
    kind = getattr(spec, "kind", None)
    name = getattr(kind, "name", kind)
    if isinstance(name, str):
        arch = getattr(spec, "arch", "") or getattr(spec, "mcpu", "")
        return _make(name, str(arch or ""), (), (), args, spec)
    raise TileTypeError("this is not a target", expected=_EXPECTED, got=_shown(spec))


def _from_text(text: str, args: Iterable[object] | None) -> Target:
    if text.lstrip().startswith("{"):
        try:
            return _from_mapping(json.loads(text), args)
        except json.JSONDecodeError as wrong:
            message = f"the target is not JSON: {wrong}"
            raise TileValueError(message, expected=_EXPECTED, got=_shown(text)) from None
    tokens = text.split()
    if not tokens or tokens[0].startswith("-"):
        raise TileValueError("the target has no name", expected=_EXPECTED, got=repr(text))
    options: dict[str, str] = {}
    rest = tokens[1:]
    while rest:
        token = rest.pop(0)
        name, equals, value = token.lstrip("-").partition("=")
        if not token.startswith("-") or not name:
            raise TileValueError(
                f"the target option {token!r} is not understood",
                expected='"-name=value" after the kind, e.g. "cuda -arch=sm_80"',
                got=repr(text),
            )
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        options[name] = value
    return _from_options(tokens[0], options, args, text)


def _from_mapping(spec: Mapping[Any, Any], args: Iterable[object] | None) -> Target:
    kind = spec.get("kind")
    if not isinstance(kind, str):
        raise TileValueError(
            "the target has no kind", expected='{"kind": "cuda", "arch": "sm_80"}', got=_shown(spec)
        )
    options: dict[str, str] = {}
    for name, value in spec.items():
        if name != "kind" and value is not None:
            listed = isinstance(value, (list, tuple))
            options[str(name)] = ",".join(map(str, value)) if listed else str(value)
    return _from_options(kind, options, args, spec)


def _from_options(
    kind: str, options: dict[str, str], args: Iterable[object] | None, spec: object
) -> Target:
    for name in options:
        if name not in _OPTIONS:
            raise TileValueError(
                f"{name!r} is not an option of a target",
                expected='"arch" or "keys"; other options of TVM, such as "mcpu", are ignored',
                got=_shown(spec),
                hint=near(name, _OPTIONS, value=True),
            )
    arch = options.pop("arch", "")
    if not arch and kind in ("hip", "rocm"):
        arch = options.pop("mcpu", "")
    keys = tuple(key for key in options.pop("keys", "").split(",") if key)
    return _make(kind, arch, keys, tuple(sorted(options.items())), args, spec)


def _make(
    name: str, arch: str, keys: tuple[str, ...], options: tuple[tuple[str, str], ...],
    args: Iterable[object] | None, spec: object,
) -> Target:  # fmt: skip
    word = name.strip().lower()
    if word == "auto":
        parsed = _from_arguments(args) or _from_machine()
        return replace(parsed, options=options) if options else parsed
    if word not in SPELLINGS:
        raise TileValueError(
            f"unknown target {name!r}", expected=_EXPECTED, got=_shown(spec), hint=_near(word)
        )
    kind, key = SPELLINGS[word]
    if kind == "cuda":
        arch = _cuda_arch(arch, spec)
    if kind == "hip":
        arch = _hip_arch(arch, spec)
    if kind == "cpu" and arch and arch not in CORES:
        raise TileValueError(
            f"{arch!r} is not the name of a CPU",
            expected=", ".join(CORES),
            got=_shown(spec),
            hint='"cpu" alone builds for this machine',
        )
    keys = tuple(k for k in keys if k != kind)
    if key and key not in keys:
        keys = (*keys, key)
    return Target(kind, arch, keys, options)


def _cuda_arch(arch: str, spec: object) -> str:
    """``80``, ``8.0``, ``sm_80`` and ``compute_80`` as ``sm_80``; "" asks the machine's GPU."""
    if not arch:
        return next(iter(device.cuda_devices()), "")
    number = arch.removeprefix("sm_").removeprefix("compute_").replace(".", "")
    digits = number[:-1] if number[-1:] in ("a", "f") else number
    if not digits.isdecimal() or len(digits) not in (2, 3):
        raise TileValueError(
            f"{arch!r} is not a CUDA architecture",
            expected='"sm_" and a number, e.g. "sm_80" or "sm_90a"',
            got=_shown(spec),
        )
    # A GPU of this machine may be newer than the list.
    if int(digits) not in CUDA_NUMBERS and f"sm_{digits}" not in device.cuda_devices():
        raise TileValueError(
            f"there is no CUDA architecture sm_{number}",
            expected=", ".join(f"sm_{known}" for known in sorted(CUDA_NUMBERS) if known >= 75),
            got=_shown(spec),
        )
    return f"sm_{number}"


def _hip_arch(arch: str, spec: object) -> str:
    """The name of a chip, perhaps with settings ("gfx942:sramecc+"); "" asks the machine's GPU."""
    if not arch:
        return next(iter(device.hip_devices()), "")
    if re.fullmatch(r"gfx[0-9]{1,2}[0-9a-f]{2}(:\w+[+-])*", arch) is None:
        raise TileValueError(
            f"{arch!r} is not the name of an AMD GPU",
            expected='"gfx" and a number, e.g. "gfx942" or "gfx1100"',
            got=_shown(spec),
        )
    return arch


def _from_machine() -> Target:
    if device.cuda_devices():
        return Target("cuda", device.cuda_devices()[0])
    if device.has_hip():
        return Target("hip", next(iter(device.hip_devices()), ""))
    return Target("metal") if device.has_metal() else Target("cpu")


def _from_arguments(args: Iterable[object] | None) -> Target | None:
    """Where the tensors among the arguments are; None when no argument says it."""
    on_cpu = False
    for arg in _flatten(args or (), 0):
        kind, index = _device_of(arg)
        if kind in _GPU_KINDS:
            devices = {"cuda": device.cuda_devices, "hip": device.hip_devices}.get(kind, tuple)()
            return Target(kind, devices[index] if 0 <= index < len(devices) else "")
        on_cpu = on_cpu or kind == "cpu"
    return Target("cpu") if on_cpu else None


def _flatten(args: Iterable[object], depth: int) -> Iterable[object]:
    for arg in args:
        if isinstance(arg, (list, tuple)) and depth < _MAX_ARGUMENT_DEPTH:
            yield from _flatten(arg, depth + 1)
        else:
            yield arg


def _device_of(arg: object) -> tuple[str, int]:
    """Kind and index of the device an argument lives on; ("", 0) when it is not a tensor."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(arg, torch.Tensor):
        where = arg.device
        kind = {"mps": "metal"}.get(where.type, where.type)
        if kind == "cuda" and getattr(torch.version, "hip", None):
            kind = "hip"
        return kind, where.index or 0
    if hasattr(arg, "__array_interface__"):
        return "cpu", 0
    if hasattr(arg, "__cuda_array_interface__"):
        return "cuda", 0
    ask = getattr(arg, "__dlpack_device__", None)
    if ask is None or isinstance(arg, type):
        return "", 0
    where_type, index = ask()
    return _DLPACK_KINDS.get(int(where_type), ""), int(index)


def _shown(spec: object) -> str:
    return shown(spec, 100) + ("" if isinstance(spec, str) else f" ({type(spec).__name__})")


def _near(word: str) -> str | None:
    if word in ("gpu", "device"):
        return 'name the kind of GPU, e.g. "cuda"; "auto" follows the tensors of a call'
    if word.startswith("sm_"):
        return f'did you mean "cuda -arch={word}"?'
    if word.startswith("gfx"):
        return f'did you mean "hip -arch={word}"?'
    if word.partition(":")[0] in SPELLINGS:
        return "a target is a kind of machine; a kernel runs on the device of its tensors"
    return near(word, ["auto", *SPELLINGS], value=True)
