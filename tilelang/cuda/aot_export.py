"""Kernels for NVIDIA GPUs in libraries that programs in other languages link.

A file holds the machine code for each architecture with the steps that launch its kernels, and a
loader that finds the driver when a function is first called. It needs no CUDA to compile, and no
Python to run. Where no machine code fits the GPU, the driver compiles PTX that the file holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Exporter, Part, Program
from tilelang.codegen.gpu.module import GpuModule
from tilelang.codegen.prototype import Prototype, alignment_checks, message_function
from tilelang.codegen.text import quote
from tilelang.cpu.aot_export import link
from tilelang.cuda.executable import CudaExecutable, build_cubin, resources_of
from tilelang.cuda.loaded_module import LoadedModule
from tilelang.cuda.native_launcher import launcher_compiler
from tilelang.errors import InternalError, TileUnsupportedError
from tilelang.runtime.cache import default_cache
from tilelang.runtime.executable import Executable
from tilelang.runtime.gpu import make_gpu_launcher
from tilelang.runtime.host_program import host_program, kernel_table
from tilelang.runtime.launch_spec import artifact_spec
from tilelang.runtime.library import Library
from tilelang.runtime.native import host_source
from tilelang.runtime.pylauncher import PyLauncher
from tilelang.runtime.signature import LaunchSpec
from tilelang.runtime.steps import MAX_SLOTS
from tilelang.target import Target
from tilelang.target.device import cuda_devices
from tilelang.target.features import cuda_number

LOADER = Path(__file__).resolve().parent / "loader" / "tl_loader.h"
_LIBRARY = LOADER.with_name("tl_library.h")
_VARIANT = 24  # numbers in a line


def parts(
    program: Program, text: Callable[[Target], Artifact], archs: Sequence[str]
) -> tuple[Part, ...]:
    """The program for each architecture, or for that of its target.

    Raises:
        TileUnsupportedError: its host part cannot be run by C.
    """
    built = []
    for arch in archs or (program.target.arch,):
        target = replace(program.target, arch=arch)
        artifact = text(target)
        module = artifact.module
        demand_native(program.func.name, module)
        image = build_cubin(
            artifact, module, target, program.options, program.func.name, program.backend
        )
        built.append(Part(target, artifact, image))
    return tuple(built)


def demand_native(name: str, module: GpuModule) -> None:
    """Raise where the host part of the program ``name`` cannot be run by C."""
    if not host_program(module).native or module.slots > MAX_SLOTS:
        raise TileUnsupportedError(
            f"the launches of `{name}` cannot be computed in C",
            expected="integer arithmetic on sizes, float32 or float64 scalars, at most 256 "
            "parameters and sizes, and no tensor maps in loops or branches",
        )


def flags(built: Sequence[Part]) -> tuple[str, ...]:
    """Flags that the file of a kernel needs with any compiler."""
    return ("-O2",)


def source(prototype: Prototype, program: Program, built: Sequence[Part]) -> str:
    """One file of C with the kernels behind a function of their own."""
    lines, variants = [], []
    for number, part in enumerate(built):
        lines += tables(part, number, part.image.cubin)
        variants.append(row(part, number, variant(part.target, False)))
    plain = [(part, i) for i, part in enumerate(built) if _ptx(part)]
    if plain:  # the newest that later GPUs understand
        part, number = max(plain, key=lambda pair: cuda_number(pair[0].target.arch))
        lines.append(bytes_of(f"tl_ptx_{number}", (_ptx(part) or "").encode() + b"\0"))
        variants.append(row(part, number, variant(part.target, True), "ptx"))
    return library_text(prototype, program, built, LOADER, (lines, variants))


def loader_text(own: Path) -> str:
    """The launches of ``host_source``, and a loader: what all share and its ``own`` part."""
    return "\n".join((host_source(), *(path.read_text("utf-8") for path in (_LIBRARY, own))))


def library_text(
    prototype: Prototype, program: Program, built: Sequence[Part], loader: Path,
    tables: tuple[Sequence[str], Sequence[str]], texts: Mapping[int, str] = MappingProxyType({}),
) -> str:  # fmt: skip
    """A file of C: a loader, the kernels, and the function that calls them.

    Args:
        loader: what ``tl_library.h`` leaves to the loader of a vendor.
        tables: declarations of the machine code and its steps, and the rows of the variants.
        texts: of codes that differ from those of all libraries.
    """
    needed: dict[str, int] = {}
    messages = built[0].artifact.module.messages
    for part in built:
        for param in spec_of(program, part).params:
            needed[param.name] = max(needed.get(param.name, 1), param.alignment)
        if part.artifact.module.messages != messages:
            raise InternalError("the checks of a program differ between architectures")
    slots = max(part.artifact.module.slots for part in built)
    quoted = "".join(f"{quote(text)}, " for text in messages)
    lines = [
        "// Compile with: -O2 -fPIC -pthread -shared -ldl", "#define _GNU_SOURCE",
        loader_text(loader), *tables[0],
        "static const tl_variant tl_variants[] = {", *tables[1], "};",
        "static tl_library tl_own = {tl_variants, sizeof tl_variants / sizeof tl_variants[0], 0};",
        f"static const char* const tl_messages[] = {{{quoted}0}};", "",
        f"TL_EXPORT {prototype.head} {{",
        *alignment_checks(prototype, needed),
        f"    int64_t slots[{slots}] = {{{', '.join(prototype.slots) or '0'}}};",
        "    return tl_call(&tl_own, slots, stream);", "}", "",
        *message_function(
            prototype,
            f"code > 0 && code <= {len(messages)} ? tl_messages[code - 1] : tl_driver_text(code)",
            texts,
        ), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _ptx(part: Part) -> str | None:
    """The PTX of a part, where other GPUs can run it: not for architectures such as sm_90a."""
    return part.image.ptx if variant(part.target, True) else None


def variant(target: Target, ptx: bool) -> tuple[int, int, int, int] | None:
    """The loader's description of machine code or PTX for a target: major and minor number of the
    architecture, whether it runs there only, whether it is PTX. None: no PTX of sm_90a and the like
    is for other GPUs."""
    exact = not target.arch[-1].isdigit()
    major, minor = divmod(cuda_number(target.arch), 10)
    return None if exact and ptx else (major, minor, int(exact), int(ptx))


def row(part: Part, number: int, known: Sequence[int] | None = None, image: str = "image") -> str:
    """A row of the table of variants; ``known``: of its architecture, for the loader."""
    facts = ", ".join(map(str, known or (0, 0, 0, 0)))
    count = len(part.artifact.module.kernels)
    steps = f"tl_steps_{number}, sizeof tl_steps_{number} / 8"
    return f"    {{{facts}, tl_{image}_{number}, {steps}, tl_kernels_{number}, {count}}},"


def tables(part: Part, number: int, image: bytes) -> list[str]:
    """Image, steps and kernels of an architecture."""
    module = part.artifact.module
    words = ", ".join(_word(word) for word in host_program(module).words)
    kernels = "".join(
        f"{{{quote(name)}, {shared}, {cluster}}}, "
        for name, shared, cluster in kernel_table(module)
    )
    return [
        f"// {part.target.arch}", bytes_of(f"tl_image_{number}", image),
        f"static const int64_t tl_steps_{number}[] = {{{words or '0'}}};",
        f"static const tl_kernel tl_kernels_{number}[] = {{{kernels}{{0, 0, 0}}}};",
    ]  # fmt: skip


def _word(value: int) -> str:
    if value == -(2**63):
        return "INT64_MIN"
    return f"{value}LL" if abs(value) >= 2**31 else str(value)


def bytes_of(name: str, data: bytes) -> str:
    """An array of bytes."""
    rows = [data[i : i + _VARIANT] for i in range(0, len(data), _VARIANT)]
    text = "\n".join("".join(f"{byte}," for byte in row) for row in rows)
    return f"static const unsigned char {name}[] __attribute__((aligned(64))) = {{\n{text}\n}};"


# -- loaded back -----------------------------------------------------------------------------------
def load(program: Program, built: Sequence[Part], library: Library, symbol: str) -> Executable:
    """The caller of a kernel of a library, by the machine code for this machine's first GPU."""
    part = chosen(built, next(iter(cuda_devices()), ""))
    module = part.artifact.module
    cache = default_cache()
    launcher = make_gpu_launcher(
        spec_of(program, part), host_program(module),
        LoadedModule(part.image.cubin, kernel_table(module), program.func.name),
        compiler=launcher_compiler(cache), cache=cache,
    )  # fmt: skip
    kind = "python" if isinstance(launcher, PyLauncher) else "c"
    used = resources_of(part.image, module, part.target.limits)
    return CudaExecutable(
        launcher, kind, program.func, part.artifact, None, part.image, used, program.report
    )


def chosen(built: Sequence[Part], arch: str) -> Part:
    """The part for a GPU of architecture ``arch``, by the rule of the loader; the last one where
    nothing is known of the machine.

    Raises:
        TileUnsupportedError: none fits.
    """
    if not arch:
        return built[-1]
    fitting = [part for part in built if _fits(part.target.arch, cuda_number(arch))]
    if not fitting:
        raise TileUnsupportedError(
            f"the library has no machine code for {arch}",
            expected=", ".join(part.target.arch for part in built), got=arch,
        )  # fmt: skip
    return max(fitting, key=lambda part: (cuda_number(part.target.arch), part.target.arch))


def _fits(arch: str, arch_number: int) -> bool:
    own = cuda_number(arch)
    if not re.fullmatch(r"sm_\d+", arch):
        return own == arch_number
    return own // 10 == arch_number // 10 and own <= arch_number


def spec_of(program: Program, part: Part) -> LaunchSpec:
    """The requirements on each argument of a call."""
    return artifact_spec(program.func, program.out_idx, part.artifact, "cuda")


EXPORTER = Exporter(parts, source, flags, link, load, stream=True)
