"""The C function by which programs in other languages call an exported kernel.

``int32_t SYMBOL(<parameters>, <symbols of dynamic shapes>[, void* stream])``: tensors are pointers
to elements without gaps, where the program gives no strides, results included, which the caller
has allocated; 16-bit and 8-bit floats are passed as their bits. It returns 0, or an error code;
``SYMBOL_message`` returns its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilelang.codegen.c import storage_type, value_type
from tilelang.codegen.names import Names
from tilelang.codegen.symbols import symbols_of
from tilelang.ir import effects
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import PrimFunc
from tilelang.records import dataclass

STREAM = "stream"
# Codes that every exported function may return, besides those of its own messages.
CODES = {
    -1: "out of memory",
    -2: "the size of a launch cannot be computed, or the call was interrupted",
    -3: "too many blocks in a launch",
    -4: "the address of a tensor is not aligned",
    -5: "libcuda.so.1 cannot be loaded, or is too old",
    -6: "the library has no code for this GPU",
}
MISALIGNED, NO_DRIVER, NO_CODE = -4, -5, -6


@dataclass(frozen=True)
class Prototype:
    """The C prototype of an exported kernel.

    Attributes:
        symbol: name of the function.
        parameters: C type and name of each.
        slots: the parameters as 64-bit integers, as expressions of C in which ``tl_f64_bits`` gives
            the bits of a double.
        addresses: of each parameter the name in the program and in C, for tensors only.
        about: a description of each parameter, one per line.
    """

    symbol: str
    parameters: tuple[tuple[str, str], ...]
    slots: tuple[str, ...]
    addresses: tuple[tuple[str, str], ...]
    about: tuple[str, ...]

    @property
    def head(self) -> str:
        """The declaration without its semicolon."""
        listed = ", ".join(f"{kind} {name}" for kind, name in self.parameters)
        return f"int32_t {self.symbol}({listed or 'void'})"

    def declaration(self) -> str:
        """Text for a header of C."""
        lines = "".join(f"\n *   {line}" for line in self.about)
        return (
            f"/* {self.symbol}{lines}\n */\n{self.head};\n"
            f"const char* {self.symbol}_message(int32_t code);\n"
        )


def prototype_of(func: PrimFunc, symbol: str, stream: bool) -> Prototype:
    """The function ``symbol`` for ``func``; with ``stream``, its last parameter is a stream.

    Raises:
        TileUnsupportedError: a dtype that C has no type for.
    """
    names = Names((STREAM, symbol))
    written = effects.written(func.body)
    parameters, slots, addresses, about = [], [], [], []
    for param in (*func.params, *symbols_of(func)):
        name = names.fresh(param.name)
        if isinstance(param, Buffer):
            const = "" if param.data in written else "const "
            kind = f"{const}{storage_type(param.dtype)}*"
            addresses.append((param.name, name))
            about.append(f"{name}: {_described(param)}{'' if const else ', written'}")
            slot = f"(int64_t)(intptr_t){name}"
        elif param.dtype.is_handle:
            kind, slot = "void*", f"(int64_t)(intptr_t){name}"
        elif param.dtype.is_float:
            kind, slot = value_type(param.dtype), f"(int64_t)tl_f64_bits((double){name})"
        else:
            kind, slot = value_type(param.dtype), f"(int64_t){name}"
        if not isinstance(param, Buffer):
            about.append(f"{name}: {param.dtype}")
        parameters.append((kind, name))
        slots.append(slot)
    if stream:
        parameters.append(("void*", STREAM))
        about.append(f"{STREAM}: CUstream or cudaStream_t; 0 for the default stream")
    return Prototype(symbol, tuple(parameters), tuple(slots), tuple(addresses), tuple(about))


def _described(buffer: Buffer) -> str:
    shape = ", ".join(map(repr, buffer.shape))
    strides = ", ".join(map(repr, buffer.strides or ()))
    return f"{buffer.dtype} of shape ({shape})" + (f", strides ({strides})" if strides else "")


def alignment_checks(prototype: Prototype, alignments: dict[str, int]) -> list[str]:
    """Statements that return a code where an address is not a multiple of what is needed.

    Args:
        alignments: bytes, by the name of the parameter in the program.
    """
    return [
        f"    if ((uintptr_t){name} % {alignments[param]}) return {MISALIGNED};"
        for param, name in prototype.addresses
        if alignments.get(param, 1) > 1
    ]


def message_function(
    prototype: Prototype, fallback: str, overrides: Mapping[int, str] = MappingProxyType({})
) -> list[str]:
    """``SYMBOL_message``; ``fallback`` is an expression of ``code`` for all codes without a text,
    and ``overrides`` has texts that differ from those of ``CODES``."""
    texts = {**CODES, **overrides}
    cases = [f'    if (code == {code}) return "{text}";' for code, text in texts.items()]
    return [
        f"TL_EXPORT const char* {prototype.symbol}_message(int32_t code) {{",
        '    if (code == 0) return "";', *cases, f"    return {fallback};", "}",
    ]  # fmt: skip
