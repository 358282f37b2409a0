"""Warp policies: the division of a matrix product among the warps of a block."""

from __future__ import annotations

from enum import IntEnum

from tilelang.errors import TileValueError


class GemmWarpPolicy(IntEnum):
    """Partition of the result over warps; it never changes the result."""

    Square = 0
    FullRow = 1
    FullCol = 2

    def compute_warp_partition(
        self, M: int, N: int, num_warps: int, *, n_unit: int = 8, m_group: int = 1
    ) -> tuple[int, int]:
        """Return the numbers of warps along rows and along columns.

        A partition (m, n) is valid if m * n is the number of warps, 16 m divides M and
        ``n_unit`` n divides N; with ``m_group`` m is a multiple of it (4 for warpgroups).

        Raises:
            TileValueError: no partition is valid.
        """
        valid = [
            (m, num_warps // m)
            for m in range(m_group, num_warps + 1, m_group)
            if num_warps % m == 0 and M % (16 * m) == 0 and N % (n_unit * (num_warps // m)) == 0
        ]
        if not valid:
            raise TileValueError(
                f"no partition of a {M} x {N} product over {num_warps} warps",
                expected=f"warps m * n with 16 * m dividing {M} and {n_unit} * n dividing {N}",
                got=f"{num_warps} warps",
                hint="change the number of threads or the tile",
            )
        if self is GemmWarpPolicy.FullRow:
            return max(valid)
        if self is GemmWarpPolicy.FullCol:
            return min(valid)
        # Square tiles load the fewest rows and columns per product.
        return min(valid, key=lambda mn: (abs(M / mn[0] - N / mn[1]), mn[0]))
