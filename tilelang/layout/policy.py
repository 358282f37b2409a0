"""How the warps of a block share the result of a matrix product."""

from __future__ import annotations

from enum import IntEnum

from tilelang.errors import TileValueError


class GemmWarpPolicy(IntEnum):
    """Partition of the result over warps; it never changes the result."""

    Square = 0
    FullRow = 1
    FullCol = 2

    def is_square(self) -> bool:
        """Whether both directions are balanced."""
        return self is GemmWarpPolicy.Square

    def is_full_row(self) -> bool:
        """Whether the warps are put along the rows first."""
        return self is GemmWarpPolicy.FullRow

    def is_full_col(self) -> bool:
        """Whether the warps are put along the columns first."""
        return self is GemmWarpPolicy.FullCol

    @staticmethod
    def to_prime_factors(number: int) -> list[int]:
        """Prime factors of ``number`` in ascending order."""
        factors: list[int] = []
        factor = 2
        while number > 1:
            while number % factor == 0:
                factors.append(factor)
                number //= factor
            factor += 1
        return factors

    @classmethod
    def from_warp_partition(cls, m_warp: int, n_warp: int) -> GemmWarpPolicy:
        """The policy whose shape is ``m_warp`` by ``n_warp`` warps."""
        if n_warp == 1:
            return cls.FullRow
        return cls.FullCol if m_warp == 1 else cls.Square

    def compute_warp_partition(
        self, M: int, N: int, num_warps: int, *, n_unit: int = 8, m_group: int = 1
    ) -> tuple[int, int]:
        """Warps along rows and along columns.

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
