"""Kernels as libraries for C, C++ and everything that can call them, and back.

A folder gets ``include/NAME.h``, ``lib/libNAME.so``, the C source of each function in ``src``, what
``pkg-config`` and CMake read, and ``lib/NAME.tilelang``, by which :func:`load_library` makes
kernels of it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilelang import errors
from tilelang.backends import backend_of
from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Exporter, Part, Program
from tilelang.codegen.names import RESERVED, is_macro
from tilelang.codegen.prototype import Prototype, prototype_of
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.artifacts import artifact_of
from tilelang.jit.compile import Program as Traced, compile as compile_func
from tilelang.jit.kernel import JITKernel
from tilelang.jit.stored import dumps, loads
from tilelang.records import dataclass
from tilelang.runtime.cache import default_cache
from tilelang.runtime.library import Library, load_library as load_shared
from tilelang.target import Target
from tilelang.tracebacks import border
from tilelang.version import __version__

KEPT = 2  # form of what is kept; grows with every change of the classes in it

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_SUFFIX = "dylib" if sys.platform == "darwin" else "so"
_PKG_CONFIG = """prefix=${{pcfiledir}}/../..
includedir=${{prefix}}/include
libdir=${{prefix}}/lib

Name: {name}
Description: kernels {symbols}
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -l{name}
"""
_CMAKE = """# find_package({name} CONFIG) and target_link_libraries(... {name}::{name})
get_filename_component(_{name}_root "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
if(NOT TARGET {name}::{name})
  add_library({name}::{name} SHARED IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    IMPORTED_LOCATION "${{_{name}_root}}/lib/{file}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_{name}_root}}/include")
endif()
"""


@dataclass(frozen=True)
class ExportedLibrary:
    """The library that :func:`export_library` has written.

    Attributes:
        folder: what a linker, ``pkg-config`` and CMake call a prefix.
        name: of the library.
        symbols: its functions.
        library: the shared library; None where only C source was asked for.
    """

    folder: Path
    name: str
    symbols: tuple[str, ...]
    library: Path | None

    @property
    def header(self) -> Path:
        """The C header."""
        return self.folder / "include" / f"{self.name}.h"

    @property
    def sources(self) -> tuple[Path, ...]:
        """The C source of every function, each a file that compiles alone."""
        return tuple(self.folder / "src" / f"{symbol}.c" for symbol in self.symbols)


@dataclass(frozen=True)
class _Kept:
    """A kernel as it is stored next to the library."""

    program: Program
    parts: tuple[Part, ...]


@border
def export_library(
    folder: str | Path, kernels: Mapping[str, JITKernel | Traced], name: str = "kernels", *,
    archs: Sequence[str] = (), march: str = "native", compile: bool = True,
) -> ExportedLibrary:  # fmt: skip
    """Write kernels as a library with a C header.

    Args:
        folder: where to; made if it is not there.
        kernels: name of the C function -> a kernel, or a traced function for the CPU.
        name: of the library, for linkers (``-lNAME``).
        archs: architectures to hold machine code for, e.g. ``["sm_80", "sm_90a"]``; default that
            of each kernel's target.
        march: the processor that code for CPUs needs, as a C compiler names it ("x86-64-v3"). The
            default is this machine's; "" means any processor of the architecture.
        compile: make the shared library; otherwise the C source alone.

    Raises:
        TileValueError: a name that C does not take, or no kernels.
        TileTypeError: an argument that is not a kernel.
        TileUnsupportedError: kernels of different kinds of machines, or of one without libraries.
        CompileError: there is no C compiler, or it refused.
    """
    root = errors.path_of(folder, "the folder of export_library")
    named = _checked(kernels, name, archs, march)
    exporter = _exporter(named)
    stored_kernels, prototypes, sources = {}, [], {}
    for symbol, kernel in named.items():
        program, parts = _parts(kernel, exporter, archs)
        stored_kernels[symbol] = _Kept(program, parts)
        prototypes.append(prototype_of(program.func, symbol, exporter.stream))
        text = exporter.source(prototypes[-1], program, parts)
        sources[f"{symbol}.c"] = (text, exporter.flags(parts))
    file = f"lib{name}.{_SUFFIX}"
    data = exporter.link(sources, file, march) if compile else None
    texts = {
        f"include/{name}.h": _header(name, prototypes),
        f"lib/pkgconfig/{name}.pc": _PKG_CONFIG.format(
            name=name, symbols=", ".join(named), version="1.0.0"
        ),
        f"lib/cmake/{name}/{name}Config.cmake": _CMAKE.format(name=name, file=file),
        **{f"src/{source}": text for source, (text, _) in sources.items()},
    }
    with errors.writing(root):
        for file_name, text in texts.items():
            (root / file_name).parent.mkdir(parents=True, exist_ok=True)
            (root / file_name).write_text(text, encoding="utf-8")
        if data is not None:
            stored = dumps((file, _digest(data), stored_kernels)).encode()
            stored = f"{_identity()}\n{_digest(stored)}\n".encode() + stored
            _write_own(root / "lib" / file, data)
            _write_own(root / "lib" / f"{name}.tilelang", stored)
            _keep_to_owner(root / "lib")
    return ExportedLibrary(root, name, tuple(named), None if data is None else root / "lib" / file)


@border
def load_library(folder: str | Path, name: str = "kernels") -> dict[str, JITKernel]:
    """Load the kernels of a library that :func:`export_library` has written, by symbol.

    Nothing is compiled. Loading executes code: the files and their folder must belong to the user
    or to root, and must not be writable by others. Load only what you trust.

    Args:
        folder, name: as they were given to :func:`export_library`.

    Raises:
        TileValueError: there is no such library, another release of this package wrote it, it is
            damaged, or others can write it.
    """
    _check_name(name)
    file_path = errors.path_of(folder, "the folder of load_library") / "lib" / f"{name}.tilelang"
    if not file_path.is_file():
        raise errors.TileValueError(
            "there is no exported library", expected=str(file_path), got="no such file",
            hint='load_library(folder, name="...") takes what export_library was given',
        )  # fmt: skip
    identity, _, rest = _read_trusted(file_path).partition(b"\n")
    if identity.decode(errors="replace") != _identity():
        raise errors.TileValueError(
            f"the library {name} was exported by another release of tilelang",
            expected="the same release",
            hint="programs in C can use it as it is; export it again to load it here",
        )
    check, _, stored = rest.partition(b"\n")
    if check.decode(errors="replace") != _digest(stored):
        raise _damaged(file_path)
    try:
        file, digest, stored_kernels = loads(stored)
        path = file_path.parent / Path(file).name
    except (ValueError, TypeError):
        raise _damaged(file_path) from None
    data = _read_trusted(path)
    if _digest(data) != digest:
        raise _damaged(path)
    library = load_shared(data, path)
    return {symbol: _loaded(symbol, entry, library) for symbol, entry in stored_kernels.items()}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _damaged(path: Path) -> errors.TileValueError:
    return errors.TileValueError(
        f"the exported library {path} is damaged",
        expected="the files as export_library has written them",
        got="other content",
        hint="copy the library again, or export it again",
    )


def _write_own(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    _keep_to_owner(path)


def _keep_to_owner(path: Path) -> None:
    """No other user may write what :func:`load_library` executes."""
    with contextlib.suppress(OSError):  # a file system without permissions
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)


def _read_trusted(path: Path) -> bytes:
    """The content of a regular file in a folder, both of which only the user or root can write.

    Raises:
        TileValueError: it is something else, or somebody else can write it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as stream:
            for checked, state in ((path, os.fstat(descriptor)), (path.parent, path.parent.stat())):
                if hasattr(os, "getuid"):
                    _check_owner(checked, state)
            return stream.read()
    except OSError as error:
        raise errors.TileValueError(
            f"the exported library {path} cannot be read", got=error.strerror or str(error)
        ) from None


def _check_owner(path: Path, state: os.stat_result) -> None:
    if state.st_uid in (os.getuid(), 0) and not state.st_mode & _OTHERS:
        return
    raise errors.TileValueError(
        f"{path} is not loaded: what it holds would be executed, and others can change it",
        expected="the user or root as the owner, and no other who may write",
        got=f"owner {state.st_uid}, mode {stat.S_IMODE(state.st_mode):03o}",
        hint=f"chmod go-w {path}, if you trust what it holds",
    )


def _identity() -> str:
    """Text that differs when what is kept may mean something else."""
    return f"tilelang {__version__} {KEPT}"


def _checked(kernels: Any, name: object, archs: object, march: object) -> dict[str, JITKernel]:
    """The kernels to export; refuses arguments that are wrong."""
    expected = "a dict: name of the function -> compiled kernel"
    errors.check_type(kernels, Mapping, "export_library takes kernels by name", expected)
    errors.check_type(march, str, "march is a name", 'a text, e.g. "x86-64-v3"')
    if isinstance(archs, str) or not isinstance(archs, Iterable):
        raise errors.TileTypeError(
            "archs is a list of names", expected='e.g. ["sm_80", "sm_90a"]', got=errors.shown(archs)
        )
    for identifier in (name, *kernels):
        _check_name(identifier)
    return {symbol: _kernel(symbol, kernel) for symbol, kernel in kernels.items()}


def _kernel(symbol: str, kernel: object) -> JITKernel:
    if isinstance(kernel, PrimFunc):
        return compile_func(kernel, target="cpu")
    if not isinstance(kernel, JITKernel):
        raise errors.TileTypeError(
            f"`{symbol}` is not a kernel",
            expected="what tilelang.compile gives, or a traced function",
            got=errors.shown(kernel, 60),
        )
    return kernel


def _exporter(kernels: Mapping[str, JITKernel]) -> Exporter:
    kinds = sorted({kernel.target.kind for kernel in kernels.values()})
    if len(kinds) != 1:
        raise errors.TileValueError(
            "a library holds kernels of one kind of machine",
            expected="at least one kernel, all for CPUs or all for GPUs of one vendor",
            got=", ".join(kinds) or "no kernels",
        )
    exporter = backend_of(next(iter(kernels.values())).target).exporter()
    if exporter is None:
        raise errors.TileUnsupportedError(
            f"kernels for {kinds[0]} cannot be exported", expected="CPUs, or GPUs of NVIDIA or AMD"
        )
    return exporter


def _check_name(name: Any) -> None:
    errors.check_type(name, str, "the names of a library and its functions are strings", "a str")
    legal = re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII)
    if not legal or name in RESERVED or is_macro(name) or name.lower().startswith("tl_"):
        raise errors.TileValueError(
            f"{name!r} cannot be a name in C",
            expected="letters, digits and underscores, no word of C or C++, no macro, no tl_...",
            got=name,
        )


def _parts(
    kernel: JITKernel, exporter: Exporter, archs: Sequence[str]
) -> tuple[Program, tuple[Part, ...]]:
    target = kernel.target.concrete()
    program = Program(kernel.prim_func, tuple(kernel.out_idx), target, kernel.options)

    def text(target: Target) -> Artifact:
        return artifact_of(kernel.prim_func, target, kernel.options, default_cache())

    return program, exporter.parts(program, text, archs)


def _loaded(symbol: str, stored_kernel: _Kept, library: Library) -> JITKernel:
    program = stored_kernel.program
    exporter = backend_of(program.target).exporter()
    assert exporter is not None  # it was exported
    return JITKernel(
        program.func, list(program.out_idx), program.target, program.options,
        executable=exporter.load(program, stored_kernel.parts, library, symbol),
    )  # fmt: skip


def _header(name: str, prototypes: Sequence[Prototype]) -> str:
    guard = f"{name.upper()}_H"
    functions = "\n".join(prototype.declaration() for prototype in prototypes)
    return f"""/* Kernels. Tensors are pointers to elements row by row, without gaps where no
 * strides are said; results are allocated by the caller. 16-bit and 8-bit floats are passed as
 * their bits. A function returns 0, or a code whose text SYMBOL_message(code) gives. */
#ifndef {guard}
#define {guard}
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

{functions}
#ifdef __cplusplus
}}
#endif
#endif
"""
