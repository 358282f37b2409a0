"""Today's names of the frontend modules; the code is in ``tilelang.language.v2``."""

from __future__ import annotations
