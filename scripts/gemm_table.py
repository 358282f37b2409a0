"""Write the table of ``docs/gemm.md``: the matrix instruction of each dtype and architecture.

    python scripts/gemm_table.py           write the table into the page
    python scripts/gemm_table.py --check   say whether it is current (status 1 if not)

The cells come from the tables of matrix instructions in ``tilelang/target``. Architectures with the
same cells share a column.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tilelang.ir.dtypes import dtype as DType
from tilelang.target.atoms import find_atom, warpgroup_kinds
from tilelang.target.features import features_of
from tilelang.target.limits import limits_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gemm.md"
BEGIN = "<!-- written by scripts/gemm_table.py; a test compares -->\n\n"
END = "<!-- end of the table -->"
DEPTH = 128  # K of a tile, a multiple of the K of every instruction

OPERANDS = {
    "float16": "float32", "bfloat16": "float32", "tfloat32": "float32", "float32": "float32",
    "float64": "float64", "float8_e4m3fn": "float32", "float8_e5m2": "float32",
    "float8_e4m3fnuz": "float32", "float8_e5m2fnuz": "float32", "int8": "int32", "uint8": "int32",
    "int4": "int32", "uint4": "int32",
}  # fmt: skip
ARCHS = {
    "cuda": ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a"),
    "hip": ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"),
    "metal": ("Metal",),
}
FAMILIES = {
    "mma": "mma", "mfma": "MFMA", "wmma_gfx11": "WMMA", "wmma_gfx12": "WMMA",
    "multiply_add_matrix": "simdgroup",
}  # fmt: skip


def cell(operand: str, result: str, kind: str, arch: str) -> str:
    """What ``T.gemm`` uses for operands of a dtype on an architecture."""
    features = features_of(kind, arch)
    dtypes = DType(operand), DType(operand), DType(result)
    floats = limits_of(kind, arch).floats
    if floats and dtypes[0].is_float and operand not in floats:
        return "error"
    tf32 = " (TF32)" if kind == "cuda" and operand == "float32" else ""
    if "wgmma" in features and warpgroup_kinds(*dtypes) is not None:
        return f"wgmma{tf32}" + ("" if dtypes[0].bits == 16 else ", K-major")
    atom = find_atom(*dtypes, DEPTH, features)
    return "FMA" if atom is None else FAMILIES[atom.row] + tf32


def table() -> str:
    """The table in Markdown."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for kind, archs in ARCHS.items():
        for arch in archs:
            cells = tuple(cell(a, c, kind, arch) for a, c in OPERANDS.items())
            columns.setdefault(cells, []).append(arch)
    heads = ["A and B, accumulator", *(", ".join(archs) for archs in columns.values())]
    rows = [[f"{a}, {c}", *cells] for (a, c), *cells in zip(OPERANDS.items(), *columns)]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page() -> str:
    """The page with the table of today."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}{table()}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Write the table or say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        raise SystemExit("run scripts/gemm_table.py")


if __name__ == "__main__":
    main()
