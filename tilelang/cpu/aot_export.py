"""Kernels for the CPU in libraries that programs in other languages link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilelang import hostcc
from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Exporter, Part, Program
from tilelang.codegen.prototype import Prototype, alignment_checks, message_function
from tilelang.cpu.executable import BASE_FLAGS, machine_flags
from tilelang.cpu.module import inline_headers
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import CompileError, TileUnsupportedError
from tilelang.runtime.cache import default_cache
from tilelang.runtime.executable import Executable
from tilelang.runtime.launch_spec import artifact_spec
from tilelang.runtime.library import Library
from tilelang.runtime.native import make_launcher
from tilelang.runtime.pylauncher import PyLauncher
from tilelang.runtime.signature import LaunchSpec
from tilelang.target import Target

# Raw entry of a kernel: takes the slots of `Prototype.slots`.
ENTRY = "{}_slots"


def parts(
    program: Program, text: Callable[[Target], Artifact], archs: Sequence[str]
) -> tuple[Part, ...]:
    """The program as C: one text for every processor.

    Raises:
        TileUnsupportedError: architectures are named.
    """
    if archs:
        raise TileUnsupportedError(
            "a library for CPUs has no list of architectures",
            expected='march="x86-64-v3", or another name that the C compiler knows',
            got=f"archs={list(archs)}",
        )
    return (Part(program.target, text(program.target)),)


def source(prototype: Prototype, program: Program, built_parts: Sequence[Part]) -> str:
    """One file of C with the kernel behind a function of its own."""
    artifact = built_parts[0].artifact
    entry = ENTRY.format(prototype.symbol)
    text = inline_headers(artifact.source)
    text = text.replace("TL_EXPORT const char* tl_message(", "static const char* tl_message(")
    text = text.replace("TL_EXPORT int32_t tl_call(", f"TL_EXPORT int32_t {entry}(")
    aligned = {param.name: param.alignment for param in _spec(program, built_parts[0]).params}
    options = " ".join(flags(built_parts))
    return "\n".join([
        f"// Compile with: {options} -fPIC -pthread -shared -lm",
        "#define _GNU_SOURCE",
        f"#define tl_limit_threads {prototype.symbol}_limit_threads", text.rstrip("\n"), "",
        f"TL_EXPORT {prototype.head} {{",
        *alignment_checks(prototype, aligned),
        f"    const int64_t slots[] = {{{', '.join(prototype.slots) or '0'}}};",
        f"    return {entry}(slots);", "}", "",
        *message_function(prototype, "tl_message(code)"), "",
    ])  # fmt: skip


def flags(built_parts: Sequence[Part]) -> tuple[str, ...]:
    """Flags that the file of a kernel wants of any compiler."""
    return (*BASE_FLAGS, *built_parts[0].artifact.flags)


def link(sources: Mapping[str, tuple[str, tuple[str, ...]]], name: str, march: str) -> bytes:
    """A shared library of several files of C.

    Args:
        sources: name of each file -> text and flags.
        name: of the library, which other libraries find it by.
        march: a processor or level as the compiler calls it; "native" for this machine's.

    Raises:
        CompileError: there is no C compiler, or it refused.
    """
    compiler = find_compiler(default_cache(), quiet=True)
    if compiler is None:
        raise CompileError(
            "there is no C compiler for the library",
            expected="cc, gcc, clang or the package ziglang",
            hint="export_library(..., compile=False) writes the C text, which any compiler takes",
        )
    machine = compiler.native if march == "native" else (f"-march={march}",) if march else ()
    common = ("-fPIC", "-std=gnu11", "-pthread", *machine_flags(), *machine)

    def build(folder: Path) -> bytes:
        hostcc.write_files(folder, {file: text for file, (text, _) in sources.items()})
        log = ""
        for file, (_, file_flags) in sources.items():
            command = [*compiler.command, "-c", file, "-o", f"{file}.o", *file_flags, *common]
            log += compiler.run(command, folder)
        library = folder / name
        command = [*compiler.command, "-shared", *(f"{file}.o" for file in sources), "-pthread"]
        named = ("-install_name", f"@rpath/{name}") if name.endswith("dylib") else ("-soname", name)
        command += [f"-Wl,{','.join(named)}", "-o", str(library), "-lm", "-ldl"]
        return compiler.read_library(library, log + compiler.run(command, folder))

    return compiler.in_scratch(build)


def load(
    program: Program, built_parts: Sequence[Part], library: Library, symbol: str
) -> Executable:
    """The caller of a kernel of a loaded library."""
    launcher = make_launcher(
        _spec(program, built_parts[0]), library.address(ENTRY.format(symbol)), keep=library,
        compiler=find_compiler(default_cache(), quiet=True), cache=default_cache(),
    )  # fmt: skip
    kind = "python" if isinstance(launcher, PyLauncher) else "c"
    return Executable(launcher, kind, program.func, built_parts[0].artifact, library)


def _spec(program: Program, part: Part) -> LaunchSpec:
    return artifact_spec(program.func, program.out_idx, part.artifact, "cpu")


EXPORTER = Exporter(parts, source, flags, link, load, stream=False)
