"""Device source for compilers that see host code too.

NVRTC gets our headers by name and knows no C library. ``nvcc`` and ``hipcc`` compile one file in
which the host part needs the C library, whose integer types are not those of our headers: there,
``int64_t`` may be ``long``. So includes are replaced by the text of the headers. In the device
part the names denote the types of ``tl_types.h``; after it they denote those of the C library
again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tilelang.cuda.toolchain import device_headers

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"(tl_\w+\.h)"[ \t]*$', re.MULTILINE)
_TYPES = tuple(f"{sign}int{bits}_t" for bits in (8, 16, 32, 64) for sign in ("", "u"))
_MACROS = (
    "INT64_C", "UINT64_C", "INT32_MIN", "INT32_MAX", "INT64_MIN", "INT64_MAX", "UINT32_MAX",
    "UINT64_MAX",
)  # fmt: skip


def standalone(source: str) -> str:
    """``source`` as a part of a file with host code; as it is when it uses none of our headers."""
    return enclosed(source, device_headers(), [], [*_TYPES, *_MACROS])


def enclosed(
    source: str, headers: Mapping[str, str], before: list[str], undefined: list[str]
) -> str:
    """``source`` with the text of ``headers`` between ``before`` and the end of names; as it is
    when it uses none of them."""
    text = inlined(source, headers, set())
    after = [f"#undef {name}" for name in undefined]
    return source if text == source else "\n".join([*before, text.rstrip("\n"), *after, ""])


def inlined(source: str, headers: Mapping[str, str], seen: set[str]) -> str:
    """``source`` with each of ``headers`` once, at its first include."""

    def header(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen or name not in headers:
            return "" if name in seen else match[0]
        seen.add(name)
        return inlined(headers[name], headers, seen)

    return _INCLUDE.sub(header, source)
