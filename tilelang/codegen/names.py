"""Unique, legal C identifiers that keep the user's names."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Words that generated text must not use as names.
RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while bool true false main half asm typeof errno signal "
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t y0 y1 yn j0 j1 jn "
    "exp log pow sin cos tan div abs floor ceil round trunc gamma index printf NULL NAN INFINITY "
    "args arena slots error first last block".split()
)


class Names:
    """Hands out identifiers: the wanted name, or the name with a number when it is taken."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken: set[str] = {*RESERVED, *reserved}
        self._of: dict[int, str] = {}
        self._keep: list[object] = []  # keeps ids valid

    def of(self, thing: object, wanted: str) -> str:
        """The identifier of ``thing``, made from ``wanted`` the first time."""
        known = self._of.get(id(thing))
        if known is None:
            known = self._of[id(thing)] = self.fresh(wanted)
            self._keep.append(thing)
        return known

    def fresh(self, wanted: str) -> str:
        """A new identifier like ``wanted``."""
        base = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "v"  # not every compiler takes more
        if base[0].isdigit() or base.lower().startswith(("tl_", "__")):
            base = "v_" + base
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name
