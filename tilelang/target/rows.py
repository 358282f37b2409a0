"""All rows of instructions by their names, those of every vendor."""

from __future__ import annotations

from tilelang.ir.atoms import Atom
from tilelang.ir.tables import PORTABLE, table
from tilelang.target import amd, apple, nvidia

ROWS: dict[str, Atom] = table(
    list(PORTABLE.values()), list(nvidia.ATOMS.values()), amd.ROWS, apple.ROWS
)
