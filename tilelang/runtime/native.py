"""The C launcher: argument conversion at a low launch overhead; how it is built and chosen.

``_launcher.c`` is the same for all kernels. It is compiled once per Python version by any C
compiler and kept in the disk cache. Without a compiler or ``Python.h``, and for signatures that
exceed its tables, the pure-Python launcher does the same work.

Layout of a signature for C, in 64-bit integers: ``nparams nsymbols nfree noutputs nchecks returns
devices``, the limit of each symbol, the numbers of the free symbols, the positions of the
results, the checks (dims), then each parameter: ``kind output nullable written ndim packing
strided symbol align low high ntypes nraw``, accepted types, accepted raw types, a dim per extent
and, when strided, per stride. A dim is ``kind value symbols solvable length`` and ``length``
pairs of (operation, operand).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tilelang.errors import ArgumentTypeError, CompileError
from tilelang.ir import postfix
from tilelang.ir.dtypes import SCALARS, dtype as DType, is_compatible_storage, max_value, min_value
from tilelang.runtime.cache import DiskCache, Entry, content_key
from tilelang.runtime.dims import DimExpr, solvable_in, symbols_in
from tilelang.runtime.dlpack import type_code
from tilelang.runtime.library import loadable
from tilelang.runtime.pylauncher import Narrow, PyLauncher
from tilelang.runtime.signature import RETURNS, LaunchSpec, Param
from tilelang.runtime.tensors import as_numpy_view, describe

_log = logging.getLogger("tilelang")

# Sizes of the tables of _launcher.c.
_MAX_PARAMS, _MAX_SYMBOLS, _MAX_DIMS = 48, 64, 12
HOST_HEADERS = ("_postfix.h", "_cuda.h")
_STRICT = 1 << 40
_NO_TYPE = 255 << 24
# Kind of the target -> device types of DLPack whose memory it can use.
_DEVICES = {"cpu": (1, 3, 11), "cuda": (2, 13), "hip": (10,), "metal": (8,), "webgpu": (15,)}
_KINDS = {"tensor": 0, "pointer": 4}
_INT64 = 2**63


class Compiler(Protocol):
    """A C compiler that builds the extension."""

    def __hash__(self) -> int:
        """Equal compilers have equal hashes."""

    @property
    def identity(self) -> str:
        """Text that differs whenever the generated code may differ."""

    def compile_shared(self, source: str, flags: tuple[str, ...] = ()) -> bytes:
        """A shared library from C source. Raises CompileError."""


def make_launcher(
    spec: LaunchSpec, address: int, *, keep: object = None, compiler: Compiler | None = None,
    cache: DiskCache | None = None, narrow: Narrow | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The fastest launcher of this machine for a kernel.

    Args:
        spec: the launch signature.
        address: of the entry ``int32_t tl_call(const int64_t* slots)``.
        keep: kept alive with the launcher (the loaded library).
        compiler: builds the C launcher on first use; None gives the pure-Python launcher.
        cache: where the built extension is kept.
        narrow: see :class:`~tilelang.runtime.pylauncher.PyLauncher`.
    """
    import ctypes

    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)(address)
    slow = PyLauncher(spec, entry, keep, narrow)
    kind = None if compiler is None else launcher_class(compiler, cache)
    code = None if kind is None else encode(spec)
    return slow if kind is None or code is None else native_launcher(kind, slow, code, address)


def native_launcher(kind: Any, slow: PyLauncher, code: bytes, address: int) -> Callable[..., Any]:
    """A C launcher of class ``kind`` with the fallback ``slow``."""
    launcher: Callable[..., Any] = kind(
        code, address, slow, slow.fail, slow.allocate_known, adapt, slow.spec.name
    )
    return launcher


def adapt(obj: Any) -> tuple[Any, int]:
    """An object as (numpy storage array, type code), for the C launcher."""
    info = describe(obj)
    if info.dtype is None:
        raise ArgumentTypeError("unknown dtype", got=info.dtype_name)
    return as_numpy_view(obj), type_code(info.dtype) | (0 if info.raw else _STRICT)


# -- the extension -----------------------------------------------------------------------------
@lru_cache(maxsize=4)
def launcher_class(compiler: Compiler, cache: DiskCache | None = None) -> Any:
    """The class ``Launcher`` of the C extension, built if need be; None where it cannot be."""
    import sysconfig

    include = sysconfig.get_paths()["include"]
    headers = Path(include, "Python.h")
    if sysconfig.get_config_var("Py_GIL_DISABLED") or not headers.is_file():
        _log.info("no C launcher: %s", "free-threaded Python" if headers.is_file() else headers)
        return None
    source = launcher_source()
    abi = f"{sys.implementation.cache_tag} {sysconfig.get_config_var('SOABI')} {sys.version}"
    key = content_key("launcher", source, abi, compiler.identity)
    # -O2 would take 1.5 times as long, for which first kernels wait, and make calls no faster.
    flags = ["-O1", f"-I{include}"]
    if sys.platform == "darwin":
        flags.append("-Wl,-undefined,dynamic_lookup")

    def build() -> Entry:
        try:
            return Entry(compiler.compile_shared(source, tuple(flags)), {"kind": "launcher"})
        except CompileError as error:
            _log.info("the C launcher cannot be built, calls go through Python: %s", error.log)
            return Entry(b"", {"kind": "launcher", "failed": error.message})

    entry = build() if cache is None else cache.fetch(key, build)
    return _load(entry) if entry.data else None


def launcher_source() -> str:
    """The source of the extension as one file."""
    text = Path(__file__).with_name("_launcher.c").read_text(encoding="utf-8")
    for name in HOST_HEADERS:
        own = Path(__file__).with_name(name).read_text(encoding="utf-8")
        text = text.replace(f'#include "{name}"\n', own, 1)
    return text


def host_source() -> str:
    """C that runs the host part of a GPU program (``run_on_gpu``), without Python."""
    folder = Path(__file__).parent
    return "".join((folder / name).read_text(encoding="utf-8") for name in HOST_HEADERS)


def _load(entry: Entry) -> Any:
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_file_location

    name = "tilelang.runtime._launcher"
    for path in loadable(entry.data, entry.path):
        loader = ExtensionFileLoader(name, path)
        module_spec = spec_from_file_location(name, path, loader=loader)
        if module_spec is None:
            continue
        try:
            module = module_from_spec(module_spec)
            loader.exec_module(module)
        # Python loads extensions from paths in UTF-8 only, which a folder need not have.
        except (ImportError, UnicodeError) as error:
            _log.info("the C launcher cannot be loaded from %s: %s", path, error)
            continue
        return module.Launcher
    return None


# -- signatures as integers -----------------------------------------------------------------------
def encode(spec: LaunchSpec) -> bytes | None:
    """The signature for the C launcher, or None when it does not fit into its tables."""
    dims = [dim for p in spec.params for dim in (*p.shape, *(p.strides or ()))]
    dims += [check.program for check in spec.checks]
    fits = (
        len(spec.params) <= _MAX_PARAMS
        and len(spec.symbols) <= _MAX_SYMBOLS
        and len(spec.checks) <= _MAX_PARAMS
        and all(param.ndim <= _MAX_DIMS for param in spec.params)
        and all(postfix.depth_of(dim) <= postfix.STACK for dim in dims)
        and all(-_INT64 <= number < _INT64 for dim in dims for number in _numbers(dim))
        and spec.device in _DEVICES
    )
    if not fits:
        return None
    free = spec.free_symbols
    words = [len(spec.params), len(spec.symbols), len(free), len(spec.outputs), len(spec.checks)]
    words += [RETURNS.index(spec.returns), sum(1 << number for number in _DEVICES[spec.device])]
    words += [spec.noalias]
    words += [min(symbol.limit, _INT64 - 1) for symbol in spec.symbols]
    words += [*free, *spec.outputs]
    for check in spec.checks:
        words += _dim(check.program)
    for param in spec.params:
        words += _param(param)
    return np.array(words, np.int64).tobytes()


def _numbers(dim: DimExpr) -> list[int]:
    return [dim] if isinstance(dim, int) else [op for op in dim if isinstance(op, int)]


def _param(param: Param) -> list[int]:
    kind = DType(param.dtype)
    low, high = 0, 0
    if param.kind == "scalar":
        code = 2 if kind.is_float else 3 if kind.is_bool else 1
        if kind.is_integer:
            low, high = int(min_value(kind)), min(int(max_value(kind)), _INT64 - 1)
    else:
        code, high = _KINDS[param.kind], _INT64 - 1
    types: list[int] = []
    raw: list[int] = []
    if param.kind == "tensor":
        types, raw = _accepted(kind, False), _accepted(kind, True)
    words = [code, param.is_output, param.nullable, param.written, param.ndim]
    words += [param.packing if param.kind == "tensor" else 1, param.strides is not None]
    words += [-1 if param.symbol is None else param.symbol]
    words += [param.itemsize if param.kind == "tensor" else 0]
    words += [param.alignment, low, high, len(types), len(raw)]
    words += types + raw
    for dim in (*param.shape, *(param.strides or ())):
        words += _dim(dim)
    return [int(word) for word in words]


def _accepted(kind: DType, raw: bool) -> list[int]:
    """Type codes of the tensors that may be passed for ``kind``."""
    codes = (
        type_code(DType(name))
        for name in SCALARS
        if name != "void" and is_compatible_storage(kind, DType(name), raw=raw)
    )
    return sorted({code for code in codes if code < _NO_TYPE})


def _dim(dim: DimExpr) -> list[int]:
    if isinstance(dim, int):
        return [0, dim, 0, 0, 0]
    symbols = _mask(symbols_in(dim))
    if len(dim) == 1 and symbols:
        return [1, symbols_in(dim)[0], symbols, symbols, 0]
    return [2, 0, symbols, _mask(solvable_in(dim)), *postfix.encode(dim)]


def _mask(symbols: tuple[int, ...] | frozenset[int]) -> int:
    """A set of symbols as the bits of a signed 64-bit integer."""
    mask = sum(1 << symbol for symbol in symbols)
    return mask - 2**64 if mask >= _INT64 else mask
