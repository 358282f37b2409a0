"""Unique, legal C identifiers that keep the user's names."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Reserved identifiers of generated source: keywords of C, C++ and CUDA, and functions that it
# calls.
RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while bool true false main half asm typeof errno signal "
    "alignas alignof and and_eq bitand bitor catch char8_t char16_t char32_t class compl concept "
    "consteval constexpr constinit const_cast co_await co_return co_yield decltype delete "
    "dynamic_cast explicit export friend import module mutable namespace new noexcept not not_eq "
    "nullptr operator or or_eq private protected public reinterpret_cast requires static_assert "
    "static_cast template this thread_local throw try typeid typename typeof_unqual using virtual "
    "wchar_t xor xor_eq final override fortran "
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t intptr_t uintptr_t "
    "y0 y1 yn j0 j1 jn exp log pow sin cos tan div abs floor ceil round trunc gamma index printf "
    "memcpy memset free malloc fma fmaf sqrt sqrtf min max "
    "fmin fminf fmax fmaxf exp10 exp10f atomicCAS "
    "args arena slots error first last block".split()
)
# Macros without underscores or in small letters that compilers and headers define.
_MACROS = frozenset(
    "linux unix i386 i486 i586 i686 arm mips sparc sun hpux vax near far pascal cdecl interface "
    "small stdin stdout stderr assert offsetof alloca complex imaginary sched_priority "
    "pthread_cleanup_push pthread_cleanup_pop math_errhandling L_tmpnam L_ctermid L_cuserid "
    "P_tmpdir EOF BUFSIZ NAN NULL INFINITY NFDBITS DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS "
    "WCONTINUED WEXITED WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WNOHANG WNOWAIT "
    "WSTOPPED WSTOPSIG WTERMSIG WUNTRACED HUGE".split()
)
# All others are made of capitals with underscores between, or start with one.
_MACRO = re.compile(r"_*[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|_[A-Z_].*")


class Names:
    """Allocates identifiers: the wanted name, or the name with a number if it is taken.

    No name starts with ``tl_`` or ``__``, the prefixes of macros and helpers of the headers.

    Args:
        reserved: further words of the text around.
        own: a pattern of names that are reserved for that text.
    """

    def __init__(self, reserved: Iterable[str] = (), own: re.Pattern[str] | None = None) -> None:
        self._own = own
        self._taken: set[str] = {*RESERVED, *reserved}
        self._of: dict[int, str] = {}
        self._next: dict[tuple[str, tuple[str, ...]], int] = {}  # lower counts are taken
        self._keep: list[object] = []  # keeps ids valid

    def of(self, node: object, prefix: str) -> str:
        """The identifier of ``node``, made from ``prefix`` the first time."""
        name = self._of.get(id(node))
        if name is None:
            name = self._of[id(node)] = self.fresh(prefix)
            self._keep.append(node)
        return name

    def fresh(self, prefix: str, ends: Iterable[str] = ("",)) -> str:
        """A new identifier like ``prefix``, that is new with each of the ``ends``, too."""
        ends = tuple(ends)
        base = re.sub(r"\W", "_", prefix, flags=re.ASCII) or "v"  # not every compiler takes more
        is_generated = self._own is not None and self._own.fullmatch(base)
        if (
            is_generated
            or base[0].isdigit()
            or base.lower().startswith(("tl_", "__"))
            or is_macro(base)
        ):
            base = "v_" + base
        count = self._next.get((base, ends), 0)
        name = f"{base}_{count}" if count else base
        while any(name + end in self._taken for end in ends):
            count += 1
            name = f"{base}_{count}"
        self._next[base, ends] = count
        self._taken.update(name + end for end in ends)
        return name


def is_macro(name: str) -> bool:
    """Whether a compiler or one of its headers may define ``name`` as a macro."""
    return name in _MACROS or _MACRO.fullmatch(name) is not None
