"""All rows of instructions by their names, those of every vendor."""

from __future__ import annotations

import copyreg
from dataclasses import fields
from typing import Any

from tilelang.ir.atoms import Atom
from tilelang.ir.tables import PORTABLE, table
from tilelang.target import amd, apple, nvidia

ROWS: dict[str, Atom] = table(
    list(PORTABLE.values()), list(nvidia.ATOMS.values()), amd.ROWS, apple.ROWS
)


def _row_by_name(name: str) -> Atom:
    """The row that was pickled as its name."""
    return ROWS[name]


def _pickled(row: Atom) -> tuple[Any, ...]:
    """Passes know rows by identity: read back, a row is that of the table again. What is in no
    table, as a function of the program's own source, is written field by field."""
    if ROWS.get(row.name) is row:
        return _row_by_name, (row.name,)
    return type(row), tuple(getattr(row, field.name) for field in fields(row))


copyreg.pickle(Atom, _pickled)
